"""Character encoding of a page by the HTML Standard's order (13.2.3.2): byte order mark, header,
meta prescan, detection.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

import cchardet

from crawlkit.rules.http.content_types import charset_parameter, sole_type
from crawlkit.rules.page.whatwg_encodings import decode_as, encoding_of

# 1,024 bytes are the standard's prescan; a parser that meets a later meta changes the encoding
# (13.2.3.5)
PRESCAN_BYTES = 64 * 1024
DETECT_BYTES = 64 * 1024
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16le"), (b"\xfe\xff", "utf-16be"))
_SPACE = b"\t\n\x0c\r "


class Encoding(NamedTuple):
    """`name`: WHATWG name in lower case. `how`: bom, header, meta, xml, detected or default."""

    name: str
    how: str


def detect_encoding(body: bytes, content_type: str | None = None) -> Encoding:
    """Encoding of `body`, an HTML or other text, given its Content-Type field (None: absent).

    Never raises.
    """
    for mark, name in _BOMS:
        if body.startswith(mark):
            return Encoding(name, "bom")
    declared = encoding_of(header_charset(content_type) or "")
    if declared:
        return Encoding(declared, "header")
    media_type = sole_type(content_type).partition(";")[0].strip().lower()
    if (
        not media_type or "ml" in media_type or media_type.endswith("/octet-stream")
    ):  # plain text has no markup to declare it
        head = body[:PRESCAN_BYTES]
        xml = _xml_encoding(head)
        meta = None if xml and "xml" in media_type else prescan(head)
        if meta or xml:
            return Encoding(meta, "meta") if meta else Encoding(xml or "", "xml")
    return _detect(body)


def decode(body: bytes, content_type: str | None = None) -> tuple[str, Encoding]:
    """Text of `body` without its byte order mark, and the encoding used. Bad bytes become U+FFFD.

    Never raises.
    """
    encoding = detect_encoding(body, content_type)
    if encoding.how == "bom":
        body = body[3 if encoding.name == "utf-8" else 2 :]
    return decode_as(body, encoding.name), encoding


def decode_utf8(body: bytes, content_type: str | None = None) -> tuple[bytes, Encoding]:
    """`decode`, its text in UTF-8: most pages are, and then nothing is copied."""
    encoding = detect_encoding(body, content_type)
    if encoding.name in ("utf-8", "windows-1252") and body.isascii():
        return body, encoding
    if encoding.how == "bom":
        body = body[3 if encoding.name == "utf-8" else 2 :]
    if encoding.name == "utf-8" and is_utf8(body):
        return body, encoding
    return decode_as(body, encoding.name).encode("utf-8", "replace"), encoding


def is_utf8(raw: bytes) -> bool:
    """Whether bytes are UTF-8 (RFC 3629)."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def header_charset(content_type: str | None) -> str | None:
    """The charset parameter of a Content-Type field, first one first (RFC 9110 8.3.1, 5.6.6); None
    if absent.
    """
    return charset_parameter(sole_type(content_type))


def prescan(head: bytes) -> str | None:
    """Encoding that the first bytes declare in a meta element (HTML Standard 13.2.3.3, prescan a
    byte stream).
    """
    if head.startswith(b"<\0?\0x\0"):
        return "utf-16le"
    if head.startswith(b"\0<\0?\0x"):
        return "utf-16be"
    low, pos = head.lower(), 0
    last = low.rfind(b"charset")
    while (m := _MARKUP.search(low, pos)) and m.start() < last:
        pos = m.end()
        if m.group().startswith(b"<meta"):
            name, pos = _meta_encoding(low, pos - 1)
            if name:
                return name
        elif m.group()[-1:].isalpha():
            pos = _TAG.match(low, pos).end()  # type: ignore[union-attr]
        else:
            # "<!-->" is a whole comment
            pos = (
                low.find(b"-->", m.start() + 2)
                if m.group() == b"<!--"
                else low.find(b">", m.start())
            )
            if pos < 0:
                return None
    return None


_MARKUP = re.compile(rb"<(?:!--|meta[\t\n\x0c\r /]|/?[a-z]|[!/?])")


# The rest of a tag, its attributes taken as by "get an attribute": up to the ">", or all if there
# is none.
_TAG = re.compile(
    rb"[^\t\n\x0c\r >]*+(?:[\t\n\x0c\r /]*+[^\t\n\x0c\r />][^\t\n\x0c\r />=]*+"
    rb"(?:[\t\n\x0c\r ]*+=[\t\n\x0c\r ]*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^\t\n\x0c\r"
    rb" >]*+))?+)*+[\t\n\x0c\r /]*+"
)


def _meta_encoding(low: bytes, pos: int) -> tuple[str | None, int]:
    seen: set[bytes] = set()
    pragma, need_pragma, charset = False, None, None
    while True:
        attr, pos = _attribute(low, pos)
        if attr is None:
            break
        name, value = attr
        if name in seen:
            continue
        seen.add(name)
        if name == b"http-equiv":
            pragma = value == b"content-type"
        elif name == b"content" and charset is None:
            label = charset_of_content(value.decode("latin-1"))
            if label and encoding_of(label):
                charset, need_pragma = encoding_of(label), True
        elif name == b"charset":
            charset, need_pragma = encoding_of(value.decode("latin-1")), False
    # a declaration cut by the end of the bytes is none
    if pos >= len(low) or need_pragma is None or (need_pragma and not pragma) or not charset:
        return None, pos
    return {"utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": "windows-1252"}.get(
        charset, charset
    ), pos


def _attribute(low: bytes, pos: int) -> tuple[tuple[bytes, bytes] | None, int]:
    """The standard's "get an attribute": (name, value) and the next position; None at the end of
    the tag or bytes.
    """
    end = len(low)
    while pos < end and low[pos] in _SPACE + b"/":
        pos += 1
    if pos >= end or low[pos] == 0x3E:
        return None, pos
    start = pos
    while pos < end and low[pos] not in b"\t\n\x0c\r />" and (low[pos] != 0x3D or pos == start):
        pos += 1
    name = low[start:pos]
    while pos < end and low[pos] in _SPACE:
        pos += 1
    if pos >= end or low[pos] != 0x3D:
        return ((name, b""), pos) if pos < end else (None, pos)
    pos += 1
    while pos < end and low[pos] in _SPACE:
        pos += 1
    if pos >= end:
        return None, pos
    if low[pos] in b"\"'":
        close = low.find(low[pos : pos + 1], pos + 1)
        return ((name, low[pos + 1 : close]), close + 1) if close >= 0 else (None, end)
    start = pos
    while pos < end and low[pos] not in b"\t\n\x0c\r >":
        pos += 1
    return ((name, low[start:pos]), pos) if pos < end else (None, end)


_CONTENT_CHARSET = re.compile(
    r"""charset[\t\n\x0c\r ]*=[\t\n\x0c\r ]*"""
    r"""(?:"([^"]*)"|'([^']*)'|([^\t\n\x0c\r ;"'][^\t\n\x0c\r ;]*))""",
    re.I,
)


def charset_of_content(content: str) -> str | None:
    """Label in a meta's content value (HTML Standard, extracting a character encoding from a meta
    element).
    """
    m = _CONTENT_CHARSET.search(content[:4096])
    return next(g for g in m.groups() if g is not None) if m else None


_XML_DECLARATION = re.compile(
    rb"""<\?xml[\t\n\r ][^>]*?encoding[\t\n\r ]*=[\t\n\r ]*["']([^"'>]{1,60})["']"""
)


def _xml_encoding(head: bytes) -> str | None:
    m = _XML_DECLARATION.match(head)
    name = encoding_of(m.group(1).decode("latin-1")) if m else None
    return "utf-8" if name in ("utf-16le", "utf-16be") else name


def _detect(body: bytes) -> Encoding:
    if body.isascii() and b"\x1b$" not in body[:DETECT_BYTES] and b"\0" not in body[:64]:
        return Encoding("windows-1252", "default")
    head = body[:DETECT_BYTES]
    zeros = head[:1024].count(0)
    if zeros * 4 > len(head[:1024]):
        return Encoding(
            "utf-16le" if head[1:1024:2].count(0) * 2 > zeros else "utf-16be", "detected"
        )
    # the bytes from the first one beyond ASCII on tell most
    first = next((i for i in range(0, len(body), 4096) if not body[i : i + 4096].isascii()), None)
    sample = body[first or 0 : (first or 0) + DETECT_BYTES]
    if first is not None and (is_utf8(body) or _mostly_utf8(sample)):
        return Encoding("utf-8", "detected")
    found = cchardet.detect(sample)
    name = encoding_of(
        _ALIASES.get((found.get("encoding") or "").lower(), found.get("encoding") or "")
    )
    if not name or name == "replacement" or (found.get("confidence") or 0) < 0.3:
        return Encoding("windows-1252", "default")
    return Encoding(name, "detected")


def _mostly_utf8(part: bytes) -> bool:
    """Whether wrong bytes are few among characters of UTF-8: what is in another encoding hardly
    makes any. A character may be cut at the end.
    """
    text, read = codecs.utf_8_decode(part, "replace", False)
    wrong = text.count("\ufffd")
    return len(_BEYOND_ASCII.findall(text)) - wrong >= max(1, 10 * wrong)


_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_ALIASES = {
    "uhc": "euc-kr",
    "cp949": "euc-kr",
    "utf-8-sig": "utf-8",
    "mac-cyrillic": "x-mac-cyrillic",
}
