"""SHA-1 as WARC records have it: labelled digests (WARC 1.1 5.8, 5.9) and names (5.2)."""

from __future__ import annotations

import base64
import hashlib
import uuid


def sha1_digest(data: bytes, more: bytes = b"") -> str:
    """Labelled digest (`sha1:` and base 32) of both in a row."""
    digest = hashlib.sha1(data)
    if more:
        digest.update(more)
    return "sha1:" + base64.b32encode(digest.digest()).decode()


def sha1_pair(head: bytes, body: bytes) -> tuple[str, str]:
    """(payload digest, block digest): of the body, and of head and body in a row."""
    return sha1_digest(body), sha1_digest(head, body)


def sha1_urn(space: bytes, name: bytes) -> str:
    """`<urn:uuid:...>` of the UUID of version 5 (RFC 9562 5.5) of a name in a space of 16 bytes."""
    return f"<urn:uuid:{uuid.UUID(bytes=hashlib.sha1(space + name).digest()[:16], version=5)}>"
