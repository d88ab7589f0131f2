"""Request logs are read while they grow."""

from __future__ import annotations

import itertools

from crawlkit.config import parse_config
from crawlkit.crawl.log_reader import follow_log, read_log
from crawlkit.crawl.state import Crawl

from tests.cli.call import call

FIRST = "2026-01-01T00:00:01.000Z 200 5 http://a.example/ page:0 text/html #0 x+1 fetched\n"
LATER = FIRST.replace(":01.", ":02.")


def test_lines_of_all_slots_come_by_time(tmp_path):
    crawl = Crawl(tmp_path, parse_config(""))
    round_ = crawl.open_round(0.0)
    crawl.objects.put(f"logs/{round_.id}/00000-001.log", LATER.encode())
    crawl.objects.put(f"logs/{round_.id}/00001-001.log", FIRST.encode())
    assert list(read_log(crawl)) == [FIRST.strip(), LATER.strip()]
    assert list(read_log(crawl, round_.id)) == [FIRST.strip(), LATER.strip()]


def test_only_whole_new_lines_are_followed(tmp_path):
    crawl = Crawl(tmp_path, parse_config(""))
    log = tmp_path / "state/logs/r000001/00000-001.log"
    log.parent.mkdir(parents=True)
    log.write_text(FIRST)
    pauses = itertools.count()

    def grow(_: float) -> None:
        with log.open("a") as file:  # half a line, then its other half
            file.write(LATER[:40] if next(pauses) == 0 else LATER[40:])

    assert next(follow_log(crawl, wait=grow)) == LATER.strip()
    assert next(pauses) == 2


def test_the_log_of_a_round_that_is_not_there_is_refused(tmp_path):
    round_ = Crawl(tmp_path, parse_config("")).open_round(0.0)
    found = call("log", "--data", tmp_path, "--round-id", round_.id)
    missing = call("log", "--data", tmp_path, "--round-id", "r000099")
    assert (found.code, missing.code) == (0, 2)
    assert "no round 'r000099'" in missing.err
