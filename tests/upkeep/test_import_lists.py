"""Lists of other tools into a frontier (REQUIREMENTS A5, A6)."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from crawlkit.config import Config, ConfigError
from crawlkit.crawl.state import Crawl
from crawlkit.round.job import Job
from crawlkit.stages.fold import reduce_rows
from crawlkit.upkeep.imports import import_lists as imports
from crawlkit.upkeep.imports.import_lists import import_file, import_ranks

from tests.cli.call import call
from tests.frames import collect

NOW = 1_790_000_000.0


@pytest.fixture
def job(tmp_path) -> Job:
    return Job(Crawl(tmp_path / "crawl", Config()), quick=True, engine="local")


def frontier(job: Job) -> dict[str, object]:
    return {r.url: r for r in collect(reduce_rows(job.read("crawldb"), job.read("crawldb_log")))}


@pytest.mark.waits
def test_cdxj_in_pieces_with_line_numbers_and_again(job, tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "PIECE", 4)
    lines = [f'com,x)/{n} 20200101 {{"url": "http://x.com/{n % 8}"}}' for n in range(10)]
    lines[6] = "damaged"
    path = tmp_path / "index.cdxj.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    done = import_file(job, "cdxj", path, NOW, 3)
    assert (done["lines"], done["added"], done["duplicates"], done["refused"]) == (10, 7, 2, 1)
    assert done["examples"] == [
        f"{path}: line 7: not a CDXJ line: expected KEY TIMESTAMP {{JSON}}: damaged"
    ]
    rows = frontier(job)
    assert sorted(rows) == [f"http://x.com/{n}" for n in (0, 1, 2, 3, 4, 5, 7)] and {
        (r.source, r.priority_class, r.depth) for r in rows.values()
    } == {("import", 3, 0)}
    assert [r["detail"] for r in job.tables.rows("rejects", ["detail"])] == [
        "line 7: not a CDXJ line: expected KEY TIMESTAMP {JSON}"
    ]
    again = import_file(job, "cdxj", path, NOW, 3)
    assert (again["lines"], again["refused"]) == (10, 1) and len(frontier(job)) == 7
    assert (
        job.tables.count("crawldb_log") == 9
    )  # two of the ten are the same in another piece, one is refused: the same rows as before


def test_common_crawls_index(job, tmp_path):
    folder = tmp_path / "cc/crawl=CC-MAIN-2024-10/subset=warc"
    folder.mkdir(parents=True)
    pq.write_table(
        pa.table(
            {
                "url_surtkey": ["com,x)/a", "com,x)/b", "x"],
                "url": ["https://x.com/a", "https://x.com/b?utm_source=y", None],
                "fetch_status": pa.array([200, 404, 200], pa.int16()),
            }
        ),
        folder / "part-0.gz.parquet",
    )
    done = import_file(job, "cc-index", tmp_path / "cc", NOW)
    assert (done["lines"], done["added"], done["refused"]) == (3, 2, 0)
    assert sorted(frontier(job)) == ["https://x.com/a", "https://x.com/b"]


def test_a_trending_list_makes_known_urls_due(job, tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("http://x.com/known\nhttp://x.com/new\n")
    round_ = job.crawl.open_round(NOW)
    job.run("inject", round_, lines=["http://x.com/known"])
    job.crawl.close(round_)
    row = {
        **job.tables.rows("crawldb_log", ["url", "url_key", "host", "domain", "host_bucket"])[0],
        "state": "fetched",
        "next_fetch": NOW + 9e6,
        "last_fetch": NOW,
        "updated_no": 1,
        "depth": 0,
        "fetch_kind": "page",
        "priority_class": 1,
    }
    with job.crawl.lock:
        job.tables.replace("crawldb", [row])
    done = import_file(job, "urls", path, NOW + 100, 2, hint=True)
    assert (done["added"], done["duplicates"]) == (1, 1)
    rows = frontier(job)
    assert (
        rows["http://x.com/known"].next_fetch == NOW + 100
        and rows["http://x.com/new"].state == "queued"
    )


def test_a_webmasters_ping_is_in_the_next_rounds_fetch_list(job):
    from crawlkit.control.app import make_app
    from starlette.testclient import TestClient

    first = job.crawl.open_round(NOW)
    job.run("inject", first, lines=["http://x.com/known", "http://x.com/other"])
    job.crawl.close(first)
    known = [
        {
            **r,
            "state": "fetched",
            "next_fetch": NOW + 9e6,
            "last_fetch": NOW,
            "updated_no": 1,
            "depth": 0,
            "fetch_kind": "page",
            "priority_class": 1,
            "n_fetch": 1,
            "retries": 0,
            "redirects": 0,
        }
        for r in job.tables.rows("crawldb_log", ["url", "url_key", "host", "domain", "host_bucket"])
    ]
    with job.crawl.lock:
        job.tables.replace("crawldb", known)
        job.tables.replace(
            "buckets",
            [
                {
                    "host_bucket": known[0]["host_bucket"],
                    "rows": 2,
                    "next_due_1": NOW + 9e6,
                    "log_rows": 0,
                    "folded_through": 1,
                }
            ],
        )
    before = job.crawl.open_round(NOW + 50)
    assert not job.run("generate", before)["planned"]  # nothing is due
    job.crawl.close(before)
    token = "0123456789abcdef-token"
    client = TestClient(
        make_app(job.crawl.data, job.cfg, token), headers={"Authorization": f"Bearer {token}"}
    )
    ping = {
        "host": "x.com",
        "key": "0123abcd",
        "urlList": ["http://x.com/known", "http://x.com/new"],
    }
    assert client.post("/indexnow", json=ping).json() == {"queued": 2}
    after = job.crawl.open_round(NOW + 100)
    job.run("generate", after)
    assert (
        sorted(
            r["url"] for r in job.tables.rows("fetchlist", ["url", "kind"]) if r["kind"] == "page"
        )
        == ping["urlList"]
    )


def test_ranked_domains_raise_the_quality_of_their_hosts(job, tmp_path):
    from crawlkit.stages.rank import host_ranks

    path = tmp_path / "top.csv"
    path.write_text("1,first.com\r\n1000,mid.com\r\nbad line\r\n")
    done = import_ranks(job, path, "top")
    assert (done["domains"], done["refused"], done["examples"]) == (
        2,
        1,
        [f"{path}:3: not RANK,DOMAIN with a rank from 1 to 10000000"],
    )
    hostdb = job.frame(
        "hostdb",
        [
            {"host": h, "domain": d, "host_bucket": 0, "pages": 1}
            for h, d in (
                ("www.first.com", "first.com"),
                ("mid.com", "mid.com"),
                ("other.com", "other.com"),
            )
        ],
    )
    ranks = host_ranks(
        job.read("links"),
        job.read("captures"),
        job.read("duplicates"),
        hostdb,
        job.read("domain_authority"),
        1,
    )
    # 0.5 + 0.2 (1 - log10(rank) / 7)
    assert {r.host: round(r.quality, 4) for r in collect(ranks)} == {
        "www.first.com": 0.7,
        "mid.com": 0.6143,
        "other.com": 0.5,
    }
    path.write_text("5,first.com\n")
    import_ranks(job, path, "top")  # replaced, not added
    assert [
        (r["domain"], r["rank"]) for r in job.tables.rows("domain_authority", ["domain", "rank"])
    ] == [("first.com", 5)]


def test_files_that_are_no_such_list_are_refused_before_a_row_is_written(job, tmp_path):
    cases = {
        "cdxj": b"http://x.com/\n",
        "tranco": b"rank;domain\n",
        "heritrix": b"127.0.0.1 - - [x]\n",
        "nutch": b"http://x.com/\n",
        "cc-index": b"url\nhttp://x.com/\n",
    }
    for form, data in cases.items():
        path = tmp_path / form
        path.write_bytes(data)
        with pytest.raises(ConfigError, match=f"{path}"):
            import_file(job, form, path, NOW)
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b'a)/ 2020 {"url": "http://x.com/"}\n' * 1000)[:-20])
    with pytest.raises(ConfigError, match="damaged gzip"):
        import_file(job, "cdxj", cut, NOW)
    pq.write_table(pa.table({"address": ["x"]}), tmp_path / "no.parquet")
    with pytest.raises(ConfigError, match="no column url"):
        import_file(job, "cc-index", tmp_path / "no.parquet", NOW)
    with pytest.raises(ConfigError, match="No such file"):
        import_file(job, "urls", tmp_path / "none", NOW)
    assert not job.tables.exists("crawldb_log")


@pytest.mark.waits
def test_a_list_gives_a_crawl_without_scope_its_own(tmp_path):
    path, site = tmp_path / "list.cdxj", tmp_path / "site"
    hosts = ("www.a.example", "b.example")
    path.write_text("".join(f'x 2020 {{"url": "http://{host}/1"}}\n' for host in hosts))
    done = call("import", "cdxj", path, "--data", site, "--json")
    assert done.code == 0 and done.said["added"] == 2, done.err
    assert f"in scope from now on, by {path}: a.example, b.example" in done.err
    kept = yaml.safe_load((site / "crawl.yaml").read_text())
    assert kept["scope"] == {"domains": ["a.example", "b.example"]}
    (tmp_path / "urls").write_text("http://c.example/\n")
    later = call("import", "urls", tmp_path / "urls", "--data", site, "--json")
    assert (later.said["added"], later.said["refused"]) == (0, 1)  # it has a scope now


@pytest.mark.waits
def test_scope_any_of_a_list(tmp_path):
    (tmp_path / "urls").write_text("http://c.example/\n")
    words = ("--data", tmp_path / "site", "--scope", "any")
    assert call("import", "urls", tmp_path / "urls", *words).code == 0
    assert yaml.safe_load((tmp_path / "site/crawl.yaml").read_text())["scope"]["any"] is True
    assert call("import", "ranks", tmp_path / "urls", *words).code == 2
