"""A second thread with a job of its own, which drives one round beside that of the main thread."""

from __future__ import annotations

import re
import threading
from contextlib import AbstractContextManager
from typing import Any

from crawlkit.model import Round
from crawlkit.round.drive import close_empty, run_planned
from crawlkit.round.job import Job, make_job


class SecondLane:
    """Drives rounds beside the main thread's, one at a time.

    As a context it ends the round under way in order, and tells the main thread of its error: the
    error of whichever lane failed first is raised.
    """

    def __init__(self, main: Job, turn: AbstractContextManager[Any]) -> None:
        """Starts nothing. turn: held while pages are read."""
        self._main, self._turn = main, turn
        self._job: Job | None = None
        self._thread: threading.Thread | None = None
        self._is_planned = threading.Event()
        self._error: BaseException | None = None
        self._fetched: str | None = None

    def start(self, round_: Round, options: dict[str, Any]) -> None:
        """Drive a round; returns when it is planned. options: of generate."""
        if self._job is None:
            main, memory = self._main, half(self._main.cfg.engine.memory)
            self._job = make_job(
                main.crawl.data,
                main.cfg,
                quick=True,
                say=main.say,
                engine=main.engine_name,
                memory=memory,
            )
        self._is_planned.clear()
        self._fetched = self._error = None
        self._thread = threading.Thread(
            target=self._drive,
            args=(self._job, round_, options),
            name=f"round {round_.id}",
            daemon=True,
        )
        self._thread.start()
        self._is_planned.wait()

    def _drive(self, job: Job, round_: Round, options: dict[str, Any]) -> None:
        try:
            with job.driving(round_):
                job.say({"event": "round", "round_id": round_.id, "beside": True})
                planned = job.run("generate", round_, **options)
                self._is_planned.set()
                if planned.get("planned"):
                    run_planned(job, round_, is_reported=False, turn=self._turn)
                    self._fetched = round_.id
                else:
                    close_empty(job, round_)
        except BaseException as e:
            self._error = e
            self._main.interrupt()
        finally:
            self._is_planned.set()

    def join(self) -> str | None:
        """Wait for the end of the round; its id if it has fetched something.

        Raises the error that ended it.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise self._error
        return self._fetched

    def __enter__(self) -> SecondLane:
        self._fetched = self._error = None
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            return
        failed_first = self._error
        if self._thread is not None and self._job is not None:
            self._job.interrupt()
            self._thread.join()
            self._thread = None
        if failed_first is not None and issubclass(kind, KeyboardInterrupt):
            raise failed_first

    def stop(self) -> None:
        """End the lane's engine."""
        if self._job is not None:
            self._job.stop()


def half(memory: str) -> str:
    """Half of an amount of memory ("800MB")."""
    return re.sub("[0-9]+", lambda m: f"{int(m[0]) / 2:g}", memory, count=1)
