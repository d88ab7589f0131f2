"""Whole rounds over the synthetic web against its right answer, and the server's own log
(REQUIREMENTS B, D, G, H, I, N).
"""

from __future__ import annotations

import ast
import os
import re
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
from crawlkit.adapters.lake.duckdb_reader import ask
from crawlkit.exports.cc_index import cc_table
from crawlkit.exports.cdxj import export_cdxj
from crawlkit.exports.source import Source
from crawlkit.exports.wacz import export_wacz
from crawlkit.observe.sql_views import register_views
from crawlkit.observe.views import VIEWS
from crawlkit.report.audit import audit
from warcio.archiveiterator import ArchiveIterator

from tests.fakeweb import Delays, differences, judge
from tests.frames import Record, collect
from tests.outside import run_tool, wayback

pytestmark = [pytest.mark.rounds]
ROOT = Path(__file__).resolve().parents[2]


def table(job):
    rows = collect(
        job.read("crawldb").select(
            "url",
            "state",
            "depth",
            "next_fetch",
            "interval_s",
            "last_status AS status",
            "n_change",
            "retries",
        )
    )
    return {r.url: dict(r) for r in rows}


@pytest.fixture
def crawled(known_crawl):
    return known_crawl


def test_states_and_depths_equal_the_right_answer(crawled):
    web, job, log, answer = crawled
    assert differences(answer, table(job)) == []


def test_next_fetch_follows_the_interval_to_the_second(crawled):
    web, job, log, answer = crawled
    got = {
        u: {**r, "next_fetch": None if r["next_fetch"] is None else round(r["next_fetch"])}
        for u, r in table(job).items()
        if r["state"] == "fetched"
    }
    want = {u: r for u, r in answer.rows.items() if r.state == "fetched"}
    wrong = {
        u: (got[u]["next_fetch"], r.next_fetch)
        for u, r in want.items()
        if got[u]["next_fetch"] != round(r.next_fetch)
    }
    assert not wrong
    changes = {
        u: (got[u]["n_change"], r.n_change)
        for u, r in want.items()
        if got[u]["n_change"] != r.n_change
    }
    assert not changes


def test_304_and_revisit_records_where_due(crawled):
    web, job, log, answer = crawled
    query = """
        SELECT c.url, r.round_no, c.status, c.record_type FROM {captures} AS c
        JOIN {rounds} AS r ON c.round_id = r.round_id
        WHERE c.kind = 'page' AND c.is_outcome AND c.status IN (200, 304)
    """
    frames = {name: job.read(name) for name in ("captures", "rounds")}
    rows = collect(job.engine.query(query, **frames))
    got = {(r.round_no, r.url): (r.status, r.record_type) for r in rows}
    for number, sent in enumerate(answer.requests, 1):
        for url, status in sent.items():
            if status == 304:
                assert got[number, url] == (304, "revisit"), (number, url, got.get((number, url)))
    again = [
        (n, u)
        for n, sent in enumerate(answer.requests, 1)
        for u, st in sent.items()
        if st == 200 and any(u in earlier for earlier in answer.requests[: n - 1])
    ]
    assert again, "no page was fetched twice: the test shows nothing"


def test_every_record_has_its_row_and_every_row_its_record(crawled, tmp_path):
    web, job, log, answer = crawled
    check_records(job, tmp_path)


def check_records(job, tmp_path):
    """warcio and fastwarc read every file; rows and records are one to one; digests agree."""
    from fastwarc.warc import ArchiveIterator as Fast, WarcRecordType
    from warcio.checker import Checker

    rows = collect(
        job.read("captures")
        .where("warc_filename IS NOT NULL")
        .select(
            "warc_filename",
            "warc_record_offset",
            "warc_record_length",
            "payload_digest",
            "url",
            "record_type",
        )
    )
    by_file: dict[str, dict[int, object]] = {}
    for r in rows:
        assert r.warc_record_offset not in by_file.setdefault(r.warc_filename, {}), (
            "two rows for one record"
        )
        by_file[r.warc_filename][r.warc_record_offset] = r
    assert by_file
    for name, expected_rows in by_file.items():
        path = tmp_path / "copy.warc.gz"
        with job.crawl.warc.open_range(name) as stored:
            path.write_bytes(stored.read())
        seen = {}
        with open(path, "rb") as f:
            records = ArchiveIterator(f, check_digests="raise")
            for record in records:
                if record.rec_type in ("response", "revisit"):
                    offset = records.get_record_offset()
                    record.content_stream().read()
                    seen[offset] = (
                        record.rec_headers["WARC-Target-URI"],
                        record.rec_headers["WARC-Payload-Digest"],
                        record.rec_type,
                    )
        assert set(seen) == set(expected_rows), name
        for offset, r in expected_rows.items():
            assert seen[offset] == (r.url, r.payload_digest, r.record_type)
            with open(path, "rb") as f:
                f.seek(offset)
                member = f.read(r.warc_record_length)
            import gzip

            assert gzip.decompress(member).startswith(b"WARC/1.1")
        with open(path, "rb") as f:
            fast = sum(
                1
                for rec in Fast(
                    f,
                    record_types=WarcRecordType.response | WarcRecordType.revisit,
                    parse_http=False,
                )
                if rec.verify_block_digest()
            )
        assert fast == len(expected_rows), name
        checker = Checker(SimpleNamespace(inputs=[str(path)], verbose=False))
        assert checker.process_all() == 0, name


def test_outside_tools_read_the_crawl(crawled, tmp_path):
    """cdxj-indexer finds what our CDXJ says, pywb replays by it every tenth answer with 200, and
    `wacz validate` has nothing to say.
    """
    web, job, log, answer = crawled
    source, warc = Source(job.crawl.data, job.cfg), tmp_path / "warc"
    warc.mkdir()
    for r in collect(
        job.read("captures").where("warc_filename IS NOT NULL").select("warc_filename")
    ):
        with job.crawl.warc.open_range(r.warc_filename) as stored:
            (warc / r.warc_filename).write_bytes(stored.read())
    export_cdxj(source, tmp_path / "index.cdxj")
    assert (tmp_path / "index.cdxj").read_text("utf-8") == run_tool(
        "cdxj-indexer", "-s", *sorted(warc.iterdir())
    )
    export_wacz(source, tmp_path / "crawl.wacz")
    assert "Invalid" not in run_tool("wacz", "validate", "-f", tmp_path / "crawl.wacz")
    stored = {}
    for file in sorted(warc.iterdir()):
        with file.open("rb") as f:
            for record in ArchiveIterator(f):
                if record.rec_type == "response" and record.http_headers.get_statuscode() == "200":
                    stored[
                        record.rec_headers["WARC-Target-URI"],
                        re.sub(r"\D", "", record.rec_headers["WARC-Date"])[:14],
                    ] = record.content_stream().read()
    assert len(stored) > 100
    with wayback(tmp_path / "pywb", warc, tmp_path / "index.cdxj") as replay:
        for (url, when), body in sorted(stored.items())[::10]:
            assert requests.get(f"{replay}/{when}id_/{url}", timeout=20).content == body, url


def test_revisits_refer_to_stored_bodies(crawled, tmp_path):
    """WARC 1.1 6.7: a revisit names the record, URL and date at which the body is stored, never
    another revisit.
    """
    from crawlkit.adapters.warc.reader import read_record

    web, job, log, answer = crawled
    rows = {
        r.capture_id: r
        for r in (
            collect(
                job.read("captures")
                .where("record_type IS NOT NULL")
                .select(
                    "capture_id",
                    "url",
                    "record_type",
                    "revisit_of",
                    "warc_filename",
                    "warc_record_offset",
                    "warc_record_length",
                )
            )
        )
    }
    revisits = [r for r in rows.values() if r.record_type == "revisit"]
    assert len(revisits) > 100

    def fields(row):
        path = tmp_path / row.warc_filename
        if not path.exists():  # WARC files may be in S3
            with job.crawl.warc.open_range(row.warc_filename) as warc:
                path.write_bytes(warc.read())
        return read_record(path, row.warc_record_offset, row.warc_record_length).headers

    for r in revisits:
        copy = rows[r.revisit_of]
        head, stored = fields(r), fields(copy)
        assert copy.record_type == stored["warc-type"] == "response", r.capture_id
        assert (
            head["warc-refers-to"],
            head["warc-refers-to-target-uri"],
            head["warc-refers-to-date"],
        ) == (stored["warc-record-id"], stored["warc-target-uri"], stored["warc-date"])


def test_packing_keeps_every_record(crawled, tmp_path):
    from crawlkit.upkeep.maintain import maintain

    web, job, log, answer = crawled
    before = {
        r.capture_id: (r.payload_digest, r.url)
        for r in collect(job.read("captures").select("capture_id", "payload_digest", "url"))
    }
    done = maintain(job, time.time())
    assert done["packed"]["files_out"] > 0, sorted(os.listdir(job.crawl.warc_place))
    assert {
        r.capture_id: (r.payload_digest, r.url)
        for r in collect(job.read("captures").select("capture_id", "payload_digest", "url"))
    } == before
    check_records(job, tmp_path)
    assert maintain(job, time.time())["packed"]["files_in"] == 0


def test_every_documented_query_runs_and_answers(crawled):
    web, job, log, answer = crawled
    if job.engine_name == "spark":
        register_views(job)
    text = (Path(__file__).parents[2] / "docs" / "queries.md").read_text("utf-8")
    queries = dict(
        zip(
            re.findall(r"^## (\d+)", text, re.MULTILINE),
            re.findall(r"```sql\n(.*?)```", text, re.DOTALL),
            strict=True,
        )
    )
    assert len(queries) >= 10
    fetched = next(
        u
        for u, r in answer.rows.items()
        if r.state == "fetched" and any(u in c for c in answer.clusters)
    )
    dead = {u for u, r in answer.rows.items() if r.state == "dead"}
    denied = {u for u, r in answer.rows.items() if r.state == "robots_skipped"}

    def rows(n: str, url: str = fetched):
        query = queries[n].replace("{url}", url)
        if job.engine_name == "spark":
            return job.spark.sql(query).collect()
        made = {"cc_index": lambda: cc_table(Source(job.crawl.data, job.cfg))}
        return [Record(row) for row in ask(job.tables, VIEWS, query, 100_000, made)]

    assert [r.url for r in rows("1")] == [fetched]
    assert rows("2", next(iter(denied)))[0].state == "robots_skipped"
    assert {r.to_url for r in rows("3")} <= dead and rows("3")
    cluster = next(c for c in answer.clusters if fetched in c)
    assert {r.url for r in rows("4")} == cluster - {fetched}
    assert 0 < len(rows("5")) <= 10
    assert {r.url for r in rows("6")} <= {u for u, r in answer.rows.items() if r.n_change} and rows(
        "6"
    )
    assert sum(r.urls for r in rows("7")) == len(answer.rows)
    assert rows("8")
    assert {r.from_url for r in rows("9")} and all(
        job.read("links").where(f"to_url = '{fetched}'").count() for _ in (0,)
    )
    assert {r.reason for r in rows("10")} >= {"dns_nxdomain", "http_404"}
    rows("11")
    assert {r.from_url for r in rows("12")} >= {
        u for u, r in answer.rows.items() if r.state == "redirected"
    }
    assert (
        sum(r.n_pages for r in rows("13"))
        == job.read("captures")
        .where("kind <> 'robots' AND outcome = 'fetched' AND record_type = 'response'")
        .count()
        > 0
    )


def test_the_captured_set_is_the_reachable_permitted_set(crawled):
    web, job, log, answer = crawled
    got = {
        r.url
        for r in (
            collect(
                job.read("captures").where("outcome = 'fetched' AND kind = 'page'").select("url")
            )
        )
    }
    assert got == {u for u, r in answer.rows.items() if r.first_fetched is not None}


def test_the_servers_log_shows_no_rudeness(crawled):
    web, job, log, answer = crawled
    delay = job.cfg.politeness
    found = judge(log, web, Delays(host_s=delay.delay_s, domain_s=delay.domain_delay_s))
    # two hosts on one address may be in two tasks until their address is known (D2); within a task
    # the audit below sees it
    assert found.total == len(found.address_gap), str(found)
    said = audit(job)
    assert said["violations"] == 0, said


def test_clusters_are_the_planted_ones(crawled):
    web, job, log, answer = crawled
    got: dict[bytes, set[str]] = {}
    for r in collect(job.read("duplicates")):
        got.setdefault(bytes(r.cluster_id), set()).add(r.url)
    assert sorted(map(sorted, got.values())) == sorted(map(sorted, answer.clusters))


def test_the_questions_of_the_dag_data_quality_find_nothing(crawled):
    """Read, not imported: Airflow has an environment of its own."""
    web, job, log, answer = crawled
    tree = ast.parse((ROOT / "airflow_dags" / "data_quality.py").read_text("utf-8"))
    given = {n.targets[0].id: n.value for n in tree.body if isinstance(n, ast.Assign)}
    faults = ast.literal_eval(given["FAULTS"])
    sql = " UNION ALL ".join(f"SELECT '{name}' AS fault, ({q}) AS n" for name, q in faults.items())
    assert ask(job.crawl.plain_tables(), VIEWS, sql, 100) == [
        {"fault": name, "n": 0} for name in faults
    ]


def test_every_planned_url_has_one_outcome(crawled):
    web, job, log, answer = crawled
    planned = job.read("fetchlist").select("round_id", "kind", "url_key")
    outcomes = job.read("captures").where("is_outcome").select("round_id", "kind", "url_key")
    ends = Counter(map(str, outcomes.rows()))
    assert ends == Counter(map(str, planned.rows())) and set(ends.values()) == {1}


def test_noindex_keeps_no_text(crawled):
    web, job, log, answer = crawled
    rows = {
        r.url: r for r in collect(job.read("pages").select("url", "noindex", "text", "text_sha256"))
    }
    for url, row in answer.rows.items():
        if url in rows and row.state == "fetched":
            assert (rows[url].text is not None) == row.has_text, url
