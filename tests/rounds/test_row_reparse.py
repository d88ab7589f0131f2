"""Closed rounds read again by another parser: the tables are those that it would have made (G4)."""

from __future__ import annotations

import json

import pytest
from crawlkit.crawl.state import CrawlError
from crawlkit.local.web_server import Reply
from crawlkit.upkeep.reparse import reparse

from tests.cli.call import call
from tests.engines import run_on
from tests.rounds.row_web import EPOCH, HTML, RowWeb, page

pytestmark = [pytest.mark.rounds]
on = run_on("local")
HOSTS = {"a.example": "127.88.0.1"}
HOME = "http://a.example/"
OLDER = {"parse__outlinks": 1, "parse__enforce_opt_outs": False}
NEWER = {"parse__outlinks": 5000, "parse__enforce_opt_outs": True}
WORDS = "Of these words there are as many as a text needs to be compared with another one. " * 5
TABLES = {
    "pages": ("url", "text_sha256", "simhash", "links", "flags", "round_id"),
    "links": ("to_url", "from_url", "refused", "round_id"),
    "contents": ("url", "text_sha256", "round_id"),
    "sim_bands": ("text_sha256", "scheme", "band", "round_id"),
    "duplicates": ("url", "canonical_url", "method"),
    "ranks": ("url_key", "inlinks"),
    "crawldb": (
        *("url", "state", "depth", "source", "text_sha256", "simhash", "outlinks", "flags"),
        *("n_fetch", "next_fetch", "first_seen", "history"),
    ),
}


def site(web: RowWeb) -> None:
    """A home page with three links, and a page that is not to be used by others, twice."""
    links = "".join(f"<a href=/{n}>page {n}</a>" for n in range(3))
    web.pages[HOME] = page("home", links)
    noai = f"<meta name=robots content=noai><p>{WORDS}</p>"
    for url in (f"{HOME}kept", f"{HOME}same"):
        web.pages[url] = Reply(200, HTML, f"<!doctype html><title>t</title>{noai}".encode())
    for n in range(3):
        web.pages[f"{HOME}{n}"] = page(f"number {n}")


def tables(web: RowWeb, names=TABLES) -> dict[str, list[str]]:
    job, out = web.job(), {}
    for name in names:
        rows = job.tables.rows(name, list(TABLES[name]))
        out[name] = sorted(json.dumps(r, default=str, sort_keys=True) for r in rows)
    return out


SEEDS = [HOME, f"{HOME}kept", f"{HOME}same"]


def test_the_tables_are_those_of_the_newer_parser(on, tmp_path):
    made = {}
    for name, first in (("new", NEWER), ("old", OLDER)):
        with RowWeb(tmp_path / name, HOSTS, on) as web:
            site(web)
            web.run(EPOCH, SEEDS, **first)
            made[name] = tables(web)
            if name == "old":
                asked = len(web.log)
                job = web.job(**NEWER)
                done = reparse(job, ["r000001"])
                made["again"] = tables(web)
                reparse(web.job(**NEWER), [])
                made["twice"] = tables(web)
                assert len(web.log) == asked
                assert done["rounds"]["r000001"]["links"] == 3
    assert made["old"]["pages"] != made["new"]["pages"]
    for name in TABLES:
        assert made["again"][name] == made["new"][name], name
        assert made["twice"][name] == made["again"][name], name


def test_other_rounds_stay_and_the_new_urls_are_fetched(on, tmp_path):
    with RowWeb(tmp_path / "crawl", HOSTS, on, **OLDER) as web:
        site(web)
        web.run(EPOCH, SEEDS)
        web.run(EPOCH + 60)
        of_second = [r for r in tables(web)["links"] + tables(web)["pages"] if "r000002" in r]
        sets = [f"{k}={json.dumps(v)}" for k, v in web.cfg_keys(**NEWER).items()]
        done = call(
            *("reparse", "r000001", "--data", web.folder, "--json"),
            *(w for s in sets for w in ("--set", s)),
        )
        assert done.code == 0, done.err
        now = tables(web)
        assert [r for r in now["links"] + now["pages"] if "r000002" in r] == of_second
        states = {u: r["state"] for u, r in web.rows("crawldb", "state").items()}
        assert [states[f"{HOME}{n}"] for n in range(3)] == ["fetched", "queued", "queued"]
        before = len(web.log)
        web.run(EPOCH + 120, **NEWER)
        assert {f"{HOME}1", f"{HOME}2"} <= {*web.log[before:]}
        history = web.rows("crawldb", "history")[f"{HOME}kept"]["history"]
        assert history == "N"


def test_it_is_refused_while_a_round_is_open(on, tmp_path):
    with RowWeb(tmp_path / "crawl", HOSTS, on) as web:
        site(web)
        job = web.run(EPOCH, SEEDS)
        with pytest.raises(CrawlError, match="only closed rounds"):
            reparse(job, ["r000001", "other"])
        job.crawl.open_round(EPOCH + 60)
        with pytest.raises(CrawlError, match="r000002 is open"):
            reparse(job, ["r000001"])
