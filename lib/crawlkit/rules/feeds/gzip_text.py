"""Bytes that may be gzip, as text in pieces, within bounds: what sitemaps and feeds are
read from.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator

from crawlkit.rules.page.whatwg_encodings import encoding_of

MAX_BYTES = 50 * 1024 * 1024  # of the unpacked file (sitemaps protocol)
_CHUNK = 1 << 18
_GZIP = b"\x1f\x8b"
_GZIP_LAYERS = 2  # a .gz file sent with Content-Encoding: gzip
_DECLARATION = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})[\"']")
_CODECS = {
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
    "windows-874": "cp874",
    "macintosh": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic",
    "iso-8859-8-i": "iso8859-8",
    "iso-2022-jp": "iso2022_jp",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
}


class Source:
    """Text of a file in pieces, and what became of its bytes.

    Up to two layers of gzip are removed, by their magic bytes; several members are one file. At
    most `max_bytes` are unpacked. The encoding is the byte order mark's, else `charset` (of
    Content-Type), else the XML declaration's, else UTF-8.
    """

    def __init__(self, body: bytes, charset: str | None = None, max_bytes: int = MAX_BYTES) -> None:
        self._body = body
        self._charset = charset
        self._max_bytes = max_bytes
        self.decoded_bytes = 0
        self.cut = False  # damaged, or longer than max_bytes

    def text(self) -> Iterator[str]:
        """The decoded text in pieces, within the bound of bytes."""
        decoder = None
        for piece in self._bytes():
            if decoder is None:
                decoder = _decoder(piece, self._charset)
            yield decoder.decode(piece)
        if decoder is not None:
            yield decoder.decode(b"", True)

    def _bytes(self) -> Iterator[bytes]:
        pieces: Iterator[bytes] = (
            self._body[at : at + _CHUNK] for at in range(0, len(self._body), _CHUNK)
        )
        for _ in range(_GZIP_LAYERS):
            head = next(pieces, b"")
            if len(head) == 1:
                head += next(pieces, b"")
            pieces = _chain(head, pieces)
            if head[:2] != _GZIP:
                break
            pieces = self._gunzip(pieces)
        for piece in pieces:
            room = self._max_bytes - self.decoded_bytes
            if len(piece) > room:
                self.cut = True
                piece = piece[:room]
            self.decoded_bytes += len(piece)
            if piece:
                yield piece
            if self.cut and room <= len(piece):
                return

    def _gunzip(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        left = self._max_bytes + 1  # of this layer
        member = zlib.decompressobj(31)
        try:
            for piece in pieces:
                while piece and left > 0:
                    if member.eof:
                        if not (piece[:2] == _GZIP or len(piece) == 1):
                            return  # padding behind the last member
                        member = zlib.decompressobj(31)
                    out = member.decompress(piece, min(_CHUNK, left))
                    left -= len(out)
                    if out:
                        yield out
                    piece = member.unconsumed_tail or member.unused_data
                if left <= 0:
                    self.cut = True
                    return
            if not member.eof:
                yield member.flush()
                self.cut = True
        except zlib.error:
            self.cut = True


def _chain(head: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    if head:
        yield head
    yield from pieces


def _decoder(head: bytes, charset: str | None) -> codecs.IncrementalDecoder:
    name = encoding_of(charset or "")
    if head.startswith(codecs.BOM_UTF8):
        name = "utf-8"
    elif head[:2] == codecs.BOM_UTF16_LE or head[:4] == b"<\0?\0":
        name = "utf-16le"
    elif head[:2] == codecs.BOM_UTF16_BE or head[:4] == b"\0<\0?":
        name = "utf-16be"
    elif name is None and (declared := _DECLARATION.match(head)):
        name = encoding_of(declared[1].decode("ascii"))
        if name in ("utf-16le", "utf-16be"):  # it could not have been read
            name = "utf-8"
    try:
        return codecs.getincrementaldecoder(_CODECS.get(name or "utf-8", name or "utf-8"))(
            "replace"
        )
    except LookupError:
        return codecs.getincrementaldecoder("utf-8")("replace")
