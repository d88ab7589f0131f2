"""Stored objects below a folder of this machine."""

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
from typing import BinaryIO

from crawlkit.adapters.store.objects import LOCK, TEMPORARY, ObjectMissing, StoreFull, key_parts


@dataclass(frozen=True)
class LocalObjects:
    """Objects below the folder `root` (created on the first write)."""

    root: Path

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """As Objects.put_if_absent."""
        with self._temporary(io.BytesIO(data)) as tmp:
            return self._link(tmp, key)

    def put_file_if_absent(self, key: str, path: Path) -> bool:
        """As Objects.put_file_if_absent; a hard link where the file system allows it."""
        with open(path, "rb") as src:
            os.fsync(src.fileno())
            with contextlib.suppress(OSError):  # another file system: copied
                return self._link(path, key)
            with self._temporary(src) as tmp:
                return self._link(tmp, key)

    def put(self, key: str, data: bytes) -> None:
        """As Objects.put."""
        with self._temporary(io.BytesIO(data)) as tmp:
            self._replace(tmp, key)

    def get(self, key: str) -> tuple[bytes, str]:
        """As Objects.get."""
        try:
            data = self.local_path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ObjectMissing(key) from None
        return data, _etag(data)

    def compare_and_swap(self, key: str, data: bytes, etag: str | None) -> str | None:
        """As Objects.compare_and_swap, between the processes of this machine."""
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
        """As Objects.list."""
        folder = self.root / prefix.rpartition("/")[0]
        keys = []
        for where, dirs, files in os.walk(folder):
            dirs[:] = [d for d in dirs if not (d == TEMPORARY and Path(where) == self.root)]
            for name in files:
                key = (Path(where) / name).relative_to(self.root).as_posix()
                if key.startswith(prefix) and key != LOCK:
                    keys.append(key)
        return sorted(keys)

    def delete(self, key: str) -> None:
        """As Objects.delete."""
        self.local_path(key).unlink(missing_ok=True)

    def open_range(self, key: str, offset: int = 0, length: int | None = None) -> BinaryIO:
        """As Objects.open_range."""
        try:
            f = open(self.local_path(key), "rb")  # noqa: SIM115 (the caller closes it)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ObjectMissing(key) from None
        f.seek(offset)
        if length is None:
            return f
        with f:
            return io.BytesIO(f.read(length))

    def size(self, key: str) -> int:
        """As Objects.size."""
        try:
            return self.local_path(key).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectMissing(key) from None

    def modified(self, key: str) -> float:
        """As Objects.modified."""
        try:
            return self.local_path(key).stat().st_mtime
        except (FileNotFoundError, NotADirectoryError):
            raise ObjectMissing(key) from None

    def abort_unfinished(self, begun_before: float) -> int:
        """As Objects.abort_unfinished."""
        return sweep(self.root / TEMPORARY, begun_before)

    def local_path(self, key: str) -> Path:
        """The file of a key. Raises ValueError for what is no key."""
        return self.root.joinpath(*key_parts(key))

    @contextlib.contextmanager
    def _temporary(self, src: BinaryIO) -> Iterator[Path]:
        """`src` copied to a file of this file system and synced; gone at the end unless it was
        moved.
        """
        folder = self.root / TEMPORARY
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
        with open(self.root / LOCK, "a") as f:
            # released with the descriptor, also when the process dies
            fcntl.flock(f, fcntl.LOCK_EX)
            yield


@contextlib.contextmanager
def _full_is_clear(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(e.errno, f"no room left in the store {where}") from e
        raise


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def sweep(folder: Path, before: float) -> int:
    """Remove files and empty folders last changed before a time (Unix s); how many files."""
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
