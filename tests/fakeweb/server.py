"""Serving the web: in a thread (`Server`) or as a process of its own (`Process`), with a log of
every request.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from crawlkit.local.web_server import Exchange, Reply, Request, WebServer

from tests.fakeweb.plan import FakeWeb
from tests.fakeweb.render import reply

ROOT = Path(__file__).resolve().parents[2]


class Server:
    """Serves a web on loopback in a background thread; a context manager.

    log: file to which one JSON line a request is appended, at its end. day_file: file with the
    simulated day as a number, read again whenever it changes; without it set `day`. port 0: any
    that is free on all addresses.
    """

    def __init__(
        self, web: FakeWeb, log: str | Path, port: int = 0, day_file: str | Path | None = None
    ) -> None:
        self.web = web
        self.log = Path(log)
        self.day = 0
        self.day_file = Path(day_file) if day_file else None
        self._day_stamp: tuple[int, int, int] | None = None
        self._asked: Counter[str] = Counter()
        self._out = self.log.open("a", buffering=1, encoding="utf-8")
        self.http = WebServer(
            (h.address for h in web.hosts.values() if h.listening), self._answer, port, self._record
        )
        self.port = self.http.port

    def _answer(self, request: Request) -> Reply:
        if self.day_file:
            self._read_day(self.day_file)
        url = f"http://{request.host}{request.target}"
        self._asked[url] += 1
        return reply(self.web, request, self.day, self._asked[url] - 1)

    def _read_day(self, path: Path) -> None:
        try:
            at = path.stat()
            if (stamp := (at.st_ino, at.st_mtime_ns, at.st_size)) != self._day_stamp:
                self.day, self._day_stamp = int(path.read_text()), stamp
        except (OSError, ValueError):
            pass  # not there yet, or half written: the day stays

    def _record(self, x: Exchange) -> None:
        headers, retry_after = (
            x.request.headers,
            next((v for k, v in x.reply.headers if k == "Retry-After"), None),
        )
        line = {
            "host": x.request.host,
            "address": x.request.address,
            "path": x.request.target,
            "method": x.request.method,
            "status": None if x.reply.raw is not None else x.reply.status,
            "start": x.start,
            "end": x.end,
            "wall_end": time.time(),
            "in_flight": x.in_flight,
            "connection": x.connection,
            "aborted": x.aborted,
            "day": self.day,
            "user_agent": headers.get("user-agent"),
            "if_none_match": headers.get("if-none-match"),
            "if_modified_since": headers.get("if-modified-since"),
            "retry_after_s": int(retry_after) if retry_after else None,
        }
        self._out.write(json.dumps(line) + "\n")

    def connect_to(self) -> dict[str, str]:
        return self.web.connect_to(self.port)

    def __enter__(self) -> Server:
        self.http.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.http.stop()
        self._out.close()


def set_day(path: str | Path, day: int) -> None:
    """Set the simulated day of a server that was given this `day_file`; at once for every later
    request.
    """
    fresh = Path(f"{path}.new")
    fresh.write_text(str(day))
    os.replace(fresh, path)


class Process:
    """The web in a process of its own, which outlives a crawler that is killed; a context manager.

    Attributes after entering: port, log, day_file. RuntimeError if it is not up within 20 s.
    """

    def __init__(
        self, folder: str | Path, seed: int = 7, scale: float = 1.0, port: int = 0
    ) -> None:
        self.folder, self.port = Path(folder), port
        self.log, self.day_file = self.folder / "web.jsonl", self.folder / "day"
        self._ready = self.folder / "web.ready"
        self._args = [
            "--seed",
            str(seed),
            "--scale",
            str(scale),
            "--log",
            str(self.log),
            "--day-file",
            str(self.day_file),
            "--ready",
            str(self._ready),
            "--port",
            str(port),
        ]

    def __enter__(self) -> Process:
        self._ready.unlink(missing_ok=True)
        env = os.environ | {
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT / "lib"), str(ROOT), os.environ.get("PYTHONPATH", "")]
            )
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fakeweb", *self._args], cwd=ROOT, env=env
        )
        until = time.monotonic() + 20
        while not self._ready.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                self.process.kill()
                raise RuntimeError(
                    f"the synthetic web did not come up (exit {self.process.poll()})"
                )
            time.sleep(0.02)
        self.port = json.loads(self._ready.read_text())["port"]
        return self

    def set_day(self, day: int) -> None:
        set_day(self.day_file, day)

    def __exit__(self, *exc: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
