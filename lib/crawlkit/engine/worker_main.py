"""`python -m crawlkit.engine.worker_main FD`: forks a worker for each task that comes through the
socket FD (workers.py).

It has no threads, so a fork is safe; modules and what `prepare` loads are there for all workers.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import pickle
import signal
import socket
import sys
from importlib.abc import MetaPathFinder
from typing import Any

import pyarrow as pa

from crawlkit.engine.workers import BATCH, DONE, FAILED, read_exactly

_PR_SET_PDEATHSIG = 1


class _WithoutPandas(MetaPathFinder):
    """pyarrow loads pandas for its first array wherever it is installed (for Spark): that would be
    0.3 CPU s of each process, and no task needs it.
    """

    def find_spec(self, name: str, *_: object) -> None:
        """Raises ModuleNotFoundError for pandas; others are left to the other finders."""
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def serve(driver: socket.socket) -> None:
    """Fork workers until the driver ends."""
    signal.signal(signal.SIGCHLD, _bury)
    loaded: tuple[bytes, Any] = (b"", None)
    while True:
        head, fds, _, _ = socket.recv_fds(driver, 8, 2)
        if not head:
            return
        if len(head) < 8:
            head += read_exactly(driver, 8 - len(head))
        text = read_exactly(driver, int.from_bytes(head, "little"))
        if loaded[0] != text:
            loaded = text, _load(text)
        pid = os.fork()
        if pid == 0:
            driver.close()
            _work(loaded[1], socket.socket(fileno=fds[0]), fds[1])
        for fd in fds:
            os.close(fd)
        driver.sendall(pid.to_bytes(8, "little"))


def _bury(*_: object) -> None:
    """Wait for workers that have ended, so that their CPU time counts."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _load(text: bytes) -> Any:
    """The function of a task, prepared; an exception if that fails. The driver alone sends any."""
    try:
        function = pickle.loads(text)
        if hasattr(function, "prepare"):
            function.prepare()
        return function
    except Exception as e:
        return e


def _work(function: Any, driver: socket.socket, rows_fd: int) -> None:
    """Run a task and end the process."""
    status = 1
    try:
        _end_with_parent()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        gc.freeze()
        if isinstance(function, Exception):
            raise function
        with os.fdopen(rows_fd, "rb") as file:
            file.seek(0)
            for batch in function(iter(pa.ipc.open_stream(file))):
                _send(driver, BATCH, batch.serialize())
        _send(driver, DONE, b"")
        status = 0
    except BaseException as e:
        with contextlib.suppress(OSError):
            name = f"{type(e).__module__}.{type(e).__qualname__}"
            _send(driver, FAILED, f"{name}: {e}".encode("utf-8", "replace"))
    finally:
        os._exit(status)


def _send(driver: socket.socket, kind: bytes, body: Any) -> None:
    driver.sendall(kind + len(body).to_bytes(8, "little"))
    driver.sendall(body)


def _end_with_parent() -> None:
    """Let this process be killed when the one that forked it ends; Linux alone can."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.meta_path.insert(0, _WithoutPandas())
    serve(socket.socket(fileno=int(sys.argv[1])))
