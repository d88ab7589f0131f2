"""The seam to stored objects: part manifests, leases, WARC files, control objects.

`LocalObjects` keeps them below a folder, `objects_s3.S3Objects` in an S3 bucket; `open_objects`
chooses. Keys are relative paths with `/`. Objects appear whole or not at all; compare-and-swap is
atomic, on a folder between the processes of one machine (`flock`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from crawlkit.config import S3

_LOCK = ".cas.lock"
_TMP = ".tmp"


class StoreFull(OSError):
    """No room left in the store (ENOSPC, EDQUOT); the object was not stored."""


class StoreUnavailable(OSError):
    """The store did not answer within the time for retries.

    Whether the last call was done is not known.
    """


class StoreRefused(OSError):
    """The store will not do it (no such bucket, no permission, no credentials); the message says
    what to change.
    """


class ObjectMissing(KeyError):
    """No object has this key."""


class Objects(Protocol):
    """What the crawler needs of an object store. An etag changes with the content.

    Every method may raise StoreUnavailable and StoreRefused, and ValueError for what is no key.
    """

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
        """Remove what writers that died have left half written since before a time (Unix s); how
        many.
        """

    def local_path(self, key: str) -> Path | None:
        """Where the object lies on this machine's disk; None if it does not."""


@dataclass(frozen=True)
class LocalObjects:
    """Objects below the folder `root` (created on the first write)."""

    root: Path

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with self._temporary(io.BytesIO(data)) as tmp:
            return self._link(tmp, key)

    def put_file_if_absent(self, key: str, path: Path) -> bool:
        with open(path, "rb") as src:
            os.fsync(src.fileno())
            with contextlib.suppress(OSError):  # another file system: copied
                return self._link(path, key)
            with self._temporary(src) as tmp:
                return self._link(tmp, key)

    def put(self, key: str, data: bytes) -> None:
        with self._temporary(io.BytesIO(data)) as tmp:
            self._replace(tmp, key)

    def get(self, key: str) -> tuple[bytes, str]:
        try:
            data = self.local_path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ObjectMissing(key) from None
        return data, _etag(data)

    def compare_and_swap(self, key: str, data: bytes, etag: str | None) -> str | None:
        with self._temporary(io.BytesIO(data)) as tmp, self._locked():
            try:
                found = self.get(key)[1]
            except ObjectMissing:
                found = None
            if found != etag:
                return None
            self._replace(tmp, key)
            return _etag(data)

    def list(self, prefix: str = "") -> list[str]:
        folder = self.root / prefix.rpartition("/")[0]
        keys = []
        for where, dirs, files in os.walk(folder):
            dirs[:] = [d for d in dirs if not (d == _TMP and Path(where) == self.root)]
            for name in files:
                key = (Path(where) / name).relative_to(self.root).as_posix()
                if key.startswith(prefix) and key != _LOCK:
                    keys.append(key)
        return sorted(keys)

    def delete(self, key: str) -> None:
        self.local_path(key).unlink(missing_ok=True)

    def open_range(self, key: str, offset: int = 0, length: int | None = None) -> BinaryIO:
        try:
            f = open(self.local_path(key), "rb")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ObjectMissing(key) from None
        f.seek(offset)
        if length is None:
            return f
        with f:
            return io.BytesIO(f.read(length))

    def size(self, key: str) -> int:
        try:
            return self.local_path(key).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectMissing(key) from None

    def modified(self, key: str) -> float:
        try:
            return self.local_path(key).stat().st_mtime
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectMissing(key) from None

    def abort_unfinished(self, begun_before: float) -> int:
        return sweep(self.root / _TMP, begun_before)

    def local_path(self, key: str) -> Path:
        return self.root.joinpath(*key_parts(key))

    @contextlib.contextmanager
    def _temporary(self, src: BinaryIO) -> Iterator[Path]:
        """`src` copied to a file of this file system and synced; gone at the end unless it was
        moved.
        """
        folder = self.root / _TMP
        path = None
        with _full_is_clear(str(self.root)):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                with tempfile.NamedTemporaryFile(dir=folder, delete=False) as f:
                    path = Path(f.name)
                    while chunk := src.read(1 << 20):
                        f.write(chunk)
                    f.flush()
                    os.fsync(f.fileno())
                yield path
            finally:
                if path is not None:
                    path.unlink(missing_ok=True)

    def _link(self, tmp: Path, key: str) -> bool:
        dest = self._destination(key)
        try:
            os.link(tmp, dest)
        except FileExistsError:
            return False
        _sync_folder(dest.parent)
        return True

    def _replace(self, tmp: Path, key: str) -> None:
        dest = self._destination(key)
        os.replace(tmp, dest)
        _sync_folder(dest.parent)

    def _destination(self, key: str) -> Path:
        dest = self.local_path(key)
        dest.parent.mkdir(parents=True, exist_ok=True)
        return dest

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self.root / _LOCK, "a") as f:
            fcntl.flock(
                f, fcntl.LOCK_EX
            )  # released with the descriptor, also when the process dies
            yield


def open_objects(place: str, s3: S3) -> Objects:
    """The store at a place: `s3://bucket/prefix` (also `s3a://`), else a folder.

    Raises ConfigError.
    """
    if "://" not in place:
        return LocalObjects(Path(place))
    from crawlkit.adapters.store.s3_objects import S3Objects  # boto3 takes half a second to load

    return S3Objects.at(place, s3)


def key_parts(key: str) -> list[str]:
    """The segments of a key.

    Raises ValueError for what is none: empty or dot segments, NUL, names that the store uses
    itself.
    """
    parts = key.split("/")
    if any(p in ("", ".", "..") or "\0" in p for p in parts) or parts[0] in (_TMP, _LOCK):
        raise ValueError(f"not an object key: {key!r:.200}")
    return parts


@contextlib.contextmanager
def _full_is_clear(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(e.errno, f"no room left in the store {where}") from e
        raise


def sweep(folder: Path, before: float) -> int:
    """Remove files and empty folders below a folder that were last changed before a time (Unix s);
    how many files.
    """
    removed = 0
    for path in sorted(folder.rglob("*"), reverse=True) if folder.is_dir() else ():
        with contextlib.suppress(OSError):  # gone, or a folder that is not empty
            if path.lstat().st_mtime >= before:
                continue
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
                removed += 1
    return removed


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
