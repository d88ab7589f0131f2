"""`crawlkit open`: which round a scheduler's run drives; and `status` of named rounds."""

from __future__ import annotations

import json

import pytest
from crawlkit.adapters.store.flock import LockHeld
from crawlkit.cli.main import load_all
from crawlkit.config import load_config
from crawlkit.crawl.state import Crawl
from crawlkit.observe.status import NEWEST
from crawlkit.round.job import Job
from typer.testing import CliRunner

pytestmark = pytest.mark.waits


@pytest.fixture
def call(tmp_path):
    def run(*args: str) -> dict:
        done = CliRunner().invoke(load_all(), [*args, "--data", str(tmp_path), "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return run


@pytest.fixture
def crawl(tmp_path):
    return Crawl(tmp_path, load_config(None, ()))


def test_a_name_is_one_round_with_its_first_nominal_time(call, crawl):
    assert call("open", "--round-id", "day.1", "--now", "1000") == {
        "round_id": "day.1",
        "state": "open",
        "resumed": False,
    }
    assert call("open", "--round-id", "day.1", "--now", "2000")["round_id"] == "day.1"
    assert (crawl.round("day.1").now, len(crawl.round_ids())) == (1000.0, 1)


def test_an_unfinished_round_is_taken_up_by_its_own_kind_only(call, crawl):
    call("open", "--round-id", "day.1")
    assert call("open", "--round-id", "fast.1", "--resume", "fast.")["round_id"] == "fast.1"
    assert call("open", "--round-id", "day.2", "--resume", "day.") == {
        "round_id": "day.1",
        "state": "open",
        "resumed": True,
    }
    with crawl.driver_lock(crawl.round("day.1")):  # somebody drives it
        assert call("open", "--round-id", "day.2", "--resume", "day.")["round_id"] == "day.2"
    assert (
        call("open", "--round-id", "day.2", "--resume", "day.")["round_id"] == "day.2"
    )  # its own comes first
    assert call("open", "--round-id", "day.3")["round_id"] == "day.3"  # nothing is taken up unasked


def test_neither_a_closed_nor_an_abandoned_round_is_taken_up(call, crawl):
    call("open", "--round-id", "day.1")
    crawl.close(crawl.round("day.1"))
    call("open", "--round-id", "day.2", "--resume", "day.")
    assert crawl.round("day.2").state == "open"
    call("command", "abandon", "day.2")
    assert call("open", "--round-id", "day.3", "--resume", "day.")["round_id"] == "day.3"
    assert crawl.round("day.2").state == "abandoned"
    assert (
        call("open", "--round-id", "day.1", "--resume", "day.")["state"] == "closed"
    )  # a run that is repeated finds its own


def test_a_name_that_cannot_be_is_refused(tmp_path):
    done = CliRunner().invoke(load_all(), ["open", "--round-id", "a b", "--data", str(tmp_path)])
    assert done.exit_code == 2 and "round id 'a b'" in done.output


def test_status_has_the_newest_rounds_by_number_and_what_is_planned(call, crawl):
    for n in range(NEWEST + 2):
        crawl.close(crawl.open_round(0.0, f"r{NEWEST + 2 - n:02}"))  # names run against the numbers
    crawl.set_mark(crawl.open_round(0.0, "a"), "generate", {"planned": 7})
    crawl.set_mark(crawl.round("r01"), "commit", {"outcomes": {"redirected": 1, "fetched": 2}})
    rounds = call("status")["rounds"]
    assert [r["round_id"] for r in rounds] == [*(f"r{n:02}" for n in range(NEWEST - 1, 0, -1)), "a"]
    assert [
        (r["round_id"], r["state"], r["planned"], r["done"])
        for r in call("status", "--round-id", "a")["rounds"]
    ] == [("a", "open", 7, ["generate"])]
    text = CliRunner().invoke(load_all(), ["status", "--data", str(crawl.data)]).output
    assert "  r01: closed: fetched 2, redirected 1\n" in text
    for n in range(NEWEST):
        crawl.close(crawl.open_round(0.0, f"z{n:02}"))
    assert call("status")["rounds"][0]["round_id"] == "a"  # an open one is told however old


def test_no_round_is_opened_over_a_table_that_is_gone(call, crawl, tmp_path):
    crawl.set_known_tables(["crawldb"])
    for command in ("open", "round", "generate"):
        done = CliRunner().invoke(load_all(), [command, "--data", str(tmp_path)])
        assert (
            done.exit_code == 2
            and "table crawldb is missing" in done.output
            and "crawlkit rebuild" in done.output
        ), done.output
    assert crawl.round_ids() == []


def test_seeds_are_an_order_too(call):
    call("open")
    told = call("command", "seeds", "http://a.example/", "--command-id", "c1")
    assert (told["verb"], told["added"], told["repeated"]) == ("seeds", 1, False)
    assert call("command", "seeds", "http://a.example/", "--command-id", "c1")["repeated"]


def test_a_driver_whose_hold_was_taken_over_starts_no_stage_and_commits_nothing(
    call, crawl, tmp_path
):
    round_, said = crawl.open_round(0.0), []
    job = Job(crawl, say=said.append)
    with job.driving(round_):
        (
            tmp_path / f"state/rounds/{round_.id}/driver.lock"
        ).unlink()  # by hand, to be rid of a driver that hangs
        with Job(Crawl(tmp_path, crawl.cfg)).driving(round_):
            with pytest.raises(LockHeld, match=f"round {round_.id} is not held"):
                job.run("generate", round_)
            with crawl.lock, pytest.raises(LockHeld, match=f"round {round_.id} is not held"):
                job.tables.replace("domain_authority", [])
    assert said == [] and not job.tables.exists("domain_authority")
    with crawl.lock:
        job.tables.replace(
            "domain_authority", []
        )  # who drives no round needs the commit lock alone
