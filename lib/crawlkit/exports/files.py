"""Writing export files: whole or not at all, and sorted within bounded memory."""

from __future__ import annotations

import contextlib
import heapq
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

SORT_CHARS = 64 * 1024 * 1024  # of lines held in memory
_MERGED = 64  # sorted runs merged at once: open files


@contextlib.contextmanager
def atomic(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """A file that has its name only once it is complete and synced.

    A file of that name is replaced then; a device or a pipe of that name (/dev/null) stays, and
    is written to as the bytes come.
    """
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")
    if path.exists() and not path.is_file() and not path.is_dir():
        with open(path, mode, encoding=encoding, newline=newline) as device:
            yield device
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        mode,
        dir=path.parent,
        prefix=f".{path.name}.",
        suffix=".tmp",
        delete=False,
        encoding=encoding,
        newline=newline,
    ) as f:
        try:
            yield f
            f.flush()
            os.fsync(f.fileno())
            os.chmod(f.name, 0o644)
            os.replace(f.name, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f.name)
            raise


def sorted_lines(lines: Iterable[str], chars: int = SORT_CHARS) -> Iterator[str]:
    """The lines in the order of their bytes, identical ones once; sorted on disk beyond `chars`.

    lines: without line ends, none holds one.
    """
    with tempfile.TemporaryDirectory(prefix="crawlkit-sort-") as folder:
        runs: list[Path] = []
        kept: list[str] = []
        size = 0
        for line in lines:
            kept.append(line)
            size += len(line)
            if size >= chars:
                runs.append(_run(Path(folder), sorted(kept)))
                kept, size = [], 0
                if len(runs) == _MERGED:
                    merged = _run(Path(folder), _merge(runs))
                    for run in runs:
                        run.unlink()
                    runs = [merged]
        kept.sort()
        last = None
        for line in heapq.merge(kept, _merge(runs)):
            if line != last:
                yield line
            last = line


def _run(folder: Path, lines: Iterable[str]) -> Path:
    with tempfile.NamedTemporaryFile(
        "w", dir=folder, delete=False, encoding="utf-8", newline="\n"
    ) as f:
        f.writelines(line + "\n" for line in lines)
    return Path(f.name)


def _merge(runs: list[Path]) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(run, encoding="utf-8", newline="\n")) for run in runs]
        for line in heapq.merge(*files):
            yield line[:-1]
