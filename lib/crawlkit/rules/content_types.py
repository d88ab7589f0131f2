"""What kind of document a body is: by its Content-Type, and by its first bytes where that says nothing (MIME Sniffing 7)."""

from __future__ import annotations

import re

_KINDS = {
    "text/html": "html", "application/xhtml+xml": "html", "application/vnd.wap.xhtml+xml": "html",
    "text/plain": "text", "text/markdown": "text", "text/csv": "text",
    "application/json": "json", "text/json": "json", "application/feed+json": "json",
    "text/xml": "xml", "application/xml": "xml",
    "application/pdf": "pdf", "application/x-pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
}  # fmt: skip
_UNKNOWN = frozenset({"", "unknown/unknown", "application/unknown", "*/*", "application/octet-stream", "binary/octet-stream"})
_TYPE = re.compile(r"[ \t]*([A-Za-z0-9!#$&^_.+*-]{1,127}/[A-Za-z0-9!#$&^_.+*-]{1,127})[ \t]*(?:;|,|\Z)")
_HTML = re.compile(
    rb"[\t\n\x0c\r ]*(?:<!--|<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|meta|link)[\t\n\x0c\r />])", re.IGNORECASE
)
_XHTML = re.compile(
    rb"[\t\n\x0c\r ]*(?:<\?xml[^>]{0,200}>)?[^<]{0,200}(?:<!--.{0,500}?-->[\t\n\x0c\r ]*)?(?:<!doctype html[^>]{0,300}>[\t\n\x0c\r ]*)?<html[\s>]",
    re.IGNORECASE | re.DOTALL,
)


def media_type(content_type: str | None) -> str:
    """Type and subtype in lower case, without parameters; empty if absent or malformed."""
    m = _TYPE.match((content_type or "")[:1000])
    return m[1].lower() if m else ""


def kind_of(body: bytes, content_type: str | None) -> str:
    """html, text, json, xml, pdf, docx or other."""
    declared = media_type(content_type)
    kind = _KINDS.get(declared)
    head = body[:1024].removeprefix(b"\xef\xbb\xbf")
    if kind == "xml":
        # pages with an XML type are read as HTML: their links count
        return "html" if _XHTML.match(head) else "xml"
    if kind:
        return kind
    if declared.endswith("+xml"):
        return "xml"
    if declared.endswith("+json"):
        return "json"
    if declared in _UNKNOWN:
        return _sniff(head)
    return "text" if declared.startswith("text/") and declared not in ("text/css", "text/javascript") else "other"


def _sniff(head: bytes) -> str:
    if _HTML.match(head) or _XHTML.match(head):
        return "html"
    if head.startswith(b"%PDF-"):
        return "pdf"
    if head.lstrip(b"\t\n\x0c\r ").startswith(b"<?xml"):
        return "xml"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "text"
    # MIME Sniffing 7.1: a binary data byte says that it is no text
    return "other" if not head or re.search(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]", head) else "text"
