"""Text of documents that are no HTML: plain text, JSON, XML (feeds, sitemaps), PDF and Word
documents.

`EXTRACTORS` is the table to extend. PDF and Word readers see hostile files in native code or
archives: the caller runs them in a process that it can lose.
"""

from __future__ import annotations

import html
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import lxml.etree

from crawlkit.rules.http.content_types import media_type
from crawlkit.rules.page.encoding import decode

MAX_TEXT_CHARS = 2_000_000
MAX_PDF_PAGES = 500
MAX_DOCX_BYTES = 20 * 1024 * 1024  # of the document part, unpacked


class PlainText(NamedTuple):
    """`error`: why the text is missing or only a part."""

    text: str
    title: str | None = None
    encoding: str | None = None
    error: str | None = None


Extract = Callable[[bytes, str | None], PlainText]  # (body, Content-Type)


def plain_text(
    body: bytes,
    kind: str,
    content_type: str | None = None,
    plugins: Mapping[str, Extract] = MappingProxyType({}),
) -> PlainText | None:
    """Text of a body of a media type in `plugins` or of a kind in EXTRACTORS; None for others.

    Never raises; of a plug-in that does, the error is told.
    """
    plugin = plugins.get(media_type(content_type))
    if plugin is not None:
        try:
            return plugin(body, content_type)
        except Exception as e:  # noqa: BLE001 - not ours
            return PlainText("", error=f"{type(e).__name__}: {str(e)[:100]}")
    extract = EXTRACTORS.get(kind)
    return extract(body, content_type) if extract else None


def _text(body: bytes, content_type: str | None) -> PlainText:
    text, encoding = decode(body, content_type)
    return PlainText(
        text[:MAX_TEXT_CHARS], None, encoding.name, "cut" if len(text) > MAX_TEXT_CHARS else None
    )


def _json(body: bytes, content_type: str | None) -> PlainText:
    text, encoding = decode(body, content_type)
    try:
        strings = list(_strings(json.loads(text)))
    except (ValueError, RecursionError) as e:
        return PlainText(text[:MAX_TEXT_CHARS], None, encoding.name, f"no JSON: {type(e).__name__}")
    return PlainText("\n".join(strings)[:MAX_TEXT_CHARS], None, encoding.name)


def _strings(value: Any) -> Iterator[str]:
    """String values in document order."""
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            todo += reversed(value.values())
        elif isinstance(value, list):
            todo += reversed(value)


_XML_TOKEN = re.compile(
    r"<!\[CDATA\[((?>[^\]]++|\](?!\]>))*+)(?:\]\]>)?|<!--(?>[^-]++|-(?!->))*+(?:-->)?|<[^>]*+>?"
)


def _xml(body: bytes, content_type: str | None) -> PlainText:
    markup, encoding = decode(body, content_type)
    text = _XML_TOKEN.sub(
        lambda m: f" {html.escape(m[1])} " if m[1] else " ", markup[: 5 * MAX_TEXT_CHARS]
    )
    return PlainText(" ".join(html.unescape(text).split())[:MAX_TEXT_CHARS], None, encoding.name)


def _pdf(body: bytes, content_type: str | None) -> PlainText:
    try:
        import pypdfium2
    except ImportError:
        return PlainText("", error="pypdfium2 is not installed")
    out: list[str] = []
    size = 0
    try:
        with pypdfium2.PdfDocument(body) as document:
            title = (document.get_metadata_value("Title") or "").strip() or None
            for number in range(min(len(document), MAX_PDF_PAGES)):
                text = document[number].get_textpage().get_text_bounded()
                out.append(text.replace("\r\n", "\n"))
                size += len(text)
                if size > MAX_TEXT_CHARS:
                    break
            cut = size > MAX_TEXT_CHARS or len(document) > MAX_PDF_PAGES
        return PlainText("\n".join(out)[:MAX_TEXT_CHARS], title, None, "cut" if cut else None)
    except (pypdfium2.PdfiumError, ValueError, UnicodeError, MemoryError) as e:
        return PlainText("\n".join(out), None, None, f"{type(e).__name__}: {str(e)[:100]}")


_DOCX_DECLARATION = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<\?xml[^>]*>")
# Around the document: its prefix is known even if it declares none, and there is no place for a
# DTD, which none has (ISO/IEC 29500-2).
_DOCX_ROOT = b'<root xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
_DOCX_SPACES = (  # transitional and strict (ISO/IEC 29500-1 Annex A)
    "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}",
    "{http://purl.oclc.org/ooxml/wordprocessingml/main}",
)
_DOCX_BREAKS = frozenset(space + name for space in _DOCX_SPACES for name in "p br tab cr".split())


class _DocumentText:
    """What lxml's parser calls: text as it comes, a line's end for each break."""

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """A start tag."""
        if tag in _DOCX_BREAKS:
            self.pieces.append("\n")

    def data(self, text: str) -> None:
        """A piece of text."""
        self.pieces.append(text)

    def close(self) -> str:
        """All of the text until now."""
        return "".join(self.pieces)


def _docx(body: bytes, content_type: str | None) -> PlainText:
    try:
        with (
            zipfile.ZipFile(io.BytesIO(body)) as archive,
            archive.open("word/document.xml") as part,
        ):
            raw = part.read(MAX_DOCX_BYTES + 1)
    except (
        zipfile.BadZipFile,
        KeyError,
        OSError,
        RuntimeError,
        ValueError,
        NotImplementedError,
        EOFError,
        zlib.error,
    ) as e:
        return PlainText("", error=f"{type(e).__name__}: {str(e)[:100]}")
    text, error = _document_text(raw[:MAX_DOCX_BYTES])
    lines = (" ".join(line.split()) for line in text.splitlines())
    return PlainText(
        "\n".join(filter(None, lines))[:MAX_TEXT_CHARS],
        None,
        "utf-8",
        "cut" if len(raw) > MAX_DOCX_BYTES else error,
    )


def _document_text(raw: bytes) -> tuple[str, str | None]:
    """Text of a Word document's XML, as far as it can be read, and why the rest is missing; nothing
    is expanded, nothing else is opened, and no tree is built.
    """
    target = _DocumentText()
    parser = lxml.etree.XMLParser(
        target=target,
        recover=True,
        resolve_entities=False,
        huge_tree=False,
        no_network=True,
        load_dtd=False,
        encoding="utf-8",
    )
    try:
        parser.feed(_DOCX_ROOT)
        parser.feed(_DOCX_DECLARATION.sub(b"", raw))
        parser.close()
    except (lxml.etree.XMLSyntaxError, ValueError) as e:
        return target.close(), f"{type(e).__name__}: {str(e)[:100]}"
    return target.close(), None


_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})  # JPEG: start of frame
MAX_SEGMENTS = 1000


def image_size(body: bytes) -> tuple[int, int] | None:
    """Width and height in pixels of a PNG, GIF, JPEG, WebP or BMP image, from its header
    alone; None if it is none of them. Never raises.
    """
    try:
        if body.startswith(b"\x89PNG\r\n\x1a\n"):
            return struct.unpack_from(">II", body, 16)
        if body[:6] in (b"GIF87a", b"GIF89a"):
            return struct.unpack_from("<HH", body, 6)
        if body.startswith(b"BM"):
            width, height = struct.unpack_from("<ii", body, 18)
            return width, abs(height)
        if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
            return _webp_size(body)
        return _jpeg_size(body) if body.startswith(b"\xff\xd8") else None
    except (struct.error, IndexError):
        return None


def _webp_size(body: bytes) -> tuple[int, int] | None:
    """RFC 9649: the lossy, lossless and extended forms."""
    form = body[12:16]
    if form == b"VP8 ":
        width, height = struct.unpack_from("<HH", body, 26)
        return width & 0x3FFF, height & 0x3FFF
    if form == b"VP8L":
        (bits,) = struct.unpack_from("<I", body, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8X":
        return (
            int.from_bytes(body[24:27], "little") + 1,
            int.from_bytes(body[27:30], "little") + 1,
        )
    return None


def _jpeg_size(body: bytes) -> tuple[int, int] | None:
    """ITU-T T.81, B.2.2: the first frame header."""
    at = 2
    for _ in range(MAX_SEGMENTS):
        while body[at] == 0xFF and body[at + 1] == 0xFF:  # fill bytes
            at += 1
        marker, length = body[at + 1], int.from_bytes(body[at + 2 : at + 4], "big")
        if body[at] != 0xFF or length < 2:
            return None
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", body, at + 5)
            return width, height
        at += 2 + length
    return None


def _image(body: bytes, content_type: str | None) -> PlainText:
    """An image has no text; its size goes into the metadata (image_size)."""
    return PlainText("", error=None if image_size(body) else "no size found")


EXTRACTORS: dict[str, Extract] = {
    "text": _text,
    "json": _json,
    "xml": _xml,
    "pdf": _pdf,
    "docx": _docx,
    "image": _image,
}
