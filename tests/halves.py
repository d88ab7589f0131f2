"""The quick run's tests in two processes of one collection.

Two processes of xdist each import and collect everything, which costs as much as the quick tests
themselves: one fork after the collection takes a third less time. What the child reports goes
through a pipe, and is told after this process's own half.
"""

from __future__ import annotations

import gc
import json
import os
import threading
from collections import defaultdict
from typing import IO

import pytest


def halves(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Items by file, each file to the half with fewer tests so far, the longest ones first."""
    files: defaultdict[object, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    mine: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for of_file in sorted(files.values(), key=len, reverse=True):
        min(mine, others, key=len).extend(of_file)
    return mine, others


def run(session: pytest.Session, items: list[pytest.Item]) -> None:
    for item, following in zip(items, [*items[1:], None], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail or session.shouldstop:
            break


class Sender:
    """Stands for the terminal in the child."""

    def __init__(self, config: pytest.Config, pipe: IO[str]) -> None:
        self._config, self._pipe = config, pipe

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._pipe.write(
            json.dumps(
                self._config.hook.pytest_report_to_serializable(config=self._config, report=report),
                default=str,
            )
            + "\n"
        )


def child(session: pytest.Session, items: list[pytest.Item], pipe: IO[str]) -> None:
    plugins = session.config.pluginmanager
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()  # its files are the parent's too
    capture.start_global_capturing()
    plugins.unregister(name="terminalreporter")
    plugins.register(Sender(session.config, pipe))
    run(session, items)
    pipe.flush()


def report_of(config: pytest.Config, data: dict[str, object]) -> pytest.TestReport:
    for name, value in data.items():
        if name in ("location", "longrepr") and isinstance(value, list):  # JSON has no tuples
            data[name] = tuple(value)
    return config.hook.pytest_report_from_serializable(config=config, data=data)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if session.config.option.collectonly or session.testsfailed or len(session.items) < 500:
        return None
    mine, others = halves(session.items)
    gc.freeze()
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(read)
            with open(write, "w", encoding="utf-8") as pipe:
                child(session, others, pipe)
        finally:
            os._exit(0)
    os.close(write)
    lines: list[str] = []
    with open(read, encoding="utf-8") as pipe:
        reader = threading.Thread(target=lambda: lines.extend(pipe), daemon=True)
        reader.start()
        run(session, mine)
        reader.join()
    os.waitpid(pid, 0)
    told = [report_of(session.config, json.loads(line)) for line in lines]
    for report in told:
        session.config.hook.pytest_runtest_logreport(report=report)
    if missing := len(others) - sum(r.when == "teardown" for r in told):
        raise pytest.UsageError(f"the second process ended without a word on {missing} tests")
    return True
