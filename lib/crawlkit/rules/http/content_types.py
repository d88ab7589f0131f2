"""What kind of document a body is: by its Content-Type, and by its first bytes where that says
nothing (MIME Sniffing 7).

A `content_type` is the field's value, of several lines in one answer their list (RFC 9110 5.3).
"""

from __future__ import annotations

import re

_KINDS = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/vnd.wap.xhtml+xml": "html",
    "text/plain": "text",
    "text/markdown": "text",
    "text/csv": "text",
    "application/json": "json",
    "text/json": "json",
    "application/feed+json": "json",
    "text/xml": "xml",
    "application/xml": "xml",
    "application/pdf": "pdf",
    "application/x-pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
}
_UNKNOWN = frozenset(
    {
        "",
        "unknown/unknown",
        "application/unknown",
        "*/*",
        "application/octet-stream",
        "binary/octet-stream",
    }
)
_TYPE = re.compile(
    r"[ \t]*([A-Za-z0-9!#$&^_.+*-]{1,127}/[A-Za-z0-9!#$&^_.+*-]{1,127})[ \t]*(?:;|,|\Z)"
)
_MEMBER = re.compile(r"""(?:[^,"]|"(?:[^"\\]|\\.)*"?)+""", re.DOTALL)
_PARAMETER = re.compile(
    r""";[ \t]*+([^\s;="]*+)[ \t]*+(?:=[ \t]*+"""
    r"""(?:"((?:[^"\\]++|\\.)*+)"?+|'([^';]*+)'?+|([^\s;,"']++)))?+[^;]*+""",
    re.S,
)
_PAIR = re.compile(r"\\(.)", re.DOTALL)  # RFC 9110 5.6.4
_HTML = re.compile(
    rb"[\t\n\x0c\r ]*(?:<!--|<(?:!doctype"
    rb" html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|meta"
    rb"|link)[\t\n\x0c\r"
    rb" />])",
    re.IGNORECASE,
)
_XHTML = re.compile(
    rb"[\t\n\x0c\r ]*(?:<\?xml[^>]{0,200}>)?[^<]{0,200}(?:<!--.{0,500}?-->[\t\n\x0c\r"
    rb" ]*)?(?:<!doctype html[^>]{0,300}>[\t\n\x0c\r ]*)?<html[\s>]",
    re.IGNORECASE | re.DOTALL,
)


def charset_parameter(content_type: str) -> str | None:
    """The first charset parameter that says something, of one type; quoted strings of other
    parameters hold none.
    """
    return next(
        (
            _PAIR.sub(r"\1", values[0]) or values[1] or values[2]
            for name, *values in _PARAMETER.findall(content_type)
            if name.lower() == "charset" and any(values)
        ),
        None,
    )


def sole_type(content_type: str | None) -> str:
    """The one type that counts of several: the last valid one, with the charset of one before it of
    the same type (Fetch Standard, extract a MIME type).
    """
    text = (content_type or "")[:4096]
    if "," not in text:
        return text
    found, essence, charset = "", "", None
    for member in _MEMBER.findall(text):
        m = _TYPE.match(member)
        if not m or m[1] == "*/*":
            continue
        own = charset_parameter(member)
        charset = own or (charset if m[1].lower() == essence else None)
        essence, found = (
            m[1].lower(),
            member if own or not charset else f'{member};charset="{charset}"',
        )
    return found or text


def media_type(content_type: str | None) -> str:
    """Type and subtype in lower case, without parameters; empty if absent or malformed."""
    m = _TYPE.match(sole_type(content_type))
    return m[1].lower() if m else ""


def kind_of(body: bytes, content_type: str | None) -> str:
    """html, text, json, xml, pdf, docx, image or other."""
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
    if declared.startswith("image/"):
        return "image"
    return (
        "text"
        if declared.startswith("text/") and declared not in ("text/css", "text/javascript")
        else "other"
    )


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
