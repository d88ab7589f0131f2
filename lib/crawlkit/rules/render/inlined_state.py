"""What a page carries as data for its own scripts: texts and addresses in its inlined JSON.

A page whose JSON holds its text and its links needs no browser. Only JSON is read, never a script.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any, NamedTuple

MAX_STATE_BYTES = 2 << 20  # of all scripts that are read
MAX_SCRIPTS = 20
MAX_VALUES = 50_000  # of the JSON that are looked at
MAX_TEXT_CHARS = 200_000
MAX_LINKS = 1000
MIN_WORDS = 4  # of a value that counts as text
_SCRIPT = re.compile(
    rb"<script((?:[\t\n\x0c\r /][^<>]{0,1000})?)>([^<]*(?:<(?!/script)[^<]*)*)", re.IGNORECASE
)
_JSON_TYPE = re.compile(rb"type\s*=\s*[\"']?application/json", re.IGNORECASE)
# window.__INITIAL_STATE__ = {...}, self.__APOLLO_STATE__ = JSON.parse would be a script
_ASSIGNED = re.compile(
    rb"\s*(?:(?:window|self|globalThis)\s*\.\s*|(?:var|let|const)\s+)"
    rb"__[A-Za-z0-9_]{1,60}\s*=\s*(?=[{\[])"
)
_TAG = re.compile(r"<[^<>]{0,2000}>")
_ADDRESS_KEYS = frozenset("href url link path permalink canonical to uri".split())
_ADDRESS = re.compile(r"(?:https?:/)?/[^\s<>\"{}|\\^`]{0,2000}\Z")
_MARKED = (b"application/json", b"__")


class InlinedState(NamedTuple):
    """texts: values that read as text, in order. links: addresses as written, without repeats.

    is_cut: a bound was reached, and there may be more.
    """

    texts: list[str]
    links: list[str]
    is_cut: bool = False

    @property
    def text(self) -> str:
        """The texts, one line each."""
        return "\n".join(self.texts)


def read_state(markup: bytes) -> InlinedState:
    """Texts and links in the JSON that the page (UTF-8) carries for its scripts. Never raises.

    Linear in the page's length; within the bounds above, of which `is_cut` tells.
    """
    if not any(mark in markup for mark in _MARKED):
        return InlinedState([], [])
    texts: dict[str, None] = {}
    links: dict[str, None] = {}
    values, is_cut = _values(markup)
    for value in values:
        is_cut |= _collect(value, texts, links)
    return InlinedState([*texts], [*links], is_cut)


def _values(markup: bytes) -> tuple[list[Any], bool]:
    """The JSON of the page's scripts, and whether there are more than are read."""
    found: list[Any] = []
    left = MAX_STATE_BYTES
    for match in _SCRIPT.finditer(markup):
        attributes, body = match[1], match[2]
        start = 0
        if _JSON_TYPE.search(attributes) is None:
            assigned = _ASSIGNED.match(body)
            if assigned is None:
                continue
            start = assigned.end()
        if len(body) - start > left or len(found) >= MAX_SCRIPTS:
            return found, True
        left -= len(body) - start
        try:
            text = body[start:].decode("utf-8", "replace").lstrip()
            found.append(json.JSONDecoder(strict=False).raw_decode(text)[0])
        except (ValueError, RecursionError):
            continue
    return found, False


def _collect(value: Any, texts: dict[str, None], links: dict[str, None]) -> bool:
    """Add what one value holds; whether a bound kept something out."""
    stack: list[tuple[str, Any]] = [("", value)]
    left, chars, is_cut = MAX_VALUES, sum(map(len, texts)), False
    while stack and left and chars < MAX_TEXT_CHARS:
        (key, item), left = stack.pop(), left - 1
        if isinstance(item, dict | list):
            is_cut |= len(item) > left
        if isinstance(item, dict):
            stack += [(k.lower(), v) for k, v in reversed([*item.items()][:left])]
        elif isinstance(item, list):
            stack += [(key, v) for v in reversed(item[:left])]
        elif isinstance(item, str):
            if key in _ADDRESS_KEYS and _ADDRESS.match(item):
                if len(links) < MAX_LINKS:
                    links[item] = None
                is_cut |= item not in links
                continue
            is_cut |= len(item) > MAX_TEXT_CHARS - chars
            if text := _as_text(item[: MAX_TEXT_CHARS - chars]):
                texts[text] = None
                chars += len(text)
    return is_cut or bool(stack)


def _as_text(value: str) -> str:
    """A value as one line of text; empty if it is a token, an address or code."""
    if value.count(" ") < MIN_WORDS - 1:
        return ""
    text = " ".join(html.unescape(_TAG.sub(" ", value)).split())
    letters = sum(c.isalpha() or c == " " for c in text)
    return text if letters >= 0.7 * len(text) and text.count(" ") >= MIN_WORDS - 1 else ""
