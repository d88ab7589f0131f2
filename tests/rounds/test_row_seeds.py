"""URLs given by file, object store, API and Python, with what is said of them (A1, M4, M9)."""

from __future__ import annotations

import json

import boto3
import pytest
from crawlkit import api
from crawlkit.control.app import make_app
from starlette.testclient import TestClient

from tests.cli.call import call
from tests.engines import run_on
from tests.rounds.row_web import DAY_S, EPOCH, RowWeb, page
from tests.servers.s3_server import KEYS, moto, new_bucket

pytestmark = [pytest.mark.rounds]
on = run_on("local")
A = "http://a.example"
TOKEN = "a-token-for-this-test"
HEAD = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def rows(on, tmp_path_factory):
    """crawldb after seeds of all kinds, and a round."""
    with RowWeb(tmp_path_factory.mktemp("seeds") / "crawl", {"a.example": "127.85.0.1"}, on) as web:
        web.pages |= {f"{A}/{n}": page(f"page {n}") for n in ("file", "api", "python", "forced")}
        line = f"{A}/file\tpriority=low\tdepth=3\tsource=partner list\ttime=2025-12-31\tteam=blue"
        web.run(EPOCH, [line])
        client = TestClient(make_app(web.folder, web.cfg(), TOKEN), headers=HEAD)
        given = {"urls": [f"{A}/api"], "priority": "high", "depth": 2, "source": "crm", "time": 5.0}
        assert client.post("/v1/seeds", json=given | {"metadata": {"id": 7}}).status_code == 200
        api.add_urls([f"{A}/python"], web.folder, web.cfg(), depth=1, source="notebook")
        published = {"urls": [f"{A}/forced"], "priority": "immediate"}
        assert client.post("/api/v1/crawler/recrawl", json=published).status_code == 200
        again = {
            "urls": [f"{A}/file"],
            "priority": "critical",
            "mode": "overwrite",
            "source": "new",
        }
        assert client.post("/api/v1/crawler/seeds", json=again).json()["duplicates"] == 1
        web.run(EPOCH + DAY_S)
        return web.rows("crawldb", "metadata", "depth", "priority_class", "source", "state")


def test_what_is_said_of_a_seed_is_kept_with_the_url(rows):
    assert json.loads(rows[f"{A}/api"]["metadata"]) == {"id": 7, "source": "crm", "time": 5.0}
    assert (rows[f"{A}/api"]["depth"], rows[f"{A}/api"]["priority_class"]) == (2, 1)
    assert json.loads(rows[f"{A}/python"]["metadata"]) == {"source": "notebook"}
    assert rows[f"{A}/python"]["depth"] == 1
    assert all(r["state"] == "fetched" for r in rows.values())


def test_a_seed_given_again_overwrites_as_told(rows):
    row = rows[f"{A}/file"]
    assert (row["priority_class"], json.loads(row["metadata"])) == (0, {"source": "new"})
    assert row["source"] == "seed"  # how it came is another thing than who said so


def test_the_published_priority_of_a_forced_recrawl_is_taken(rows):
    assert (rows[f"{A}/forced"]["priority_class"], rows[f"{A}/forced"]["source"]) == (0, "operator")


@pytest.mark.parametrize(
    "bad", [{"depth": -1}, {"mode": "merge"}, {"metadata": [1]}, {"metadata": {"a": "x" * 5000}}]
)
def test_what_cannot_be_kept_is_refused_with_its_field(tmp_path, on, bad):
    web = RowWeb(tmp_path / "crawl", {"a.example": "127.85.0.1"}, on)
    web.job().crawl.open_round(EPOCH)
    with pytest.raises(ValueError, match=next(iter(bad))):
        api.add_urls([f"{A}/"], web.folder, web.cfg(), **bad)
    web.server.stop()


def test_seeds_are_read_from_an_object_store_and_their_keys_asked_by_sql(tmp_path, monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with moto() as endpoint:
        bucket = new_bucket(endpoint).removeprefix("s3://").strip("/")
        body = b"http://a.example/x\tsource=partner\nhttp://a.example/y\nnot a url\n"
        store = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        store.put_object(Bucket=bucket, Key="lists/seeds.txt", Body=body)
        s3 = ["--set", f"s3.endpoint_url={endpoint}", "--set", "s3.path_style=true"]
        place = f"s3://{bucket}/lists/seeds.txt"
        done = call("inject", "--seeds", place, "--data", tmp_path / "c", *s3, "--json")
        assert (done.code, json.loads(done.out)["added"]) == (0, 2), done.err
        missing = call("inject", "--seeds", place + "x", "--data", tmp_path / "c", *s3)
        assert (missing.code, "no such object" in missing.err) == (2, True)
    query = "SELECT url, metadata ->> 'source' AS source FROM crawldb_log ORDER BY url"
    asked = call("sql", query, "--data", tmp_path / "c", "--json")
    assert [r.get("source") for r in json.loads(asked.out)["rows"]] == ["partner", None]
