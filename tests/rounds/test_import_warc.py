"""WARC files of other tools become a round of a crawl (`crawlkit import warc`)."""

from __future__ import annotations

import base64
import calendar
import gzip
import hashlib
import io
import json
import shutil
import time
from pathlib import Path

import pytest
from crawlkit.config import Config, ConfigError, ScopeConfig
from crawlkit.crawl.next_round import next_round
from crawlkit.crawl.state import CrawlError
from crawlkit.exports.cdxj import export_cdxj
from crawlkit.exports.source import Source
from crawlkit.report.audit import audit
from crawlkit.round.drive import run_round
from crawlkit.rules.url.scope import Scope
from crawlkit.upkeep.imports import import_warc as module
from crawlkit.upkeep.imports.foreign_records import Scan
from crawlkit.upkeep.imports.import_warc import import_warc
from crawlkit.upkeep.purge import purge
from crawlkit.upkeep.rebuild import rebuild, rebuild_command
from crawlkit.upkeep.reconcile import reconcile
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from tests.cli.call import call
from tests.engines import run_on
from tests.rounds.row_web import DAY_S, EPOCH, RowWeb, page

pytestmark = [pytest.mark.rounds]
on = run_on("local")
HOSTS = {"a.example": "127.89.0.1"}
HOME = "http://a.example/"
THEN = "2025-12-01T10:20:30Z"
THEN_S = float(calendar.timegm((2025, 12, 1, 10, 20, 30)))
WORDS = "So many words are here that one text of them can be told from another of its kind. "
HTML_1 = f"<!doctype html><title>one</title><p>{WORDS}<a href=/deep>deep</a>".encode()
HTML_HOME = b"<!doctype html><title>home</title><a href=/1>one</a><a href=/new>new</a>"


def sha1(data: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def head(status: str, *fields: tuple[str, str]) -> StatusAndHeaders:
    return StatusAndHeaders(status, list(fields), protocol="HTTP/1.1")


def by_warcio(path: Path) -> Path:
    """A file with all kinds of records, as Scrapy's and pywb's are written."""
    html = ("Content-Type", "text/html")
    with path.open("wb") as f:
        w = WARCWriter(f, gzip=True, warc_version="1.1")

        def add(url: str, kind: str, status: str, body: bytes, *fields: tuple[str, str], at=THEN):
            http = None if kind == "resource" else head(status, *fields)
            more = {"warc_content_type": "text/plain"} if kind == "resource" else {}
            more["warc_headers_dict"] = {"WARC-Date": at}
            record = w.create_warc_record(
                url, kind, payload=io.BytesIO(body), http_headers=http, **more
            )
            w.write_record(record)
            return record

        w.write_record(w.create_warcinfo_record(path.name, {"software": "another tool"}))
        add(HOME, "response", "200 OK", HTML_HOME, html, ("ETag", '"h"'))
        add(HOME, "request", "GET / HTTP/1.1", b"", ("Host", "a.example"))
        add(
            f"{HOME}1",
            "response",
            "200 OK",
            b"<title>older</title>",
            html,
            at="2025-11-01T00:00:00Z",
        )
        first = add(f"{HOME}1", "response", "200 OK", HTML_1, html)
        for url, digest in ((f"{HOME}copy", sha1(HTML_1)), (f"{HOME}lost", sha1(b"not here"))):
            w.write_record(
                w.create_revisit_record(
                    url,
                    digest,
                    f"{HOME}1" if url.endswith("copy") else "http://a.example/nowhere",
                    THEN if url.endswith("copy") else "2020-01-01T00:00:00Z",
                    http_headers=head("200 OK", html),
                    warc_headers_dict={"WARC-Date": THEN},
                )
            )
        assert first.rec_headers["WARC-Payload-Digest"] == sha1(HTML_1)
        add(f"{HOME}robots.txt", "response", "200 OK", b"User-agent: *\nDisallow: /no\n", html)
        add(f"{HOME}gone", "response", "404 Not Found", b"gone", html)
        add(f"{HOME}moved", "response", "301 Moved", b"", ("Location", "/target"))
        add(f"{HOME}b?z=1&a=2", "response", "200 OK", HTML_1 + b"two", html)
        add(f"{HOME}data.txt", "resource", "", b"plain text of a resource")
        add("dns:a.example", "resource", "", b"20251201 127.0.0.1")
        add("http://other.example/", "response", "200 OK", b"other", html)
    return path


def as_wget(path: Path, records: list[tuple[str, bytes]]) -> Path:
    """The form of `wget --warc-file`: WARC/1.0, angle brackets, chunked bodies as they came."""
    out = b""
    for n, (url, block) in enumerate(records):
        payload = block.partition(b"\r\n\r\n")[2]
        fields = (
            "WARC/1.0\r\nWARC-Type: response\r\n"
            f"WARC-Record-ID: <urn:uuid:4b3e2d4b-0000-4000-8000-{n:012d}>\r\n"
            "WARC-Concurrent-To: <urn:uuid:4b3e2d4b-1111-4000-8000-000000000000>\r\n"
            f"WARC-Target-URI: <{url}>\r\nWARC-Date: {THEN}\r\nWARC-IP-Address: 192.0.2.7\r\n"
            f"WARC-Block-Digest: {sha1(block)}\r\nWARC-Payload-Digest: {sha1(payload)}\r\n"
            "Content-Type: application/http;msgtype=response\r\n"
            f"Content-Length: {len(block)}\r\n\r\n"
        )
        record = fields.encode() + block + b"\r\n\r\n"
        out += gzip.compress(record) if path.suffix == ".gz" else record
    path.write_bytes(out)
    return path


def chunked(body: bytes) -> bytes:
    fields = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    return fields + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


SCOPE = {"scope__any": False, "scope__domains": ["a.example"]}


@pytest.fixture(scope="module")
def made(tmp_path_factory, on) -> tuple[Path, dict]:
    """A crawl with one import and nothing else (not to be changed), and what the import said."""
    folder = tmp_path_factory.mktemp("import")
    with RowWeb(folder / "crawl", HOSTS, on, **SCOPE) as web:
        done = import_warc(web.job(), [by_warcio(folder / "other.warc.gz")], EPOCH)
        assert web.log == []
    return folder, done


@pytest.fixture
def imported(made, tmp_path, on):
    """A copy of that crawl."""
    shutil.copytree(made[0] / "crawl", tmp_path / "crawl")
    with RowWeb(tmp_path / "crawl", HOSTS, on, **SCOPE) as web:
        yield web


@pytest.fixture
def web(tmp_path, on):
    with RowWeb(tmp_path / "crawl", HOSTS, on, **SCOPE) as web:
        yield web


def source(web: RowWeb) -> Source:
    return Source(web.folder, web.cfg())


def crawldb(job) -> list[str]:
    names = ["url", "state", "depth", "source", "last_fetch", "next_fetch", "capture_id"]
    names += ["payload_digest", "text_sha256", "etag", "first_seen", "sent_url", "history"]
    rows = job.tables.rows("crawldb", names)
    return sorted(json.dumps(r, default=str, sort_keys=True) for r in rows)


def test_records_of_every_kind(imported, made):
    web, done = imported, made[1]
    job = web.job()
    assert (done["records"], done["taken"], done["known"], done["older"]) == (14, 9, 0, 0)
    assert done["refused"] == {
        "record_kind": 2,  # warcinfo, request
        "revisit_unresolved": 1,
        "url_scheme": 1,
        "scope_domain": 1,
    }
    assert sum(done["refused"].values()) + done["taken"] == done["records"]
    told = job.tables.rows("rejects", ["stage", "reason", "item", "detail"])
    assert {(r["stage"], r["reason"]) for r in told} == {("import", r) for r in done["refused"]}
    assert any(r["item"] == "http://other.example/" for r in told)

    rows = web.rows("crawldb", "state", "depth", "source", "fetched_at", "last_fetch", "next_fetch")
    states = {url.removeprefix(HOME): r["state"] for url, r in rows.items()}
    assert states == {
        **dict.fromkeys(("", "1", "copy", "data.txt", "b?a=2&z=1"), "fetched"),
        **{"gone": "dead", "moved": "redirected"},
        **dict.fromkeys(("new", "deep", "target"), "queued"),
    }
    assert {rows[HOME + u]["source"] for u in ("", "1", "gone")} == {"import"}
    assert rows[f"{HOME}new"]["depth"] == 1 and rows[HOME]["depth"] == 0
    home = rows[HOME]
    assert home["fetched_at"] == home["last_fetch"] == THEN_S
    assert THEN_S < home["next_fetch"] < THEN_S + 60 * DAY_S

    pages = web.rows("pages", "title", "text", "kind")
    assert pages[f"{HOME}1"]["title"] == pages[f"{HOME}copy"]["title"] == "one"
    assert pages[f"{HOME}data.txt"]["text"] == "plain text of a resource"
    links = web.rows("links", "from_url", key="to_url")
    assert {u.removeprefix(HOME) for u in links} == {"1", "new", "deep", "target"}
    captures = web.rows("captures", "payload_digest", "record_type", "sent_url", "kind", "ip")
    assert captures[f"{HOME}b?a=2&z=1"]["sent_url"] == f"{HOME}b?z=1&a=2"
    assert captures[f"{HOME}robots.txt"]["kind"] == "robots"
    assert captures[f"{HOME}copy"]["payload_digest"] == sha1(HTML_1)
    assert job.tables.count("captures") == 9  # both of /1
    assert audit(web.job())["requests"] == 0
    compared = reconcile(source(web))
    assert (compared["ok"], compared["captures"], compared["records"]) == (True, 9, 9)


def test_the_copied_file_is_read_by_another_tool(imported, made, tmp_path):
    web, path = imported, made[0] / "other.warc.gz"
    (copy,) = [p for p in (web.folder / "warc").glob("*.warc.gz")]
    assert "-import-" in copy.name
    with path.open("rb") as f:
        given = {
            r.rec_headers["WARC-Record-ID"]: r.content_stream().read() for r in ArchiveIterator(f)
        }
    with copy.open("rb") as f:
        records = ArchiveIterator(f, check_digests="raise")
        kept = [
            (r.rec_type, r.rec_headers["WARC-Record-ID"], r.content_stream().read())
            for r in records
        ]
    assert [k for k, _, _ in kept][0] == "warcinfo" and kept[-1][0] == "metadata"
    assert len(kept) == 11 and all(given[name] == body for _, name, body in kept[1:-1])
    out = tmp_path / "index.cdxj"
    assert export_cdxj(source(web), out)["unresolved"] == 0
    lines = [line.split(" ", 2) for line in out.read_text().splitlines()]
    entries = [(time_, json.loads(fields)) for _, time_, fields in lines]
    assert len(entries) == 9 and ("20251101000000", f"{HOME}1") in {
        (t, e["url"]) for t, e in entries
    }
    assert f"{HOME}b?z=1&a=2" in {e["url"] for _, e in entries}


def test_later_rounds_go_on_from_it(imported):
    web = imported
    for name in ("", "1", "new", "deep", "target"):
        web.pages[HOME + name] = page(f"now {name}")
    web.run(EPOCH)
    asked = {u.removeprefix(HOME) for u in web.log}
    assert {"robots.txt", "new", "deep", "target", "", "1"} <= asked and "gone" not in asked
    home = next(r for r in web.requests if r.target == "/")
    assert home.headers["if-none-match"] == '"h"'
    rows = web.rows("crawldb", "state", "history", "n_fetch")
    assert (rows[HOME]["history"], rows[HOME]["n_fetch"]) == ("NC", 2)
    found = audit(web.job())
    assert found["violations"] == 0 and found["requests"] == len(web.log)
    hosts = web.rows("hostdb", "requests", key="host")
    assert hosts["a.example"]["requests"] == len(web.log)


def test_wgets_form_plain_and_gzip(web, tmp_path):
    bodies = {f"{HOME}w{n}": f"<title>w{n}</title>{WORDS * (n + 1)}".encode() for n in range(3)}
    records = [(url, chunked(body)) for url, body in bodies.items()]
    plain = as_wget(tmp_path / "wget.warc", records[:2])
    packed = as_wget(tmp_path / "wget.warc.gz", records)
    done = import_warc(web.job(), [plain, packed], EPOCH)
    # the ids of the first two are the same in both: the same records
    assert (done["records"], done["taken"], done["known"], done["refused"]) == (5, 3, 2, {})
    rows = web.rows("captures", "payload_digest", "ip", "body_bytes")
    assert {u: r["payload_digest"] for u, r in rows.items()} == {
        u: sha1(b) for u, b in bodies.items()
    }
    assert {r["ip"] for r in rows.values()} == {"192.0.2.7"}
    assert {r["title"] for r in web.rows("pages", "title").values()} == {"w0", "w1", "w2"}
    assert reconcile(source(web))["ok"]


def test_damaged_records_are_told_and_arc_is_refused(web, tmp_path):
    records = [(f"{HOME}{n}", chunked(b"<title>%d</title>" % n)) for n in range(3)]
    whole = as_wget(tmp_path / "whole.warc.gz", records).read_bytes()
    damaged = tmp_path / "damaged.warc.gz"
    at = [m for m in range(len(whole)) if whole.startswith(b"\x1f\x8b\x08", m)][1]
    damaged.write_bytes(whole[: at + 60] + b"\0\0\0\0" + whole[at + 64 :])
    false = as_wget(tmp_path / "false.warc", [(f"{HOME}false", chunked(b"<title>x</title>"))])
    false.write_bytes(false.read_bytes().replace(b"<title>x", b"<title>y"))
    late = as_wget(tmp_path / "late.warc", [(f"{HOME}late", chunked(b"late"))])
    late.write_bytes(late.read_bytes().replace(b"WARC-Date: 2025", b"WARC-Date: 9025"))
    done = import_warc(web.job(), [damaged, false, late], EPOCH)
    assert (done["taken"], done["refused"]) == (2, {"warc_damaged": 3})
    details = [r["detail"] for r in web.job().tables.rows("rejects", ["detail"])]
    assert any(d.startswith(f"{damaged}: at {at}:") for d in details)
    arc = tmp_path / "old.arc"
    arc.write_bytes(b"filedesc://old.arc 0.0.0.0 20010101000000 text/plain 20\n1 0 x\n\n" * 3)
    with pytest.raises(ConfigError, match="old.arc: .*an ARC file"):
        import_warc(web.job(), [arc], EPOCH)
    assert web.job().crawl.open_rounds() == []


def scan(path: Path) -> Scan:
    read = Scan(Config(), "r", Scope.of(ScopeConfig()), EPOCH, 2)
    read.read_file(path)
    return read


def test_hostile_fields_are_bounded_and_read_in_linear_time(tmp_path):
    """The fields of a record may be as long as its header may: what is kept is short."""
    long = "9" * 50_000
    path = as_wget(tmp_path / "long.warc", [(HOME, chunked(b"x"))])
    head, _, rest = path.read_bytes().partition(b"WARC-IP-Address: 192.0.2.7")
    more = f"WARC-IP-Address: {long[:20_000]}\r\nWARC-Truncated: {long[:20_000]}"
    path.write_bytes(head + more.encode() + rest)
    (found,) = scan(path).found
    assert (found.capture.ip, found.capture.truncated) == (None, "9" * 40)
    for field, value in (
        ("WARC-Record-ID: <urn:uuid:", f"WARC-Record-ID: <{long}"),
        ("WARC-Date: 2025", f"WARC-Date: {long}"),
        ("WARC-Target-URI: <", f"WARC-Target-URI: <{HOME}{long}"),
    ):
        as_wget(path, [(HOME, chunked(b"x"))])
        path.write_bytes(path.read_bytes().replace(field.encode(), value.encode(), 1))
        read = scan(path)
        (refused,) = read.refused
        assert not read.found and len(refused["item"]) <= 2000 and len(refused["detail"]) < 3000
    took = []
    for n in (100, 400):
        records = [(f"{HOME}{i}", chunked(b"word " * 2000)) for i in range(n)]
        as_wget(path, records)
        began = time.process_time()
        assert len(scan(path).found) == n
        took.append(time.process_time() - began)
    assert took[1] < 12 * took[0]


def test_again_with_any_scope_and_with_what_is_known(imported, made):
    web, path = imported, made[0] / "other.warc.gz"
    versions, frontier = web.job().tables.count("captures"), crawldb(web.job())
    assert import_warc(web.job(), [path], EPOCH + 9)["repeated"]
    assert len(web.job().crawl.round_ids()) == 1
    done = import_warc(web.job(), [path], EPOCH, is_any_scope=True)
    assert (done["taken"], done["known"]) == (1, 9) and "scope_domain" not in done["refused"]
    assert web.job().tables.count("captures") == versions + 1
    rows = web.rows("crawldb", "state")
    assert rows["http://other.example/"]["state"] == "fetched"
    assert set(frontier) <= set(crawldb(web.job()))


def test_an_older_record_does_not_turn_the_frontier_back(web, made):
    web.pages[HOME] = page("of our own")
    web.run(EPOCH, [HOME])
    before = web.rows("crawldb", "text_sha256", "last_fetch")[HOME]
    done = import_warc(web.job(), [made[0] / "other.warc.gz"], EPOCH)
    assert (done["taken"], done["older"]) == (9, 1)
    assert web.rows("crawldb", "text_sha256", "last_fetch")[HOME] == before
    assert audit(web.job())["violations"] == 0


def test_what_was_purged_or_blocked_does_not_come_back(imported, made, tmp_path):
    job = imported.job()
    purge(job, "url", f"{HOME}1", "asked to", "test", False)
    path = tmp_path / "again.warc.gz"  # not the same file
    path.write_bytes((made[0] / "other.warc.gz").read_bytes() + gzip.compress(b"nothing"))
    done = import_warc(imported.job(), [path], EPOCH)
    assert done["refused"]["purged"] == 2 and done["taken"] == 0
    imported.give("block", host="a.example", reason="asked to")
    new = as_wget(tmp_path / "new.warc.gz", [(f"{HOME}after", chunked(b"x"))])
    done = import_warc(imported.job(), [new], EPOCH)
    assert done["refused"] == {"stop_list": 1} and done["taken"] == 0
    assert reconcile(source(imported))["ok"] and imported.job().crawl.open_rounds() == []


@pytest.mark.parametrize("where", ["copy_records", "run_planned"])
def test_a_killed_import_goes_on(web, imported, made, tmp_path, monkeypatch, where):
    path = made[0] / "other.warc.gz"
    expected = crawldb(imported.job())
    web.folder = tmp_path / "killed"

    def die(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as m:
        m.setattr(module, where, die)
        with pytest.raises(RuntimeError):
            import_warc(web.job(), [path], EPOCH)
    (round_,) = web.job().crawl.open_rounds()
    other_round = next_round(web.job().crawl, EPOCH)  # a crawl leaves it alone
    assert other_round.id != round_.id
    web.job().crawl.close(other_round)
    if where == "copy_records":
        with pytest.raises(CrawlError, match="import of WARC files"):
            run_round(web.job(), round_)
    import_warc(web.job(), [path], EPOCH)
    assert crawldb(web.job()) == expected
    assert reconcile(source(web))["ok"] and web.job().crawl.open_rounds() == []


def test_the_frontier_is_rebuilt_from_tables_and_from_warc_files(imported, on, tmp_path):
    before = crawldb(imported.job())
    rebuild(imported.job())
    assert crawldb(imported.job()) == before
    again = tmp_path / "again"
    again.mkdir()
    (imported.folder / "warc").rename(again / "warc")
    done = rebuild_command(again, imported.cfg(engine__name="local"), from_warc=True)
    assert (done["records"], done["unnamed"], done["lost"]) == (9, 0, 0)
    imported.folder = again
    kept = [json.loads(r) | {"source": None} for r in before]
    assert [json.loads(r) | {"source": None} for r in crawldb(imported.job())] == kept


def test_the_verb(tmp_path, made):
    path, data = made[0] / "other.warc.gz", tmp_path / "crawl"
    none = call("import", "warc", path, "--data", tmp_path / "none", "--set", "agent.name=t")
    assert none.code == 2 and "the crawl has no scope" in none.err
    assert not (tmp_path / "none").exists()
    options = ("--data", data, "--scope", "any", "--set", "agent.name=t")
    done = call("import", "warc", path, *options, "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["taken"] == 10 and Path(said["files"][0]) == path
    (report,) = (data / "report").rglob("report.json")
    states = {a["name"]: a["state"] for a in json.loads(report.read_text())["alerts"]}
    assert "firing" not in states.values()
    text = call("import", "warc", path, *options).out
    assert "has these files already" in text
    assert "import-" in call("status", "--data", data).out
    assert "fetched" in call("explain", HOME, "--data", data).out
    assert call("cat", HOME, "--data", data).out.encode().strip() == HTML_HOME
    for wrong in (["--scope", "host"], ["--hint"]):
        assert call("import", "warc", path, "--data", data, *wrong).code == 2
    assert call("import", "urls", path, path, "--data", data).code == 2
