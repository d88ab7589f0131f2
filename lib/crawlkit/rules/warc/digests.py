"""SHA-1 as WARC records have it: labelled digests (WARC 1.1 5.8, 5.9) and names (5.2).

Made in C (`_sha1.c`) where that is built and the processor has instructions for it; else hashlib
does the work.
"""

from __future__ import annotations

import hashlib
import uuid

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"  # RFC 4648 6
_PAIRS = [
    a + b for a in _ALPHABET for b in _ALPHABET
]  # ten bits at a time: base64.b32encode takes longer than SHA-1


def sha1_digest(data: bytes, more: bytes = b"") -> str:
    """Twin of `_sha1.sha1_digest`: digest of both in a row; of a payload: without transfer
    coding.
    """
    digest = hashlib.sha1(data)
    if more:
        digest.update(more)
    n = int.from_bytes(digest.digest(), "big")
    return "sha1:" + "".join([_PAIRS[n >> shift & 0x3FF] for shift in range(150, -1, -10)])


def sha1_pair(head: bytes, body: bytes) -> tuple[str, str]:
    """Twin of `_sha1.sha1_pair`: (digest of body, digest of head and body in a row)."""
    return sha1_digest(body), sha1_digest(head, body)


def sha1_urn(space: bytes, name: bytes) -> str:
    """Twin of `_sha1.sha1_urn`: `<urn:uuid:...>` of the UUID of version 5 (RFC 9562 5.5) of a name
    in a space of 16 bytes.
    """
    return f"<urn:uuid:{uuid.UUID(bytes=hashlib.sha1(space + name).digest()[:16], version=5)}>"


try:
    from crawlkit.native._sha1 import sha1_digest, sha1_pair, sha1_urn  # noqa: F811
except ImportError:
    pass
