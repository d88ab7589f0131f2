"""Tags and texts of sitemaps and feeds (untrusted input), scanned in pieces and within
bounds.

It is no XML parser. It knows tags by local name, text, CDATA, comments and the escapes of
characters, and has no notion of entities, DTDs or external files: there is nothing to expand and
nothing to open. What is not well-formed (a raw `&`, white space before the declaration, a cut end)
is read as far as it is clear.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from crawlkit.rules.feeds.gzip_text import Source

MAX_EVENTS = 50_000  # tags of interest, comments and the like, beside those that addresses pay for
EVENTS_AN_ADDRESS = 40  # what each new address may bring: images, alternates
MAX_TOKEN = 65_536  # characters of one tag or text

_ANY_TAG = re.compile(
    r"<(?=[!?/A-Za-z_])(?:(!--)|(!\[CDATA\[)|(\?)|(!DOCTYPE)|(/?)(?:[^\s<>/:!?\"'=]{1,64}"
    r"+:)?([A-Za-z_][^\s<>/:!?\"'=]{0,63})(?=[\s/>]))",
    re.IGNORECASE,
)
_TAG_REST = re.compile(r"[^<>\"']*(?:(?:\"[^\"<]*\"|'[^'<]*')[^<>\"']*)*>")
_ATTRIBUTE = re.compile(r"(?<![^\s\"'])([^\s=<>\"'/]{1,64})\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_DOCTYPE_STEP = re.compile(r"<!--|<\?|[\"'\[\]>]")
_DOCTYPE_ENDS = {"<!--": "-->", "<?": "?>", '"': '"', "'": "'"}


class Event(NamedTuple):
    """One tag of interest: local name in lower case, its attributes as written, and the text up to
    the next tag.

    `whole`: the text was followed by a tag, so it was not cut off.
    """

    name: str
    closing: bool
    empty: bool
    attributes: str
    text: str
    whole: bool


class Scanner:
    """Events of a source, one after the other."""

    def __init__(self, source: Source) -> None:
        self._pieces = source.text()
        self._buffer = ""
        self._at = 0
        self._ended = False
        self.credit = MAX_EVENTS
        self.limited = False  # out of credit, or a DOCTYPE without end
        self.declares = (
            False  # a DTD's internal subset was skipped: references may stand for anything
        )

    def root(self) -> Event | None:
        """The first tag; None if there is none, or if other text comes before it."""
        while not self._ended and not self._buffer.strip("\ufeff \t\r\n"):
            self._buffer = ""
            self._more()
        self._buffer = self._buffer.lstrip("\ufeff \t\r\n\xa0")
        if not self._buffer.startswith("<"):
            return None
        return next(self._scan(_ANY_TAG, frozenset()), None)

    def starts_with(self, text: str) -> bool:
        """Whether a file that has no root begins so."""
        return self._buffer.startswith(text)

    def rest(self, most: int) -> str:
        """The text of such a file, one character more than `most` of it at most; it stays to be
        read.
        """
        while not self._ended and len(self._buffer) <= most:
            self._more()
        return self._buffer[: most + 1]

    def lines(self) -> Iterator[str]:
        """Lines of a file that has no root; a line longer than MAX_TOKEN is cut there."""
        while True:
            head, *rest = self._buffer[self._at :].splitlines(keepends=True) or [""]
            if rest or self._ended:
                for line in [head, *rest][: None if self._ended else -1]:
                    yield line[:MAX_TOKEN].strip()
                if self._ended:
                    return
                self._buffer, self._at = rest[-1], 0
            elif len(head) > MAX_TOKEN * 8:
                self._buffer, self._at = head[:MAX_TOKEN], 0
            self._more()

    def events(
        self, openers: frozenset[str], closers: frozenset[str], texts: frozenset[str]
    ) -> Iterator[Event]:
        """Start tags named in `openers` (with their text, if in `texts`) and end tags named in
        `closers`.
        """
        names = "|".join(sorted(map(re.escape, openers), key=len, reverse=True))
        ends = "|".join(sorted(map(re.escape, closers), key=len, reverse=True))
        prefix = r"(?:[^\s<>/:!?\"'=]{1,64}+:)?"
        tags = re.compile(
            rf"<(?=[!?/A-Za-z_])(?:(!--)|(!\[CDATA\[)|(\?)|(!DOCTYPE)|(?:(/)(?={prefix}"
            rf"(?:{ends})[\s>])|(?={prefix}(?:{names})[\s/>])){prefix}([a-z0-9_-]+))",
            re.IGNORECASE,
        )
        return self._scan(tags, texts)

    def _scan(self, tags: re.Pattern[str], texts: frozenset[str]) -> Iterator[Event]:
        while True:
            match = tags.search(self._buffer, self._at)
            if match is None:
                # What may become a tag with the next piece is kept.
                start = self._buffer.rfind("<", max(self._at, len(self._buffer) - 256))
                self._at = start if start >= 0 else len(self._buffer)
                if not self._more():
                    return
                continue
            self.credit -= 1
            if self.credit < 0:
                self.limited = True
                return
            comment, cdata, instruction, doctype, slash, name = match.groups()
            if name is None:
                self._at = match.end()
                if not (
                    self._skip_doctype()
                    if doctype
                    else self._skip("-->" if comment else "]]>" if cdata else "?>")
                ):
                    return
                continue
            rest = _TAG_REST.match(self._buffer, match.end())
            if rest is None and not self._ended and len(self._buffer) - match.start() < MAX_TOKEN:
                self._at = match.start()
                self._more()
                continue
            self._at = match.start()
            end = rest.end() if rest else match.end()
            attributes = self._buffer[match.end() : end - 1] if rest else ""
            name = name.lower()
            text, whole = ("", True)
            if not slash and name in texts and not attributes.endswith("/"):
                text, whole, end = self._text(end)
            self._at = end
            yield Event(
                name, bool(slash), attributes.endswith("/"), attributes[:MAX_TOKEN], text, whole
            )

    def _text(self, start: int) -> tuple[str, bool, int]:
        """(text, whole, end) from `start` to the next tag; CDATA sections are part of it, comments
        are not.
        """
        out: list[str] = []
        at = start
        while True:
            tag = self._buffer.find("<", at)
            if tag < 0 or (not self._ended and len(self._buffer) - tag < 9):
                if not self._ended and len(self._buffer) - start < MAX_TOKEN:
                    start, at = self._grow(start, at)
                    continue
                if tag < 0:
                    return "", False, len(self._buffer)
            out.append(unescape(self._buffer[at:tag]))
            section = (
                "]]>"
                if self._buffer.startswith("<![CDATA[", tag)
                else "-->"
                if self._buffer.startswith("<!--", tag)
                else None
            )
            if section is None:
                return ("".join(out), True, tag) if tag - start < MAX_TOKEN else ("", False, tag)
            end = self._buffer.find(section, tag)
            if end < 0:
                if self._ended or len(self._buffer) - start >= MAX_TOKEN:
                    return "", False, len(self._buffer)
                out.pop()
                start, at = self._grow(start, at)
                continue
            if section == "]]>":
                out.append(self._buffer[tag + 9 : end])
            at = end + 3

    def _grow(self, *places: int) -> list[int]:
        """Reads on from the current tag; the places move with the buffer."""
        moved = self._at
        self._more()
        return [place - moved for place in places]

    def _skip(self, end: str) -> bool:
        while (found := self._buffer.find(end, self._at)) < 0:
            self._at = max(self._at, len(self._buffer) - 2)
            if not self._more():
                return False
        self._at = found + len(end)
        return True

    def _skip_doctype(self) -> bool:
        """Skips a document type declaration with its internal subset: what it declares is never
        looked at.
        """
        until, depth, seen = "", 0, 0
        while True:
            step = _DOCTYPE_STEP.search(self._buffer, self._at) if not until else None
            found = (
                step.end()
                if step
                else self._buffer.find(until, self._at) + len(until)
                if until
                else 0
            )
            if found < max(1, len(until)):
                seen += len(self._buffer) - self._at
                self._at = max(self._at, len(self._buffer) - 3)  # the start of a mark may be there
                if seen > MAX_TOKEN or not self._more():
                    self.limited = True
                    return False
                continue
            seen += found - self._at
            self._at = found
            if until:
                until = ""
            elif (mark := step[0]) in _DOCTYPE_ENDS:  # type: ignore[index]
                until = _DOCTYPE_ENDS[mark]
            elif mark == "[":
                depth += 1
                self.declares = True
            elif mark == "]":
                depth -= 1
            elif depth <= 0:
                return True

    def _more(self) -> bool:
        """Drops what is done and reads the next piece; False at the end."""
        piece = next(self._pieces, None)
        self._buffer = self._buffer[self._at :] + (piece or "")
        self._at = 0
        self._ended = piece is None
        return piece is not None


def has_reference(text: str) -> bool:
    """Whether an unescaped text still holds a reference by name."""
    return "&" in text and _REFERENCE.search(text) is not None


def attributes_of(event: Event) -> dict[str, str]:
    """Attributes of a tag by name as written (the prefix included), values unescaped; the first of
    equal names counts.
    """
    found: dict[str, str] = {}
    for name, quoted, single in _ATTRIBUTE.findall(event.attributes):
        found.setdefault(name.lower(), unescape(quoted or single))
    return found


def unescape(text: str) -> str:
    """Character references and named characters that end in `;` (XML 4.1, HTML 13.5); anything else
    stays as written.
    """
    return _REFERENCE.sub(lambda match: html.unescape(match[0]), text) if "&" in text else text
