"""Right values: WARC 1.1 (ISO 28500:2017) by section; two other readers (warcio, fastwarc) as
judges.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io

import pytest
from crawlkit.adapters.warc.file_check import check
from crawlkit.adapters.warc.reader import iter_records, read_record
from crawlkit.adapters.warc.record_fields import (
    IDENTICAL_PAYLOAD,
    NOT_MODIFIED,
    StoredCopy,
    record_id,
)
from crawlkit.adapters.warc.writer import WarcWriter
from crawlkit.model import Answer
from crawlkit.outcomes import Refused
from crawlkit.rules.http.response import ResponseReader
from crawlkit.rules.warc.digests import sha1_digest
from fastwarc.warc import ArchiveIterator as FastIterator
from hypothesis import given, strategies as st
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from tests.examples import examples

DATE = 1_709_294_400.25  # 2024-03-01T12:00:00.25Z
REQUEST = (
    b"GET /p HTTP/1.1\r\nHost: site.example\r\nCookie: secret=1\r\nAuthorization: Basic"
    b" secret\r\n\r\n"
)


def captured(raw: bytes, url: str = "http://site.example/p", **more) -> Answer:
    reader = ResponseReader()
    reader.feed(raw)
    reader.eof()
    return reader.fill(
        Answer(url, ip="203.0.113.7", wall_start=DATE, request_bytes=REQUEST, **more)
    )


def page(body: bytes = b"<p>hello</p>", head: bytes = b"") -> Answer:
    return captured(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
        + head
        + b"Content-Length: %d\r\n\r\n" % len(body)
        + body
    )


def writer(folder, **more) -> WarcWriter:
    return WarcWriter(
        folder,
        ("crawl", "2024-03-01T12:00", 3, 1),
        {"software": "crawlkit", "robots": "obeyed\r\nevil: 1"},
        **{"roll_bytes": 1 << 20, "roll_s": 60.0, "clock": lambda: DATE, **more},
    )


def second_reader(path):
    with path.open("rb") as file:
        return [
            (r.rec_type, dict(r.rec_headers.headers), r.content_stream().read())
            for r in ArchiveIterator(file, no_record_parse=True)
        ]


def public_verdicts(path) -> list[bool]:
    """warcio's check (exit value 0) and fastwarc's digests."""

    class Options:
        inputs, verbose = [str(path)], False

    fast = [
        (r.verify_block_digest(), True) for r in FastIterator(path.open("rb"), parse_http=False)
    ]
    return [
        Checker(Options).process_all() in (0, None),
        all(all(pair) for pair in fast),
        check(path)["ok"],
    ]


def test_a_file_from_open_to_finished(tmp_path):
    w = writer(tmp_path)
    written = w.write(page(), "r-3-1-0", metadata=[("note", "a\r\nb"), ("fetchTimeMs", "12")])
    (open_file,) = tmp_path.iterdir()
    assert (
        open_file.name == "crawl-20240301120000-2024-03-01T12_00-3-1-1.warc.gz.open"
        and written.filename == open_file.name[:-5]
    )
    done = w.close()
    assert [p.name for p in tmp_path.iterdir()] == [
        done.filename
    ] and done.size == done.path.stat().st_size
    records = second_reader(done.path)
    assert [kind for kind, _, _ in records] == [
        "warcinfo",
        "request",
        "response",
        "metadata",
    ] and done.records == 4
    assert public_verdicts(done.path) == [True, True, True]
    (_, info, text), (_, request, sent), (_, response, block), (_, metadata, notes) = records
    assert (
        info["WARC-Filename"] == done.filename
        and b"format: WARC File Format 1.1\r\n" in text
        and b"\r\nevil" not in text
    )
    assert sent == b"GET /p HTTP/1.1\r\nHost: site.example\r\n\r\n"
    assert block == page().header_bytes + b"<p>hello</p>"
    assert notes == b"note: a b\r\nfetchTimeMs: 12\r\n"
    assert {r["WARC-Date"] for r in (request, response, metadata)} == {"2024-03-01T12:00:00Z"}
    assert (
        request["WARC-Concurrent-To"]
        == metadata["WARC-Concurrent-To"]
        == response["WARC-Record-ID"]
        == written.record_id
        == record_id("r-3-1-0")
    )
    assert {r["WARC-Warcinfo-ID"] for r in (request, response, metadata)} == {
        info["WARC-Record-ID"]
    }
    assert (
        response["WARC-IP-Address"] == "203.0.113.7"
        and response["WARC-Target-URI"] == "http://site.example/p"
    )
    assert (
        response["WARC-Payload-Digest"]
        == written.payload_digest
        == "sha1:" + base64.b32encode(hashlib.sha1(b"<p>hello</p>").digest()).decode()
    )


def test_offsets_lead_to_the_record(tmp_path):
    w = writer(tmp_path)
    written = [w.write(page(b"%d" % n * 50), f"c{n}") for n in range(5)]
    path = w.close().path
    data = path.read_bytes()
    for n, at in enumerate(written):
        record = read_record(path, at.offset, at.length)
        assert (record.type, record.status, record.payload, record.headers["warc-record-id"]) == (
            "response",
            200,
            b"%d" % n * 50,
            at.record_id,
        )
        assert gzip.decompress(data[at.offset : at.offset + at.length]).startswith(b"WARC/1.1\r\n")
        assert at.body_bytes == 50


def test_the_same_capture_writes_the_same_bytes(tmp_path):
    files = []
    for name in ("a", "b"):
        w = writer(tmp_path / name)
        w.write(page(), "c1")
        files.append(w.close().path.read_bytes())
    assert files[0] == files[1]
    assert len({record_id("c1"), record_id("c1", "request"), record_id("c2")}) == 3


def test_revisits(tmp_path):
    w = writer(tmp_path)
    first = StoredCopy(
        "http://user:pw@site.example/first#x", DATE - 86_400, sha1_digest(b"old"), "<urn:uuid:1>"
    )
    same = w.write(page(b"old"), "c1", earlier=first)
    changed = w.write(page(b"new"), "c2", earlier=first)
    not_modified = w.write(
        captured(b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n'), "c3", earlier=first
    )
    no_copy = w.write(captured(b"HTTP/1.1 304 Not Modified\r\n\r\n"), "c4")
    cut = w.write(captured(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nold"), "c5", earlier=first)
    empty = w.write(
        page(b""), "c6", earlier=StoredCopy("http://site.example/", DATE, sha1_digest(b""))
    )
    path = w.close().path
    assert [x.record_type for x in (same, changed, not_modified, no_copy, cut, empty)] == [
        "revisit",
        "response",
        "revisit",
        "response",
        "response",
        "response",
    ]
    assert public_verdicts(path) == [True, True, True]
    fields = {f["WARC-Record-ID"]: (f, block) for kind, f, block in second_reader(path)}
    for at, profile in ((same, IDENTICAL_PAYLOAD), (not_modified, NOT_MODIFIED)):
        f, block = fields[at.record_id]
        assert (
            f["WARC-Profile"] == profile
            and f["WARC-Payload-Digest"] == first.payload_digest == at.payload_digest
        )
        assert (f["WARC-Refers-To-Target-URI"], f["WARC-Refers-To-Date"], f["WARC-Refers-To"]) == (
            "http://site.example/first",
            "2024-02-29T12:00:00Z",
            "<urn:uuid:1>",
        )
        assert block.startswith(b"HTTP/1.1 ") and block.endswith(b"\r\n\r\n") and at.body_bytes == 0
    assert fields[cut.record_id][0]["WARC-Truncated"] == "disconnect"


@pytest.mark.parametrize(
    "raw, head, body",
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX-Crawler-Transfer-Encoding: chunked\r\n\r\n",
            b"hello",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 99\r\n\r\n"
            + gzip.compress(b"hello", mtime=0),
            (
                b"HTTP/1.1 200 OK\r\nX-Crawler-Transfer-Encoding: gzip\r\nX-Crawler-Content-Length:"
                b" 99\r\n\r\n"
            ),
            b"hello",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX-Crawler-Transfer-Encoding: gzip, chunked\r\n\r\n",
            b"hello",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort",
            b"HTTP/1.1 200 OK\r\nX-Crawler-Content-Length: 99\r\n\r\n",
            b"short",
        ),
        (
            b"HTTP/1.1 200 Ok\xc9\r\nset-COOKIE:a=\xe9\r\nX-Empty:\r\n\r\n\x00\xff",
            b"HTTP/1.1 200 Ok\xc9\r\nset-COOKIE:a=\xe9\r\nX-Empty:\r\n\r\n",
            b"\x00\xff",
        ),
        (b"HTTP/1.1 200 OK\nA: b\n\nx", b"HTTP/1.1 200 OK\nA: b\n\n", b"x"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n\x01\x02",
            b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n",
            b"\x01\x02",
        ),
    ],
)
def test_blocks_are_exact(tmp_path, raw, head, body):
    w = writer(tmp_path)
    at = w.write(captured(raw), "c1")
    path = w.close().path
    assert second_reader(path)[2][2] == head + body
    record = read_record(path, at.offset, at.length)
    assert (record.block, record.payload) == (head + body, body)


def test_rolling(tmp_path):
    now = [DATE]
    w = writer(tmp_path, roll_bytes=5000, clock=lambda: now[0])
    assert not w.due() and w.close() is None
    names = []
    for n in range(30):
        w.write(page(hashlib.sha512(b"%d" % n).digest() * 5), f"c{n}")
        if w.due():
            names.append(w.close().filename)
    w.write(page(), "last")
    now[0] += 61
    assert w.due()
    names.append(w.close().filename)
    assert len(names) >= 4 and [int(n.split("-")[-1].split(".")[0]) for n in names] == list(
        range(1, len(names) + 1)
    )
    assert all(next(iter_records((tmp_path / n).open("rb"))).type == "warcinfo" for n in names)


def test_a_file_damaged_on_disk_is_not_handed_on(tmp_path):
    w = writer(tmp_path)
    w.write(page(b"x" * 1000), "c1")
    w._file.flush()
    (part,) = tmp_path.iterdir()
    with part.open("r+b") as file:
        file.seek(part.stat().st_size - 20)
        file.write(b"damage")
    with pytest.raises(Refused):
        w.close()
    assert [p.suffix for p in tmp_path.iterdir()] == [".open"]


def test_abandoned_files_are_gone(tmp_path):
    w = writer(tmp_path)
    w.write(page(), "c1")
    w.abandon()
    assert list(tmp_path.iterdir()) == [] and w.close() is None


def test_no_secret_anywhere_in_the_file(tmp_path):
    w = writer(tmp_path, compress=False)
    w.write(
        captured(b"HTTP/1.1 200 OK\r\n\r\n", url="http://user:secret@site.example/#secret"),
        "c1",
        metadata=[("note", "x")],
    )
    done = w.close()
    assert done.filename.endswith(".warc") and b"secret" not in done.path.read_bytes()
    assert public_verdicts(done.path) == [True, True, True]


def test_cookies_of_a_session_are_not_stored(tmp_path):
    w = writer(tmp_path, compress=False)
    answer = captured(
        b"HTTP/1.1 200 OK\r\nSet-Cookie: id=secret;\r\n secret\r\nset-cookie2 : secret\r\nA:"
        b" b\r\n\r\nx"
    )
    answer.notes.append("session")
    w.write(answer, "c1")
    path = w.close().path
    assert (
        b"secret" not in path.read_bytes()
        and second_reader(path)[2][2] == b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nx"
    )


@examples(60)
@given(
    st.lists(st.binary(max_size=400), min_size=1, max_size=5),
    st.sampled_from(
        [b"", b"X: \xff\r\n", b"A:\r\n B\r\n", b"WARC/1.1\r\n", b"Content-Length: 7\r\n"]
    ),
)
def test_what_is_written_is_read(tmp_path_factory, bodies, head):
    w = writer(tmp_path_factory.mktemp("warc"))
    answers = [
        captured(b"HTTP/1.1 200 OK\r\n" + head + b"Connection: close\r\n\r\n" + body)
        for body in bodies
    ]
    places = [w.write(a, f"c{n}") for n, a in enumerate(answers)]
    path = w.close().path
    data = path.read_bytes()
    records = [r for r in iter_records(io.BytesIO(data)) if r.type == "response"]
    assert [(r.offset, r.length) for r in records] == [(p.offset, p.length) for p in places]
    for record, answer, place in zip(records, answers, places, strict=True):
        assert (
            record.payload == answer.body == read_record(path, place.offset, place.length).payload
        )
        assert (
            record.headers["warc-payload-digest"]
            == place.payload_digest
            == sha1_digest(answer.body)
        )
