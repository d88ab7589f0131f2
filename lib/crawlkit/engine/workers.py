"""Worker processes of the local engine: one for each task, forked from a process that has little
beside the modules that tasks need.

The process that forks (worker_main.py) is started by the first task and ends with this one, by its
end of a socket. A task gets its function and a file with its rows, and sends back batches. One that
dies or is frozen is run again: the guards W, C and L (docs/round.md) make that safe, as under
Spark.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pyarrow as pa

from crawlkit.engine.frame import TRIES, MapBatches
from crawlkit.engine.task_errors import TaskFailed, WorkersGone

HEAD_BYTES = 9  # of a message: its kind, and the length of its body
BATCH, FAILED, DONE = b"B", b"F", b"D"
_LOOK_S = 1.0  # between two looks at workers that say nothing, and for an interrupt
_GRACE_S = 15.0  # that workers have to end after an interrupt
_PIECE_BYTES = 1 << 20


@dataclass
class _Task:
    rows: IO[bytes]
    tries: int = 0
    pid: int = 0
    made: list[pa.RecordBatch] = field(default_factory=list)
    buffer: bytearray = field(default_factory=bytearray)
    is_done: bool = False
    error: str = "a worker process died"


class Workers:
    """Runs tasks in processes of their own. Not for several threads, but for `interrupt`."""

    def __init__(self, scratch: Path) -> None:
        """Starts nothing. scratch: folder for the rows of tasks."""
        self._scratch = scratch
        self._server: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._is_interrupted = threading.Event()

    def interrupt(self) -> None:
        """From another thread: what runs ends as by Ctrl-C, and nothing runs any more."""
        self._is_interrupted.set()

    def run(
        self, function: MapBatches, shares: Sequence[list[pa.RecordBatch]], schema: pa.Schema
    ) -> list[pa.RecordBatch]:
        """What the function makes of each share, all of them at the same time; batches of `schema`.

        A method `prepare` of the function is called once, before the first fork. Raises TaskFailed,
        WorkersGone; KeyboardInterrupt after `interrupt`.
        """
        text = pickle.dumps(function)
        tasks = [_Task(self._write(rows)) for rows in shares]
        running: dict[socket.socket, _Task] = {}
        with selectors.DefaultSelector() as selector:
            try:
                for task in tasks:
                    self._start(task, text, running, selector)
                while running:
                    if self._is_interrupted.is_set():
                        raise KeyboardInterrupt
                    for key, _ in selector.select(_LOOK_S):
                        ours: socket.socket = key.fileobj  # type: ignore[assignment]
                        task = running[ours]
                        if _receive(ours, task, schema):
                            continue
                        del running[ours]
                        selector.unregister(ours)
                        ours.close()
                        if task.is_done:
                            continue
                        _kill(task.pid)
                        if task.tries == TRIES:
                            raise TaskFailed(task.error)
                        self._start(task, text, running, selector)
                    for task in running.values():
                        if _is_frozen(task.pid):
                            _kill(task.pid)
            except KeyboardInterrupt:
                self._interrupt(running, selector)
                raise
            finally:
                for ours, task in running.items():
                    _kill(task.pid)
                    ours.close()
                for task in tasks:
                    task.rows.close()
        return [batch for task in tasks for batch in task.made]

    @staticmethod
    def _interrupt(running: dict[socket.socket, _Task], selector: selectors.BaseSelector) -> None:
        """Let workers end in order, so that the next run need not wait for their leases."""
        for task in running.values():
            _kill(task.pid, signal.SIGTERM)
        give_up = time.monotonic() + _GRACE_S
        while running and time.monotonic() < give_up:
            for key, _ in selector.select(1.0):
                ours: socket.socket = key.fileobj  # type: ignore[assignment]
                if not _has_more(ours):
                    selector.unregister(ours)
                    ours.close()
                    del running[ours]

    def _write(self, rows: list[pa.RecordBatch]) -> IO[bytes]:
        """A file of no name with a task's rows: a pipe would block where both sides write."""
        file = tempfile.TemporaryFile(dir=self._scratch)  # noqa: SIM115  # `run` closes it
        with pa.ipc.new_stream(file, rows[0].schema) as stream:
            for batch in rows:
                stream.write_batch(batch)
        file.flush()
        return file

    def _start(
        self,
        task: _Task,
        text: bytes,
        running: dict[socket.socket, _Task],
        selector: selectors.BaseSelector,
    ) -> None:
        """Fork a worker for a task, which begins anew."""
        task.tries += 1
        task.made, task.buffer = [], bytearray()
        for is_last in (False, True):
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    server = self._connect()
                    head = len(text).to_bytes(8, "little")
                    socket.send_fds(server, [head], [theirs.fileno(), task.rows.fileno()])
                    server.sendall(text)
                    task.pid = int.from_bytes(read_exactly(server, 8), "little")
            except OSError as e:
                ours.close()
                self.stop()  # it was killed: another one
                if is_last:
                    raise WorkersGone(f"no worker process can be started: {e}") from None
                continue
            running[ours] = task
            selector.register(ours, selectors.EVENT_READ)
            return

    def _connect(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair()
            with theirs:
                self._server = subprocess.Popen(
                    [sys.executable, "-m", "crawlkit.engine.worker_main", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    # numpy's own threads would be there at each fork
                    env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                    start_new_session=True,  # Ctrl-C is for the driver, which ends its workers
                )
        return self._socket

    def stop(self) -> None:
        """End the process that forks workers, and with it the workers."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._server is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(1)
            self._server.kill()
            self._server.wait()
            self._server = None


def _receive(ours: socket.socket, task: _Task, schema: pa.Schema) -> bool:
    """Take what a worker has sent; whether it goes on."""
    try:
        piece = ours.recv(_PIECE_BYTES)
    except OSError:
        return False
    if not piece:
        return False
    task.buffer += piece
    while len(task.buffer) >= HEAD_BYTES:
        kind, end = task.buffer[:1], HEAD_BYTES + int.from_bytes(task.buffer[1:9], "little")
        if len(task.buffer) < end:
            break
        body = bytes(task.buffer[HEAD_BYTES:end])
        del task.buffer[:end]
        if kind == BATCH:
            task.made.append(pa.ipc.read_record_batch(pa.py_buffer(body), schema))
        else:
            task.is_done, task.error = kind == DONE, body.decode("utf-8", "replace")
            return False
    return True


def read_exactly(source: socket.socket, size: int) -> bytes:
    """`size` bytes of a socket. Raises ConnectionError where it ends before."""
    data = b""
    while len(data) < size:
        piece = source.recv(min(size - len(data), _PIECE_BYTES))
        if not piece:
            raise ConnectionError("the other side has ended")
        data += piece
    return data


def _has_more(ours: socket.socket) -> bool:
    """Whether a worker has sent something; what it was is of no use any more."""
    try:
        return bool(ours.recv(_PIECE_BYTES))
    except OSError:
        return False


def _kill(pid: int, how: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, how)


def _is_frozen(pid: int) -> bool:
    """Whether a process is stopped (by a signal or a debugger): it would never end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    except (OSError, IndexError):  # it has ended, or there is no such file system
        return False
