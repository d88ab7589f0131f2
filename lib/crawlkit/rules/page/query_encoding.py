"""The Encoding Standard's encoders, as far as links need them: characters of a query in the
document's encoding.

Each is the decoder of charset_codecs read backwards: the first pair of bytes of a character, with
the standard's exceptions.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import quote_from_bytes

from crawlkit.rules.page.whatwg_encodings import SINGLE_BYTE, decode_as

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_MULTI_BYTE = frozenset({"gbk", "gb18030", "big5", "euc-kr", "euc-jp", "shift_jis", "iso-2022-jp"})
_LAST_PAIR = frozenset(
    "\u2550\u255e\u2561\u256a\u5341\u5345"
)  # of which Big5 takes the last pair (4.6, index Big5 pointer)
_HALF_WIDTH = {chr(0xFF61 + n): bytes([0xA1 + n]) for n in range(63)}
_MARKS = {"\uff9e": "\u309b", "\uff9f": "\u309c"}


def document_query(reference: str, name: str) -> str:
    """A reference whose query is escaped in the document's encoding, as browsers send it (WHATWG
    URL 1.3, 4.4).

    Characters that the encoding lacks become escaped numeric references. Path and ASCII are left
    alone.
    """
    head, mark, query = reference.partition("?")
    if (
        not mark
        or query.isascii()
        or "#" in head
        or not (name in SINGLE_BYTE or name in _MULTI_BYTE)
    ):
        return reference
    query, hash_, fragment = query.partition("#")
    return head + mark + _BEYOND_ASCII.sub(lambda m: _escape(m[0], name), query) + hash_ + fragment


def _escape(run: str, name: str) -> str:
    if name == "iso-2022-jp":
        return _escaped_iso_2022_jp(run)
    known, out = _encoder(name), []
    for char in run:
        raw = known.get(char)
        if raw is None and name in ("gbk", "gb18030") and char not in "\ue5e5\ue7c7":
            raw = char.encode(
                "gb18030", "replace"
            )  # four bytes, or the pair that the character had before GB 18030-2022
            if name == "gbk" and len(raw) != 2:
                raw = None
        # a trail byte below 0x80 is none that a query escapes
        out.append(
            "".join([chr(b) if b < 0x80 else f"%{b:02X}" for b in raw])
            if raw
            else f"%26%23{ord(char)}%3B"
        )
    return "".join(out)


def _escaped_iso_2022_jp(run: str) -> str:
    known, out, double = _encoder("euc-jp"), [], False
    for char in [*run, ""]:
        wide = (
            _MARKS.get(char) or unicodedata.normalize("NFKC", char) if char in _HALF_WIDTH else char
        )
        raw = known.get(wide, b"")
        if (len(raw) == 2) != double:
            double = not double
            out.append("%1B%24B" if double else "%1B%28B")
        if double:
            out.append(quote_from_bytes(bytes(b & 0x7F for b in raw), ""))
        elif raw:
            out.append(f"%1B%28J{quote_from_bytes(raw, '')}%1B%28B")
        elif char:
            out.append(f"%26%23{ord(char)}%3B")
    return "".join(out)


@lru_cache(maxsize=64)
def _encoder(name: str) -> dict[str, bytes]:
    """Bytes of each character beyond ASCII; of several the first."""
    if name in SINGLE_BYTE:
        return {
            char: raw
            for raw in (bytes([b]) for b in range(0xFF, 0x7F, -1))
            if (char := decode_as(raw, name)) != "\ufffd"
        }
    found: dict[str, bytes] = {}
    for raw in _pairs(name):
        char = decode_as(raw, name)
        if (
            len(char) == 1
            and char != "\ufffd"
            and (char not in found or (name == "big5" and char in _LAST_PAIR))
        ):
            found[char] = raw
    if name in ("euc-jp", "shift_jis"):
        found |= {
            char: b"\x8e" + raw if name == "euc-jp" else raw for char, raw in _HALF_WIDTH.items()
        }
        found |= {"\xa5": b"\\", "\u203e": b"~", "\u2212": found["\uff0d"]}
        if name == "shift_jis":
            found["\x80"] = b"\x80"
    elif name in ("gbk", "gb18030"):
        found.pop("\ue5e5", None)
        found |= {"\u20ac": b"\x80"} if name == "gbk" else {"\ue7c7": b"\x81\x35\xf4\x37"}
    return found


def _pairs(name: str) -> Iterator[bytes]:
    """The pairs of bytes that an encoder may give, in the order of the index."""
    for lead in range(0xA1 if name in ("big5", "euc-jp") else 0x81, 0xFF):
        for trail in range(0xA1 if name == "euc-jp" else 0x40, 0xFF):
            if name == "shift_jis":
                pointer = (
                    (lead - (0x81 if lead < 0xA0 else 0xC1)) * 188
                    + trail
                    - (0x40 if trail < 0x7F else 0x41)
                )
                if (
                    0xA0 <= lead < 0xE0
                    or lead > 0xFC
                    or 8272 <= pointer <= 10715
                    or trail == 0x7F
                    or trail > 0xFC
                ):
                    continue  # NEC's selection of IBM's characters, and the user's own
            yield bytes((lead, trail))
