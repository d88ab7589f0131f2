"""What of an HTTP exchange is stored in a WARC record, byte for byte, and what is not (WARC 1.1
5.3, 6.3, Annex C).
"""

from __future__ import annotations

import re

MOVED = b"X-Crawler-"  # put before a field name that is not true of the stored payload
_FRAMING = re.compile(
    rb"^(transfer-encoding|content-length)([ \t]*:[ \t]*)([^\r\n]*)", re.IGNORECASE | re.MULTILINE
)
_SECRETS = re.compile(
    rb"^(?:authorization|cookie|proxy-authorization)[ \t]*:[^\n]*\n", re.IGNORECASE | re.MULTILINE
)
_SET_COOKIE = re.compile(
    rb"^set-cookie2?[ \t]*:[^\n]*\n(?:[ \t][^\n]*\n)*", re.IGNORECASE | re.MULTILINE
)
_LATER_PROTOCOL = re.compile(rb"HTTP/([23])(?:\.\d)?(?=[ \t])")


def stored_head(header_bytes: bytes, body_bytes: int, status: int | None = None) -> bytes:
    """Status line and header as received, except that the payload is stored without transfer
    coding: Transfer-Encoding and a Content-Length other than `body_bytes` are renamed
    (X-Crawler-...), so that a reader who trusts the stored header reads the stored payload. A 304
    speaks of a body that it does not carry: its length stays. A status line of HTTP/2 or 3 is
    written as HTTP/1.1, which is what readers know.
    """

    def rename(match: re.Match[bytes]) -> bytes:
        true_length = match[1].lower() == b"content-length" and (
            status == 304 or match[3].strip(b" \t") == b"%d" % body_bytes
        )
        return match[0] if true_length else MOVED + match[0]

    head = _FRAMING.sub(rename, header_bytes)
    return b"HTTP/1.1" + head[later.end() :] if (later := _LATER_PROTOCOL.match(head)) else head


def stored_request(request_bytes: bytes) -> bytes:
    """The request as sent, without the lines that carry credentials or cookies."""
    return _SECRETS.sub(b"", request_bytes)


def without_set_cookie(header_bytes: bytes) -> bytes:
    """A header without the cookies of a session."""
    return _SET_COOKIE.sub(b"", header_bytes)


def protocol(http_version: str) -> str | None:
    """ALPN name (RFC 7301, RFC 9113) of a protocol that the stored status line does not tell."""
    return {"2": "h2", "3": "h3"}.get(http_version[:1])


def target_uri(url: str) -> str:
    """The URL without credentials and fragment (WARC 1.1 5.6: without angle brackets)."""
    url = url.partition("#")[0]
    scheme, sep, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{sep}{authority.rpartition('@')[2]}{slash}{path}"
