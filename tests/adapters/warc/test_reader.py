"""Right values: WARC 1.1 4, 5; the files and findings of warcio's own tests
(shared/suites/warcio).
"""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc

import pytest
from crawlkit.adapters.warc.file_check import check
from crawlkit.adapters.warc.reader import (
    MAX_WARC_HEAD_BYTES,
    iter_records,
    parse_record,
    read_record,
)
from crawlkit.exports.wet import envelope
from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.warc.digests import sha1_digest
from hypothesis import given, strategies as st

from tests.examples import examples
from tests.shared_data import shared

HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nhello"
SHA1_HELLO = "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N"


def record(
    block: bytes = HTTP,
    *fields: str,
    kind: str = "response",
    ends: bytes = b"\r\n\r\n",
    length: int | None = None,
) -> bytes:
    lines = [
        "WARC/1.1",
        f"WARC-Type: {kind}",
        "WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000001>",
        "WARC-Target-URI: http://site.example/",
        "WARC-Date: 2024-03-01T12:00:00Z",
        *fields,
    ]
    if not any(f.startswith("Content-Type") for f in fields):
        lines.append("Content-Type: application/http; msgtype=response")
    return (
        (
            "\r\n".join([*lines, f"Content-Length: {len(block) if length is None else length}"])
            + "\r\n\r\n"
        ).encode()
        + block
        + ends
    )


# warcio's findings for its own files; ARC files are not WARC and are refused as such
SUITE = {
    "bad.arc": (False, 0, 0, 0),
    "example-bad-non-chunked.warc.gz": (False, 0, 0, 0),
    "example-bad.warc.gz.bad": (False, 0, 0, 0),
    "example-digest.warc": (False, 4, 1, None),
    "example-iana.org-chunked.warc": (True, 3, 0, None),
    "example-resource.warc.gz": (True, 3, 0, None),
    "example-space-in-target-uri.warc.gz": (True, 2, 0, None),
    "example-space-in-url.arc": (False, 0, 0, 0),
    "example-trunc.warc": (False, 2, 0, 1197),
    "example-wget-bad-target-uri.warc.gz": (True, 6, 0, None),
    "example-wrong-chunks.warc.gz": (False, 0, 0, 0),
    "example.arc": (False, 0, 0, 0),
    "example.arc.gz": (False, 0, 0, 0),
    "example.warc": (True, 6, 0, None),
    "example.warc.gz": (True, 6, 0, None),
    "post-test.warc.gz": (True, 6, 0, None),
    "torture/standard-torture-missing.warc": (False, 1, 0, 0),
    "torture/standard-torture-validate-field.warc": (False, 0, 0, 0),
    "torture/standard-torture-validate-record.warc": (False, 17, 0, 0),
}


@pytest.mark.parametrize("name", ["WARC-Type", "WARC-Record-ID", "WARC-Date"])
def test_a_mandatory_field_that_is_missing_is_reported(name):
    """WARC 1.1 5.1: each shall be in every record; the records after it are read all the same."""
    lines = record().split(b"\r\n")
    bad = b"\r\n".join(line for line in lines if not line.startswith(name.encode()))
    verdict = check(io.BytesIO(record() + bad + record()))
    assert (
        verdict["ok"],
        verdict["records"],
        verdict["records_before_error"],
        verdict["error_offset"],
    ) == (False, 3, 1, len(record()))
    assert name.lower() in verdict["error"]


def test_suite_of_warcio():
    with tarfile.open(shared("suites/warcio/data.tar.gz")) as tar:
        files = {
            m.name: tar.extractfile(m).read()
            for m in tar.getmembers()
            if m.isfile() and not m.name.endswith((".test", "LICENSE"))
        }
    found = {}
    for name, data in files.items():
        verdict = check(io.BytesIO(data))
        found[name.removeprefix("./")] = (
            verdict["ok"],
            verdict["records"],
            verdict["digest_errors"],
            verdict["error_offset"],
        )
        try:
            list(iter_records(io.BytesIO(data)))
        except Refused as refusal:
            assert refusal.reason is Reason.WARC_DAMAGED and not verdict["ok"]
    assert found == SUITE


@pytest.mark.parametrize("at", [1, 10, 100, 200, 300, -1, -5, -9, -30])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_cut_file_is_bad_where_its_last_record_starts(pack, at):
    first, last = pack(record()), pack(record(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(range(256))))
    verdict = check(io.BytesIO(first + last[:at]))
    assert (verdict["ok"], verdict["error_offset"], verdict["records_before_error"]) == (
        False,
        len(first),
        1,
    )


@pytest.mark.parametrize("at", range(0, 300, 7))
def test_a_changed_byte_of_a_member_is_found(at):
    first, last = (
        gzip.compress(record(), mtime=0),
        bytearray(gzip.compress(record(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(range(256))), mtime=0)),
    )
    if 4 <= at < 10 and at not in (8, 9):
        return  # time stamp of the gzip header: not covered by any sum
    last[at % len(last)] ^= 0x10
    verdict = check(io.BytesIO(first + last))
    assert at in (8, 9) or not verdict["ok"] and verdict["error_offset"] == len(first)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"WARC/1.1",
        b"WARC/9.9\r\nContent-Length: 0\r\n\r\n\r\n\r\n",
        record(length=-1),
        record(length=10**30),
        record(length=10**12),
        record().replace(b"Content-Length: 49", b"Content-Length: 4_9"),
        b"WARC/1.1\r\nno colon\r\nContent-Length: 0\r\n\r\n\r\n\r\n",
        b"WARC/1.1\r\n" + b"X: 1\r\n" * 100_000,
        b"\x1f\x8b" + b"\0" * 100,
        gzip.compress(b""),
        gzip.compress(record()) + b"trailing",
        gzip.compress(record()) + b"\0" * 1000,
        gzip.compress(record() * 2),
        b"\x1f\x8b\x08\x00",
    ],
    ids=range(15),
)
def test_damage_is_reported_never_raised(data):
    verdict = check(io.BytesIO(data))
    assert not verdict["ok"] and verdict["error"]
    with pytest.raises(Refused):
        list(iter_records(io.BytesIO(data)))
        raise Refused(Reason.WARC_DAMAGED) if data == b"" else AssertionError


@pytest.mark.parametrize(
    "digest, errors",
    [
        (f"sha1:{SHA1_HELLO}", 0),
        (f"SHA1:{SHA1_HELLO.lower()}", 0),
        ("sha1:aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d", 0),
        ("sha1:qvTGHdzF6KLavt4PO0gs2a6pQ00=", 0),
        ("sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", 0),
        ("md5:5d41402abc4b2a76b9719d911017c592", 0),
        ("xyz:whatever", 0),
        ("sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", 1),
        ("sha1:", 1),
    ],
)
def test_payload_digests(digest, errors):
    verdict = check(io.BytesIO(record(HTTP, f"WARC-Payload-Digest: {digest}")))
    assert (verdict["digest_errors"], verdict["ok"]) == (errors, not errors)


def test_digest_of_a_chunked_body_is_over_the_body():
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    data = record(chunked, f"WARC-Payload-Digest: sha1:{SHA1_HELLO}")
    assert check(io.BytesIO(data))["digest_errors"] == 0
    assert parse_record(data).payload == b"hello"


@pytest.mark.parametrize("pack", [gzip.compress, bytes], ids=["gzip", "plain"])
@given(st.data())
@examples(60)
def test_damage_costs_no_other_record(pack, data):
    """Bytes of one record are changed, added or lost: all others are read, at their places."""
    urls = [f"http://site.example/{n}" for n in range(6)]
    records = [pack(record().replace(b"http://site.example/", url.encode())) for url in urls]
    n = data.draw(st.integers(0, 5))
    end = len(records[n]) - (4 if pack is bytes else 0)  # the next one begins a line
    at = data.draw(st.integers(0, end - 1))
    cut = data.draw(st.integers(1, 40))
    new = data.draw(st.binary(max_size=40))
    hurt = records[n][:at] + new + records[n][min(at + cut, end) :]
    file = io.BytesIO(b"".join([*records[:n], hurt, *records[n + 1 :]]))
    damages: list[Refused] = []
    found = {r.url: r for r in iter_records(file, on_damage=damages.append)}
    lost = {*urls} - {*found}
    assert lost <= {urls[n]} and (damages or not lost or pack is bytes)
    for url in {*urls} - {urls[n]}:
        assert read_record(file, found[url].offset, found[url].length).url == url


def test_an_arc_file_is_named():
    head = b"filedesc://x.arc 0.0.0.0 20240101000000 text/plain 76\n1 0 Crawl\nURL IP-address\n\n"
    for data in (head + b"http://a.example/ 1.2.3.4 20240101000000 text/html 5\nhello\n", head):
        for file in (data, gzip.compress(data), gzip.compress(head) + gzip.compress(b"http://a")):
            with pytest.raises(Refused, match="ARC file"):
                list(iter_records(io.BytesIO(file)))


def test_fields_of_a_record():
    data = record(
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nX: 1\r\n\r\nno",
        "WARC-Target-URI: <http://b.example/>",
        "X-Folded: a",
        "  b",
    ).replace(b"WARC-Target-URI: http://site.example/\r\n", b"")
    got = parse_record(data, 7)
    assert (got.type, got.url, got.status, got.payload, got.offset, got.length) == (
        "response",
        "http://b.example/",
        404,
        b"no",
        7,
        len(data),
    )
    assert (
        got.http_headers == [("Content-Type", "text/html"), ("X", "1")]
        and got.headers["x-folded"] == "a b"
    )


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"no http",
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 5000 + b"\r\nx",
        b"\r\n\r\n",
    ],
)
def test_blocks_that_are_no_http(block):
    parse_record(record(block))
    assert check(io.BytesIO(record(block)))["records"] == 1


def test_counts_of_a_file():
    dns = record(b"20240301\nx", "Content-Type: text/dns", kind="response").replace(
        b"http://site.example/", b"dns:site.example"
    )
    data = (
        dns
        + record()
        + record(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\nx")
        + record(kind="request", block=b"GET / HTTP/1.1\r\n\r\n")
    )
    verdict = check(io.BytesIO(data))
    assert (verdict["records"], verdict["html_records"], len(verdict["urls"])) == (4, 1, 3)


def test_reading_at_a_wrong_place(tmp_path):
    data = gzip.compress(record())
    path = tmp_path / "a.warc.gz"
    path.write_bytes(b"x" * 10 + data)
    assert read_record(path, 10, len(data)).payload == b"hello"
    for offset, length in ((9, len(data)), (10, len(data) - 1), (10_000, 5), (10, 0)):
        with pytest.raises(Refused) as caught:
            read_record(path, offset, length)
        assert caught.value.reason is Reason.WARC_DAMAGED


@pytest.mark.waits
def test_memory_does_not_follow_the_record():
    block = b"HTTP/1.1 200 OK\r\n\r\n" + b"\0" * 50_000_000
    bomb = gzip.compress(record(block), 1)
    del block
    tracemalloc.start()
    assert check(io.BytesIO(bomb))["ok"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000
    for read in (
        lambda: parse_record(bomb, 0, 1_000_000),
        lambda: list(iter_records(io.BytesIO(bomb), 1_000_000)),
    ):
        with pytest.raises(Refused):
            read()


@examples(300)
@given(
    st.binary(max_size=200),
    st.sampled_from(
        [b"", b"WARC/1.1\r\n", b"\x1f\x8b\x08\0\0\0\0\0\0\3", record(), gzip.compress(record())]
    ),
)
def test_no_bytes_raise_anything_else(tail, start):
    check(io.BytesIO(start + tail))
    for read in (
        lambda: list(iter_records(io.BytesIO(start + tail))),
        lambda: parse_record(start + tail),
    ):
        try:
            read()
        except Refused:
            continue


def test_long_warc_header_is_bounded():
    fields = [f"X-{n}: {'a' * 1000}" for n in range(MAX_WARC_HEAD_BYTES // 1000)]
    assert not check(io.BytesIO(record(HTTP, *fields)))["ok"]


def test_the_type_that_counts_is_the_last_of_several_lines():
    data = record(
        b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nX: y\r\nContent-Type:"
        b" text/html\r\n\r\n<title>t</title>"
    )
    assert check(io.BytesIO(data))["html_records"] == 1
    http = envelope(parse_record(data), "a.warc")["Envelope"]["Payload-Metadata"][
        "HTTP-Response-Metadata"
    ]
    assert http["HTML-Metadata"]["Head"]["Title"] == "t"


@pytest.mark.parametrize(
    "codings, frame",
    [("gzip", lambda b: b), ("gzip, chunked", lambda b: b"%x\r\n%b\r\n0\r\n\r\n" % (len(b), b))],
)
def test_the_check_and_the_reader_agree_on_the_payload_of_compressed_transfers(codings, frame):
    inner = gzip.compress(b"hello")
    body = frame(inner)

    def errors(payload: bytes) -> int:
        digest = f"WARC-Payload-Digest: {sha1_digest(payload)}"
        return check(
            io.BytesIO(
                record(
                    f"HTTP/1.1 200 OK\r\nTransfer-Encoding: {codings}\r\n\r\n".encode() + body,
                    digest,
                )
            )
        )["digest_errors"]

    assert (
        parse_record(
            record(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: {codings}\r\n\r\n".encode() + body)
        ).payload
        == b"hello"
    )
    assert [errors(payload) for payload in (b"hello", inner, body, b"hell")] == [0, 0, 0, 1]
