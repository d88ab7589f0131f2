"""Every foreseen error as one message on standard error and its exit code.

Exit codes: 0 done (also when nothing was due), 1 failed, 2 bad input, 3 a lock is held by another
process. Errors of crawlkit's own carry `exit_code`, and `advice` where the message needs more.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
import select
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import typer

from crawlkit.cli.root import DEFAULT_DATA
from crawlkit.engine.task_errors import TaskFailed
from crawlkit.runtime.spark_errors import damaged_file, find_task_error, first_cause

P = ParamSpec("P")
T = TypeVar("T")
# errors of a path that was given, not of the machine
UNUSABLE = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENOENT,
    errno.EEXIST,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EBUSY,
    errno.ENOTEMPTY,
)
FULL = (errno.ENOSPC, errno.EDQUOT)
PASSING = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ESTALE)
JVM_GONE = (
    "Spark's Java process has ended (killed, or out of memory): run the same command again to go on"
)
DISK_FULL = "no space left on the disk: free some and run the same command again"
ADVICE = "run the same command again to go on"
# packages of extras -> what needs them, the extra; in a checkout `make setup-` with its name
EXTRAS = {
    **dict.fromkeys(("pyspark", "py4j", "delta"), ("the engine spark", "spark")),
    **dict.fromkeys(("boto3", "botocore"), ("a place in s3://", "s3")),
}
# errors of ours that a task raised: class -> exit code, message
IN_TASKS = {
    "ConfigError": (2, "{message}"),
    "LeaseHeld": (1, "a fetch slot is held by another process; wait for it or end it"),
    "PartDamaged": (
        2,
        "{message}: the round's state is damaged: restore that file from a copy",
    ),
    "StoreFull": (1, DISK_FULL),
    "StoreRefused": (2, "{message}"),
    "StoreUnavailable": (1, "{message}; then run the same command again"),
}


def report_errors(command: Callable[P, T]) -> Callable[P, T]:
    """A command of which every foreseen error is one message and an exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return guard(lambda: command(*args, **kwargs))

    return run


def guard(run: Callable[[], T]) -> T:
    """`run()`. Raises typer.Exit for every foreseen error, once its message is printed."""
    try:
        return run()
    except KeyboardInterrupt:
        raise fail(f"interrupted: {ADVICE}", 1) from None
    except typer.Exit:
        raise
    except Exception as e:
        if isinstance(e, BrokenPipeError) and is_unread():
            raise typer.Exit(0) from None
        code = getattr(e, "exit_code", None)
        if isinstance(code, int):
            text = getattr(e, "strerror", None) or str(e)
            raise fail(text + getattr(e, "advice", ""), code) from None
        failure = _of_system(e) if isinstance(e, OSError) else _of_extra(e) or _of_engine(e)
        raise fail(*(failure or (_of_fault(e), 1))) from None


def _of_extra(e: Exception) -> tuple[str, int] | None:
    """Message and exit code where a package of an extra is missing; None: it is not that."""
    name = (e.name or "").partition(".")[0] if isinstance(e, ModuleNotFoundError) else ""
    if name not in EXTRAS:
        return None
    what, extra = EXTRAS[name]
    return (
        f"{what} needs the package {name}, which is not installed: pip install"
        f" 'crawlkit[{extra}]'; in a checkout `make setup-{extra}`",
        2,
    )


def _of_fault(e: Exception) -> str:
    """Message of an error that is not foreseen: a fault of crawlkit's."""
    cause = " ".join(str(e).split())
    return (
        f"a fault in crawlkit: {type(e).__name__}: {cause:.300}; the trace is in"
        f" {keep_trace(traceback.format_exc())}. {ADVICE.capitalize()}; if it ends so again, report"
        " that file"
    )


def keep_trace(text: str) -> str:
    """Write a trace below the crawl's state (else into the folder for temporary files); its
    place.
    """
    words = [*sys.argv[1:], ""]
    named = next((b for a, b in itertools.pairwise(words) if a == "--data"), DEFAULT_DATA)
    folder = Path(named) / "state"
    if "://" in named or not folder.is_dir():
        folder = Path(tempfile.gettempdir())
    path = folder / f"trace-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}.txt"
    path.write_text(text, "utf-8")
    return str(path)


def is_unread(descriptor: int = 1) -> bool:
    """Whether the reader of standard output (or of a copy of it) has closed its pipe."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def fail(message: str, code: int) -> typer.Exit:
    """Print an error; the exit to raise."""
    print(f"crawlkit: {message}", file=sys.stderr)
    return typer.Exit(code)


def _of_system(e: OSError) -> tuple[str, int] | None:
    """Message and exit code of an error of the operating system; None: not foreseen."""
    if e.errno in FULL:
        where = e.filename or "the disk"
        return f"no space left on {where}: free some and run the same command again", 1
    if e.errno in UNUSABLE:
        return f"{e.filename2 or e.filename}: {e.strerror}", 2
    if e.errno in PASSING:
        where = e.filename or "input or output"
        return f"{where}: {e.strerror}: run the same command again once that is repaired", 1
    return (JVM_GONE, 1) if isinstance(e, ConnectionError) else None


def _of_engine(e: Exception) -> tuple[str, int] | None:
    """Message and exit code of what is behind an error of an engine's; None: not foreseen."""
    text = str(e)
    if "No space left on device" in text:
        return DISK_FULL, 1
    ours = find_task_error(text)
    if ours is not None and ours.name in IN_TASKS:
        code, form = IN_TASKS[ours.name]
        return form.format(message=ours.message), code
    if place := damaged_file(text):
        return f"{place} is damaged or gone: restore the table's folder from a copy", 2
    if isinstance(e, TaskFailed):
        return f"a task failed each time that it was tried: {text}; {ADVICE}", 1
    if type(e).__module__.lstrip("_").startswith("duckdb"):
        return _of_duckdb(text), 1
    if type(e).__name__ == "Py4JNetworkError":
        return JVM_GONE, 1
    if type(e).__module__.startswith(("pyspark", "py4j", "delta")):
        cause = first_cause(text)
        return f"Spark failed: {cause}; {ADVICE}, or see {keep_trace(text)}", 1
    return None


def _of_duckdb(text: str) -> str:
    """Message of an error of the engine local."""
    cause = " ".join(text.split())[:400]
    if "Out of Memory" in text:
        return f"not enough memory: set engine.memory higher ({cause})"
    return f"the engine local failed: {cause}; {ADVICE}, or with --engine spark"
