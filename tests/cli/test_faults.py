"""What is said of an error that nobody has foreseen, and of a crawl that is busy."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
import typer
from crawlkit.cli.errors import guard

from tests.cli.call import call


def fail():
    raise ZeroDivisionError("by\nnothing")


def test_the_trace_of_a_fault_is_kept_in_a_file(tmp_path, monkeypatch, capsys):
    (tmp_path / "state").mkdir()
    monkeypatch.setattr("sys.argv", ["crawlkit", "status", "--data", str(tmp_path)])
    with pytest.raises(typer.Exit) as end:
        guard(fail)
    said = capsys.readouterr().err
    assert end.value.exit_code == 1
    assert said.startswith(
        "crawlkit: a fault in crawlkit: ZeroDivisionError: by nothing; the trace"
    )
    assert len(said.splitlines()) == 1
    (trace,) = (tmp_path / "state").glob("trace-*.txt")
    assert str(trace) in said and 'in fail\n    raise ZeroDivisionError("by\\nnothing")' in (
        trace.read_text()
    )


@pytest.mark.parametrize("verb", [("crawl", "http://a.example/"), ("round",)])
def test_a_busy_crawl_says_who_drives_it(tmp_path, verb):
    bot = ("--set", "agent.info_url=http://you.example/")
    assert call("open", "--data", tmp_path, *bot).code == 0
    lock = Path(tmp_path, "state/rounds/r000001/driver.lock")
    with lock.open("w") as file:
        file.write("pid 4711")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        done = call(*verb, "--data", tmp_path, *bot)
    assert done.code == 3
    for words in ("is being crawled", "r000001", "pid 4711", "crawlkit status"):
        assert words in done.err
    assert not Path(tmp_path, "state/rounds/r000002").exists()
    assert "interrupted; nobody drives it" in call("status", "--data", tmp_path).out
