"""The seam to stored objects: part manifests, leases, WARC files, control objects.

`local_objects.LocalObjects` keeps them below a folder, `s3_objects.S3Objects` in an S3 bucket;
`open_store.open_objects` chooses. Keys are relative paths with `/`. Objects appear whole or not at
all; compare-and-swap is atomic, on a folder between the processes of one machine (`flock`).
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Protocol

LOCK = ".cas.lock"  # the names that a folder's store keeps for itself
TEMPORARY = ".tmp"


class StoreFull(OSError):
    """No room left in the store (ENOSPC, EDQUOT); the object was not stored."""

    exit_code = 1
    advice = ": free some space and run the same command again"


class StoreUnavailable(OSError):
    """The store did not answer within the time for retries.

    Whether the last call was done is not known.
    """

    exit_code = 1
    advice = "; then run the same command again"


class StoreRefused(OSError):
    """The store refuses (no such bucket, permission, credentials); the message has the fix."""

    exit_code = 2


class ObjectMissing(KeyError):
    """No object has this key."""


class Objects(Protocol):
    """What the crawler needs of an object store. An etag changes with the content.

    Every method may raise StoreUnavailable and StoreRefused, and ValueError for what is no key.
    """

    @property
    def root(self) -> Path | str:
        """The place of the store: a folder or s3://bucket/prefix."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Store; False if the key exists (nothing is changed). Raises StoreFull, OSError."""

    def put_file_if_absent(self, key: str, path: Path) -> bool:
        """Store a local file that will not be written to again; False if the key exists.

        Raises StoreFull, OSError.
        """

    def put(self, key: str, data: bytes) -> None:
        """Store, replacing what is there. Raises StoreFull, OSError."""

    def get(self, key: str) -> tuple[bytes, str]:
        """Content and etag. Raises ObjectMissing."""

    def compare_and_swap(self, key: str, data: bytes, etag: str | None) -> str | None:
        """Replace the content only if its etag is `etag` (None: only if absent).

        New etag, or None if it was not.
        """

    def list(self, prefix: str = "") -> list[str]:
        """Keys that begin with `prefix`, sorted."""

    def delete(self, key: str) -> None:
        """Remove; no error if absent."""

    def open_range(self, key: str, offset: int = 0, length: int | None = None) -> BinaryIO:
        """Readable stream of a part of the content. Raises ObjectMissing."""

    def size(self, key: str) -> int:
        """Bytes. Raises ObjectMissing."""

    def modified(self, key: str) -> float:
        """Unix s of the last write. Raises ObjectMissing."""

    def abort_unfinished(self, begun_before: float) -> int:
        """Remove what dead writers have left half written; how many.

        begun_before: Unix s.
        """

    def local_path(self, key: str) -> Path | None:
        """Where the object lies on this machine's disk; None if it does not."""


def key_parts(key: str) -> list[str]:
    """The segments of a key.

    Raises ValueError for what is none: empty or dot segments, NUL, names that the store uses
    itself.
    """
    parts = key.split("/")
    if any(p in ("", ".", "..") or "\0" in p for p in parts) or parts[0] in (TEMPORARY, LOCK):
        raise ValueError(f"not an object key: {key!r:.200}")
    return parts
