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
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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


def plain_text(body: bytes, kind: str, content_type: str | None = None) -> PlainText | None:
    """Text of a body of a kind in EXTRACTORS; None for other kinds. Never raises."""
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


_DOCX_BREAKS = re.compile(r"<w:(?:p|br|tab|cr)[ />]")


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
    markup = raw[:MAX_DOCX_BYTES].decode("utf-8", "replace")
    text = html.unescape(_XML_TOKEN.sub("", _DOCX_BREAKS.sub(lambda m: "\n" + m[0], markup)))
    lines = (" ".join(line.split()) for line in text.splitlines())
    return PlainText(
        "\n".join(filter(None, lines))[:MAX_TEXT_CHARS],
        None,
        "utf-8",
        "cut" if len(raw) > MAX_DOCX_BYTES else None,
    )


EXTRACTORS: dict[str, Callable[[bytes, str | None], PlainText]] = {
    "text": _text,
    "json": _json,
    "xml": _xml,
    "pdf": _pdf,
    "docx": _docx,
}
