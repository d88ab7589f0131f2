"""The control API: its paths and field names, its token, its effects on a crawl's folder."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import pytest
from crawlkit.adapters.store.pending_commands import read_pending
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.config import Config, ConfigError
from crawlkit.control.app import MAX_BODY_BYTES, OPEN_PATHS, make_app
from crawlkit.control.serve import token_of
from crawlkit.slot.inputs import put_progress
from starlette.testclient import TestClient

from tests.control.smallcrawl import NOW

pytestmark = pytest.mark.waits

TOKEN = "0123456789abcdef-token"


@pytest.fixture
def client(crawl):
    return TestClient(
        make_app(crawl.data, crawl.cfg, TOKEN), headers={"Authorization": f"Bearer {TOKEN}"}
    )


def digest(folder: Path) -> str:
    """Of every file's name and content below a folder."""
    return hashlib.sha256(
        b"".join(
            str(p.relative_to(folder)).encode() + p.read_bytes()
            for p in sorted(folder.rglob("*"))
            if p.is_file() and not p.name.endswith(".lock")
        )
    ).hexdigest()


def operations(client: TestClient) -> list[tuple[str, str]]:
    paths = client.get("/openapi.json").json()["paths"]
    return [
        (method, path) for path, item in paths.items() for method in item if path not in OPEN_PATHS
    ]


def test_without_the_token_nothing_is_read_or_written(crawl, client):
    before = digest(crawl.data)
    seen = operations(client)
    assert len(seen) >= 20
    bodies = {"urls": ["http://a.test/"]}, {"host": "a.test"}
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN} "},
        {"Authorization": f"Bearer {TOKEN}\xe9".encode("latin-1")},
    ):
        other = TestClient(client.app, headers=headers)
        for method, path in seen:
            filled = (
                path.replace("{round_id}", "r000001")
                .replace("{verb}", "abandon")
                .replace("{host}", "a.test")
            )
            for body in bodies:
                answer = other.request(method, filled + "?url=http://a.test/", json=body)
                assert answer.status_code == 401, (method, path, headers)
                assert set(answer.json()) == {"detail"}
                assert answer.headers["www-authenticate"] == "Bearer"
    assert digest(crawl.data) == before


def test_the_open_paths_tell_nothing(crawl, client):
    other = TestClient(client.app)
    assert other.get("/v1/healthz").json() == other.get("/healthz").json() == {"ok": True}
    page = other.get("/")
    assert page.status_code == 200
    assert "a.test" not in page.text and "src=" not in page.text and "href=" not in page.text
    assert other.get("/openapi.json").json()["openapi"].startswith("3.")


def test_bodies_are_bounded(client):
    assert (
        client.post(
            "/v1/seeds", content=b"x" * 10, headers={"Content-Length": str(MAX_BODY_BYTES + 1)}
        ).status_code
        == 413
    )
    assert client.post("/v1/seeds", content=iter([b"{}"])).status_code == 411


def test_seeds_hints_and_recrawls_wait_for_the_next_round(crawl, client):
    told = client.post(
        "/v1/seeds",
        json={"urls": ["http://a.test/", "http://new.test/", "javascript:1"], "priority": "high"},
    ).json()
    assert (told["added"], told["duplicates"], told["queued"], len(told["refused"])) == (1, 1, 2, 1)
    assert client.post("/v1/recrawl", json={"urls": ["http://a.test/dead"]}).json()["queued"] == 1
    assert client.post("/v1/hints", json={"urls": ["http://a.test/"]}).status_code == 200
    assert (
        client.post("/v1/boost", json={"urls": ["http://a.test/"], "boost": 5}).status_code == 200
    )
    assert [c["verb"] for c in read_pending(crawl.objects)] == ["seeds", "recrawl", "hint", "boost"]
    assert client.get("/v1/commands").json()["items"][0]["verb"] == "boost"
    assert client.get("/v1/commands?limit=2").json()["next_offset"] == 2
    assert client.get("/v1/commands?limit=2&offset=2").json()["next_offset"] is None


def test_the_published_aliases(crawl, client):
    assert client.post(
        "/api/v1/crawler/seeds", json={"urls": ["http://a.test/", "http://b.test/"], "priority": 1}
    ).json() == {"added": 1, "duplicates": 1}
    assert client.post("/seeds", json={"urls": ["http://c.test/"]}).json() == {"queued": 1}
    assert set(client.get("/api/v1/crawler/status").json()) == {
        "queueDepth",
        "crawlRate",
        "domainsActive",
        "errorsLastHour",
        "pagesThisMonth",
    }
    assert set(client.get("/status").json()) == {
        "pages_per_sec",
        "queue_depth",
        "error_rate_percent",
    }
    assert (
        client.post(
            "/api/v1/crawler/blacklist", json={"domain": "bad.example", "reason": "spam"}
        ).status_code
        == 200
    )
    assert (
        client.post(
            "/api/v1/crawler/recrawl", json={"urls": ["http://a.test/"], "priority": "critical"}
        ).json()["queued"]
        == 1
    )
    assert client.post(
        "/hosts/a.test/policy", json={"crawl_delay_ms": 2500, "max_concurrent": 2}
    ).json() == {"applied": True}
    orders = read_orders(crawl.objects)
    assert orders.domains == {"bad.example": "spam"}
    assert orders.policies["a.test"] == {
        "delay_s": 2.5,
        "parallel": 2,
        "quota_max": None,
        "cycle_quota_max": None,
        "recrawl": None,
        "weight": None,
    }
    assert client.get("/v1/hosts/A.test/policy").json() == {
        "host": "a.test",
        "delay_s": 2.5,
        "parallel": 2,
        "quota_max": None,
        "cycle_quota_max": None,
        "recrawl": None,
        "weight": None,
        "stopped": None,
        "delay_ms_in_force": 2000,
        "next_allowed_at": None,
        "pages_left": 100_000,
        "quota": "host_day_quota",
        "pages_again_at": None,
    }


def test_a_webmasters_ping(crawl, client):
    ping = {"host": "a.test", "key": "0123abcd", "urlList": ["http://a.test/", "http://a.test/new"]}
    assert client.post("/indexnow", json=ping).json() == {"queued": 2}
    assert [(c["verb"], c["arguments"]["urls"]) for c in read_pending(crawl.objects)] == [
        ("hint", ping["urlList"])
    ]
    assert client.post("/indexnow", json=ping | {"urlList": ["http://b.test/"]}).status_code == 422
    assert client.post("/indexnow", json=ping | {"key": "short"}).status_code == 422


def test_blocks_complaints_and_their_end(crawl, client):
    assert (
        client.post("/v1/blacklist", json={"domain": "www.a.example"}).json()["arguments"]["kind"]
        == "host"
    )  # one host's name
    assert (
        client.post("/v1/complaints", json={"host": "b.test", "reason": "stop it"}).status_code
        == 200
    )
    assert set(read_orders(crawl.objects).hosts) == {"www.a.example", "b.test"}
    assert [
        a["name"] for a in client.get("/v1/alerts").json()["alerts"] if a["state"] == "firing"
    ] == ["complaint"]
    client.post("/v1/unblock", json={"host": "b.test"})
    assert set(read_orders(crawl.objects).hosts) == {"www.a.example"}
    assert client.put(
        "/v1/hosts/c.test/policy", json={"quota_max": 0, "cycle_quota_max": 7}
    ).json()["arguments"] == {
        "kind": "host",
        "delay_s": None,
        "parallel": 1,
        "quota_max": 0,
        "cycle_quota_max": 7,
        "recrawl": None,
        "weight": None,
    }
    assert {
        k: v
        for k, v in client.get("/v1/hosts/c.test/policy").json().items()
        if k in ("pages_left", "quota", "pages_again_at")
    } == {"pages_left": 0, "quota": "host_day_quota", "pages_again_at": None}


def test_rounds_are_paused_resumed_and_abandoned(crawl, client):
    round_ = crawl.open_round(NOW)
    assert client.post(f"/v1/rounds/{round_.id}/pause").status_code == 200
    assert (
        client.get("/v1/rounds").json()["items"][0]["state"]
        == client.get("/v1/status").json()["rounds"][0]["state"]
        == "paused"
    )
    assert client.post(f"/v1/rounds/{round_.id}/resume").status_code == 200
    assert client.post(f"/v1/rounds/{round_.id}/abandon").json()["state"] == "abandoned"
    assert client.post(f"/v1/rounds/{round_.id}/pause").status_code == 400
    assert client.post("/v1/rounds/nope/pause").status_code == 409
    assert client.post(f"/v1/rounds/{round_.id}/dance").status_code == 422
    assert client.get("/v1/rounds?limit=1").json()["next_offset"] == 1


def test_a_dry_run_and_a_repeated_command(crawl, client):
    before = digest(crawl.data)
    assert (
        client.post("/v1/blacklist?dry_run=true", json={"host": "a.test"}).json()["dry_run"] is True
    )
    assert client.post("/v1/blacklist?dryrun=true", json={"host": "a.test"}).status_code == 400
    assert client.post("/hosts/a.test/policy?dry_run=true", json={"crawl_delay_ms": 1}).json() == {
        "applied": False
    }
    assert digest(crawl.data) == before
    keyed = {"Idempotency-Key": "k1"}
    assert [
        client.post("/v1/blacklist", json={"host": "a.test"}, headers=keyed).json()["repeated"]
        for _ in range(2)
    ] == [False, True]
    assert client.post("/v1/blacklist", json={"host": "b.test"}, headers=keyed).status_code == 400
    assert len(crawl.plain_tables().rows("commands", ["command_id"])) == 1


def test_looking(client):
    s = client.get("/v1/status").json()
    assert (s["known_urls"], s["states"]) == (3, {"fetched": 1, "robots_skipped": 1, "dead": 1})
    assert (
        client.get("/v1/explain", params={"url": "http://a.test/private/x"}).json()["robots"][
            "line_no"
        ]
        == 2
    )
    assert [e["url"] for e in client.get("/v1/errors").json()["items"]] == ["http://a.test/dead"]
    assert client.get("/v1/errors?host=other.test").json() == {"items": [], "next_offset": None}
    assert [
        r["warc_filename"]
        for r in client.get("/v1/cdx", params={"url": "HTTP://A.test"}).json()["items"]
    ] == ["f.warc.gz"]
    assert client.get("/v1/metrics").text.startswith("# HELP crawlkit_")


def test_a_running_round_is_watched(crawl, client):
    round_ = crawl.open_round(NOW)
    crawl.set_mark(
        round_,
        "generate",
        {
            "stage": "generate",
            "started": time.time() - 20,
            "ended": time.time() - 10,
            "planned": 100,
            "hosts": 7,
        },
    )
    for slot in (0, 1):
        put_progress(
            crawl.objects,
            round_.id,
            slot,
            {
                "queued": 10,
                "in_flight": 2,
                "done": 40,
                "failed": 1,
                "bytes": 1000,
                "began": time.time() - 10,
                "at": time.time(),
                "recent": [10.0, 30, 900],
                "slowest": [["a.test", 500 + slot]],
                "waiting": [["a.test", 9 + slot, 2.0, "Crawl-delay", time.time()]],
            },
        )
    s = client.get("/v1/status").json()
    f = s["rounds"][0]["fetching"]
    assert (f["queued"], f["in_flight"], f["done"], f["failed"], f["bytes"], f["slots"]) == (
        20,
        4,
        80,
        2,
        2000,
        2,
    )
    assert f["slowest"][0] == {"host": "a.test", "ms": 501}
    assert (s["pages_per_s"], f["recent"]["bytes_per_s"]) == (6.0, 180)
    assert 7 < f["pages_per_s"] <= 8
    longest = f["waiting"][0]
    assert (longest["urls"], longest["why"], longest["wait_s"]) == (10, "Crawl-delay", 20.0)
    assert f["eta_s"] == 20.0  # the longest queue, though 20 rows are 3 s at this rate
    assert (s["hosts_active"], s["errors_last_hour"]) == (7, 2)
    assert client.get("/api/v1/crawler/status").json()["domainsActive"] == 7


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"null",
        b'{"urls": ["\\ud800"]}',
        b'{"urls": ["http://\\ud800/"]}',
        b'{"urls": [1]}',
        b'{"urls": ["http://a.test/"], "more": 1}',
        b'{"urls": ["http://a.test/"], "priority": true}',
        b'{"urls": ["http://a.test/"], "priority": NaN}',
        b"\xff\xfe",
        b'{"\\ud800": 1}',
        b"[" * 100_000,
        b'{"urls": ["ftp://a.test/"]}',
    ],
)
def test_bad_bodies_are_told_so(crawl, client, body):
    before = digest(crawl.data)
    answer = client.post("/v1/seeds", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert "detail" in answer.json()
    assert digest(crawl.data) == before


def test_strange_texts_are_kept_as_they_are(client):
    answer = client.post(
        "/v1/blacklist",
        content=json.dumps({"host": "a.test", "reason": "\ud800 \x00 é"}),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code in (200, 422)


def test_a_token_must_be_there_and_be_one(monkeypatch, tmp_path):
    cfg = Config()
    monkeypatch.delenv("CRAWLKIT_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="CRAWLKIT_TOKEN"):
        token_of(cfg)
    for short in ("", "short", "with space in the token"):
        monkeypatch.setenv("CRAWLKIT_TOKEN", short)
        with pytest.raises(ConfigError, match="at least 16"):
            token_of(cfg)
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    assert token_of(Config.model_validate({"control": {"token": f"file:{file}"}})) == TOKEN
