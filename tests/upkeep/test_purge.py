"""What was stored of a host, a domain or a URL is removed on request, and nothing else
(REQUIREMENTS D11).
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from crawlkit.control.commands import run_command
from crawlkit.crawl.state import Crawl, CrawlError
from crawlkit.exports.source import Source
from crawlkit.report.audit import audit
from crawlkit.round.job import Job
from crawlkit.rules.url.canonical import host_of
from crawlkit.upkeep.purge import purge
from crawlkit.upkeep.rebuild import rebuild, rebuild_from_warc
from crawlkit.upkeep.reconcile import reconcile

from tests.fakeweb import DAY_S, EPOCH
from tests.rounds.test_known_answer import check_records

pytestmark = pytest.mark.rounds


def copy(known_crawl, folder: Path, engine: dict) -> Job:
    original = known_crawl[1]
    shutil.copytree(original.crawl.data, folder)
    return Job(Crawl(folder, original.cfg), quick=True, **engine)


@pytest.fixture
def job(known_crawl, on, tmp_path) -> Job:
    return copy(known_crawl, tmp_path / "copy", on)


def captures(job: Job) -> dict[str, dict]:
    return {
        r["capture_id"]: r
        for r in job.tables.rows(
            "captures",
            [
                "capture_id",
                "url",
                "host",
                "kind",
                "outcome",
                "reason",
                "started",
                "payload_digest",
                "warc_filename",
                "warc_record_offset",
                "warc_record_length",
            ],
        )
    }


def busiest(job: Job) -> str:
    return Counter(
        c["host"]
        for c in captures(job).values()
        if c["outcome"] == "fetched" and c["kind"] == "page"
    ).most_common(1)[0][0]


def everything_stored(folder: Path) -> bytes:
    """All bytes of tables, WARC files and parts, decompressed where they can be."""
    out = []
    for path in sorted((folder / "tables").rglob("*.parquet")):
        import pyarrow.parquet as pq

        out.append(str(pq.read_table(path).to_pylist()).encode())
    for path in sorted((folder / "warc").glob("*.warc.gz")):
        out.append(gzip.decompress(path.read_bytes()))
    out += [p.read_bytes() for p in sorted((folder / "state/parts").rglob("*.json"))]
    return b"\n".join(out)


def test_a_host_is_gone_and_the_rest_is_as_it_was(known_crawl, on_each, tmp_path):
    job = copy(known_crawl, tmp_path / "copy", on_each)
    host, before = busiest(job), captures(job)
    titles = [
        r["title"]
        for r in job.tables.rows("pages", ["title", "host"])
        if r["host"] == host and r["title"]
    ]
    others = " ".join(
        str(r) for r in job.tables.rows("pages", ["title", "text", "host"]) if r["host"] != host
    )
    anchors = " ".join(
        r["anchor"]
        for r in job.tables.rows("links", ["from_url", "anchor"])
        if host not in r["from_url"]
    )
    secret = next(t for t in titles if t not in others and t not in anchors)
    killed = next(
        c["warc_filename"] for c in before.values() if c["host"] == host and c["warc_filename"]
    )
    shutil.copyfile(
        job.crawl.data / "warc" / killed, job.crawl.data / "warc" / "of-a-killed-attempt.warc.gz"
    )  # no capture names it
    assert secret.encode() in everything_stored(job.crawl.data)
    orphans = reconcile(Source(job.crawl.data, job.cfg))[
        "orphan_files"
    ]  # that of the killed attempt, and those of earlier packing
    told = purge(job, "host", host, "they asked", "test", dry_run=True)
    assert (
        told["captures"] == sum(c["host"] == host for c in before.values())
        and captures(job) == before
    )
    for name in (host, "other.example"):
        job.crawl.objects.put(f"scripts/{name}/x.json", b"{}")
    done = purge(job, "host", host, "they asked", "test")
    assert job.crawl.objects.list("scripts/") == ["scripts/other.example/x.json"]
    now = captures(job)
    assert (
        now.keys() == before.keys()
        and done["captures"] == told["captures"] > 3
        and done["records"] > 3
    )
    mine = {k: c for k, c in now.items() if c["host"] == host}
    assert all(
        (c["outcome"], c["reason"], c["warc_filename"], c["payload_digest"])
        == ("refused", "purged", None, None)
        and c["started"] == before[k]["started"]
        for k, c in mine.items()
    )
    assert all(
        c["payload_digest"] == before[k]["payload_digest"] and c["outcome"] == before[k]["outcome"]
        for k, c in now.items()
        if k not in mine
    )
    check_records(job, tmp_path)  # each row its record, each record its row
    found = reconcile(Source(job.crawl.data, job.cfg))
    assert found["ok"] and found["orphan_files"] == orphans
    stored = everything_stored(job.crawl.data)
    assert secret.encode() not in stored
    assert f"Host: {host}\r\n".encode() not in stored
    digests = (
        {c["payload_digest"] for c in before.values() if c["host"] == host}
        - {c["payload_digest"] for c in before.values() if c["host"] != host}
        - {None}
    )
    assert digests and not [
        d for d in digests if d.encode() in stored
    ]  # also in the logs of the WARC files and in the parts
    for table in ("pages", "robots", "fetchlist"):
        assert not [r for r in job.tables.rows(table, ["host"]) if r["host"] == host], table
    assert all(
        (r["state"], r["error_type"], r["n_fetch"], r["body_sha256"], r["next_fetch"])
        == ("refused", "purged", 0, None, None)
        for r in job.tables.rows(
            "crawldb", ["host", "state", "error_type", "n_fetch", "body_sha256", "next_fetch"]
        )
        if r["host"] == host
    )
    assert audit(job)["violations"] == 0
    rows = sorted(
        (
            r
            for r in job.tables.rows("commands", ["at", "verb", "target", "arguments", "actor"])
            if r["target"] == host
        ),
        key=lambda r: r["at"],
    )
    assert (
        [r["verb"] for r in rows] == ["block", "purge"]
        and json.loads(rows[1]["arguments"])["captures"] == done["captures"]
        and rows[1]["actor"] == "test"
    )
    # again: nothing changes, neither tables nor files nor commands
    version = {
        n: job.tables._log(n).version() for n in ("captures", "crawldb", "pages", "commands")
    }
    assert purge(job, "host", host, "they asked", "test")["repeated"]
    assert {n: job.tables._log(n).version() for n in version} == version


@pytest.mark.slow
def test_a_purged_host_stays_purged_in_what_is_made_again(job, on):
    host = busiest(job)
    purge(job, "host", host, "", "test")
    was = {
        r["url"]: (r["state"], r["n_fetch"], r["body_sha256"], r["last_fetch"])
        for r in job.tables.rows(
            "crawldb", ["url", "state", "n_fetch", "body_sha256", "last_fetch"]
        )
    }

    def now(j: Job) -> dict:
        return {
            r["url"]: (r["state"], r["n_fetch"], r["body_sha256"], r["last_fetch"])
            for r in j.tables.rows(
                "crawldb", ["url", "state", "n_fetch", "body_sha256", "last_fetch"]
            )
        }

    shutil.copytree(job.crawl.data / "warc", job.crawl.data.parent / "warconly/warc")
    rebuild(job)
    fetched = {u for u, r in was.items() if r[1]}
    assert {u: r for u, r in now(job).items() if u in fetched} == {
        u: r for u, r in was.items() if u in fetched
    }
    assert not [u for u, r in now(job).items() if host_of(u) == host and r[1]]
    alone = Job(Crawl(job.crawl.data.parent / "warconly", job.cfg), quick=True, **on)
    rebuild_from_warc(alone)
    assert {u: r for u, r in now(alone).items() if u in fetched} == {
        u: r for u, r in was.items() if u in fetched
    }
    assert not [u for u, r in now(alone).items() if host_of(u) == host and r[1]]


@pytest.mark.slow
def test_one_url_and_what_was_stored_under_it_for_others(job, tmp_path):
    before = captures(job)
    referred = Counter(
        r["revisit_of"] for r in job.tables.rows("captures", ["revisit_of"]) if r["revisit_of"]
    )
    urls = {k: before[k]["url"] for k in referred if k in before and before[k]["kind"] == "page"}
    other = next(
        (
            k
            for k, u in urls.items()
            if any(
                r["revisit_of"] == k and r["url"] != u
                for r in job.tables.rows("captures", ["revisit_of", "url"])
            )
        ),
        None,
    )
    key = other or next(iter(urls))
    url = urls[key]
    done = purge(job, "url", url, "", "test")
    now = captures(job)
    assert {
        k
        for k in now
        if now[k] != before[k]
        and now[k]["url"] != url
        and now[k]["outcome"] != before[k]["outcome"]
    } == set()
    assert all(c["reason"] == "purged" for c in now.values() if c["url"] == url)
    assert (
        next(r["state"] for r in job.tables.rows("crawldb", ["url", "state"]) if r["url"] == url)
        == "refused"
    )
    if other:
        lost = {
            r["url"]
            for r in job.tables.rows("captures", ["revisit_of", "url"])
            if r["revisit_of"] == key and r["url"] != url
        }
        assert done["refetched"] and {
            r["url"]
            for r in job.tables.rows("crawldb", ["url", "capture_id", "next_fetch"])
            if r["url"] in lost and r["capture_id"] is None
        }
    check_records(job, tmp_path)
    assert [r["verb"] for r in job.tables.rows("commands", ["verb"])] == ["purge"]


@pytest.mark.slow
@pytest.mark.parametrize("stop", range(0, 24, 3))
def test_killed_the_same_command_goes_on(job, stop, tmp_path):
    host, made = busiest(job), [0]

    def guard() -> None:
        job.crawl.lock.check()
        if made[0] == stop:
            raise KeyboardInterrupt
        made[0] += 1

    run_command(job.crawl, "block", {"host": host}, actor="test")
    job.tables.guard = guard
    try:
        purge(job, "host", host, "", "test")
    except KeyboardInterrupt:
        pass
    job.tables.guard = job.crawl.lock.check
    purge(job, "host", host, "", "test")
    check_records(job, tmp_path)
    assert reconcile(Source(job.crawl.data, job.cfg))["ok"]
    assert f"Host: {host}\r\n".encode() not in everything_stored(job.crawl.data)
    assert sorted(r["verb"] for r in job.tables.rows("commands", ["verb"])) == ["block", "purge"]
    assert not [r for r in job.tables.rows("pages", ["host"]) if r["host"] == host]


def test_refused_for_a_round_opened_while_it_begins(job, monkeypatch):
    """The round's tasks may have written files that no commit names yet."""
    before = captures(job)
    monkeypatch.setattr(
        "crawlkit.upkeep.purge._unreferenced_files",
        lambda job: job.crawl.open_round(EPOCH + 6 * DAY_S) and set(),
    )
    with pytest.raises(CrawlError, match="is open"):
        purge(job, "host", busiest(job), "", "test")
    assert captures(job) == before


def test_refused_while_a_round_is_open_and_for_what_is_no_host(job):
    from crawlkit.rules.frontier.command_rules import BadCommand

    with pytest.raises(BadCommand, match="is no host name"):
        purge(job, "host", "http://x/", "", "test")
    round_ = job.crawl.open_round(EPOCH + 6 * DAY_S)
    with pytest.raises(CrawlError, match=f"round {round_.id} is open"):
        purge(job, "host", busiest(job), "", "test")
