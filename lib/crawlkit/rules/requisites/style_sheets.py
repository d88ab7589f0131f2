"""Addresses that a style sheet loads: url(), @import and image-set() (CSS Syntax 3, CSS Values 4
4.5, CSS Cascade 5 2).

One regular expression reads the tokens that matter, so that time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from crawlkit.rules.page.encoding import header_charset
from crawlkit.rules.page.whatwg_encodings import decode_as, encoding_of

_HEX = r"[0-9a-fA-F]{1,6}+(?:\r\n|[ \t\n\r\f])?"  # of an escape (CSS Syntax 3 4.3.7)
_ESCAPED = rf"\\(?:{_HEX}|[^\n\r\f])"
_NAME = r"[-\w\x80-\U0010ffff]"
_OPEN = {q: rf"{q}(?:[^{q}\\\n\r\f]++|\\(?:{_HEX}|\r\n|[\s\S]))*+" for q in "\"'"}
_STRING = f"(?:{'|'.join(rf'{text}(?:{q}|{chr(92)}Z)' for q, text in _OPEN.items())})"
_ANY_STRING = f"(?:{'|'.join(f'{text}{q}?' for q, text in _OPEN.items())})"  # cut by a line end too
_GAP = r"(?:[ \t\n\r\f]++|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z))*+"
_SPACE = r"[ \t\n\r\f]*+"
_BEGINS = rf"(?<!{_NAME})"  # no name goes on here
_TOKEN = re.compile(
    rf"/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z)"
    rf"|@import{_GAP}(?P<import>{_STRING})"
    rf"|@namespace(?![-\w])(?:{_ANY_STRING}|[^;{{}}\"'])*+"  # names a vocabulary, and loads nothing
    rf"|{_BEGINS}url\({_SPACE}(?:(?P<quoted>{_STRING})|(?=[\"'])"
    rf"|(?P<plain>(?:[^\"'()\\\s\x00-\x08\x0e-\x1f\x7f]++|{_ESCAPED})*+){_SPACE}(?:\)|\Z)"
    rf"|(?:[^)\\]++|\\[\s\S]?)*+)"  # the remnants of a bad url
    rf"|{_BEGINS}(?:-webkit-)?image-set\((?=(?P<set>(?:{_ANY_STRING}|\([^()]*+\)|[^()\"'])*+))"
    rf"|{_ANY_STRING}|{_ESCAPED}(?:{_NAME}|{_ESCAPED})*+",
    re.IGNORECASE,
)
_IN_SET = re.compile(rf"\([^()]*+\)|({_STRING})")  # what is in brackets is a type() or a url()
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|[ \t\n\r\f])?|(\r\n|[\n\r\f])|([\s\S]?))")
_CHARSET = re.compile(rb'@charset "([^"\n]{1,1000})";')
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16le"), (b"\xfe\xff", "utf-16be"))


def css_urls(css: str) -> Iterator[str]:
    """Addresses as written (escapes undone) that a style sheet or a style attribute loads, in
    order, with repeats. Names spelt with escapes (`\\75rl(x)`) are not known. Never raises.
    """
    for m in _TOKEN.finditer(css):
        if m["import"] or m["quoted"]:
            yield _unquote(m["import"] or m["quoted"])
        elif m["plain"]:
            yield _unescape(m["plain"])
        elif m["set"]:
            yield from (_unquote(s[1]) for s in _IN_SET.finditer(m["set"]) if s[1])


def _unquote(text: str) -> str:
    closed = len(text) > 1 and text[-1] == text[0] and not _is_escaped_end(text)
    return _unescape(text[1:-1] if closed else text[1:])


def _is_escaped_end(text: str) -> bool:
    """Whether a string's last character is escaped: the end of the sheet cut it."""
    before = text[1:-1]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_escaped, text) if "\\" in text else text


def _escaped(m: re.Match[str]) -> str:
    """The character of an escape (CSS Syntax 3 4.3.7); an escaped line end is nothing."""
    if m[1] is None:
        return m[3] or ""
    code = int(m[1], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def decode_css(body: bytes, content_type: str | None) -> str:
    """Text of a style sheet (CSS Syntax 3 3.2): by its byte order mark, header, @charset, else
    UTF-8. Never raises.
    """
    for mark, name in _BOMS:
        if body.startswith(mark):
            return decode_as(body[len(mark) :], name)
    named = encoding_of(header_charset(content_type) or "")
    if named is None and (m := _CHARSET.match(body)):
        named = encoding_of(m[1].decode("latin-1"))
        named = "utf-8" if named and named.startswith("utf-16") else named
    return decode_as(body, named or "utf-8")
