"""Probes of topic warc-write: a capture is written by the product and read by a second reader
(warcio, or plain bytes).
"""

from __future__ import annotations

import base64
import gzip
import pathlib
import re
import tempfile
import zlib
from datetime import datetime

from crawlkit.adapters.warc.file_check import check
from crawlkit.adapters.warc.writer import StoredCopy, WarcWriter
from crawlkit.model import Answer
from crawlkit.rules.http.response import ResponseReader
from warcio.archiveiterator import ArchiveIterator

from tests.conformance.topic_http_responses import Named, raw_bytes


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _captured(capture: dict, case_dir: pathlib.Path) -> Answer:
    reader = ResponseReader()
    reader.feed(raw_bytes(capture, "raw_response", case_dir))
    reader.eof()
    date = _seconds(capture.get("date") or "2024-03-01T12:00:00Z")
    got = reader.fill(Answer(capture["url"], ip=capture.get("ip"), wall_start=date, wall_end=date))
    if capture.get("raw_request_b64"):
        got.request_bytes = base64.b64decode(capture["raw_request_b64"])
    got.truncated = capture.get("truncated") or got.truncated
    return got


def answer(given: dict, case_dir: pathlib.Path) -> dict:
    capture = given["capture"]
    got = _captured(capture, case_dir)
    known = capture.get("earlier")
    earlier = (
        StoredCopy(
            known["url"], _seconds(known["date"]), known["payload_digest"], known.get("record_id")
        )
        if known
        else None
    )
    with tempfile.TemporaryDirectory() as folder:
        writer = WarcWriter(
            pathlib.Path(folder),
            ("crawl", "r1", 0, 1),
            {"software": "crawlkit"},
            roll_bytes=1 << 30,
            roll_s=1e9,
            compress=capture.get("gzip", True),
        )
        paths = []
        for n in range(capture.get("files") or 1):
            written = writer.write(got, f"r1-0-1-{n}", earlier=earlier)
            paths.append(writer.close().path)
        return {**_read_back(paths, written.record_id), "ok": all(check(p)["ok"] for p in paths)}


def _read_back(paths: list[pathlib.Path], record_id: str) -> dict:
    firsts, dates, seen, concurrent = [], {}, {}, False
    for path in paths:
        with path.open("rb") as file:
            for n, record in enumerate(ArchiveIterator(file, no_record_parse=True)):
                fields = dict(record.rec_headers.headers)
                if n == 0:
                    firsts.append(record.rec_type)
                dates[record.rec_type] = fields["WARC-Date"]
                concurrent = concurrent or fields.get("WARC-Concurrent-To") == record_id
                if fields["WARC-Record-ID"] == record_id:
                    seen = {"fields": fields, "block": record.content_stream().read()}
    block, fields = seen["block"], seen["fields"]
    head, _, body = block.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    headers = {
        k.strip().decode("latin-1"): v.strip().decode("latin-1")
        for k, _, v in (line.partition(b":") for line in lines[1:])
    }
    plain = (
        paths[-1].read_bytes()
        if paths[-1].suffix == ".warc"
        else gzip.decompress(paths[-1].read_bytes())
    )
    at = plain.index(block, plain.rindex(b"\r\nContent-Length: %d\r\n\r\n" % len(block))) + len(
        block
    )
    return {
        "warc_headers": Named(fields.items()),
        "record_type": fields["WARC-Type"],
        "block_b64": base64.b64encode(block).decode(),
        "block_contains_b64": _Contains(block),
        "block_starts_with": block.decode("latin-1")[:12],
        "body_b64": base64.b64encode(body).decode(),
        "http_headers": Named(headers.items()),
        "http_header_lines": len(lines),
        "payload_digest_sha1": fields.get("WARC-Payload-Digest"),
        "consistent_headers": _consistent(headers, body),
        "decoded_text": _decoded(headers, body),
        "block_length_exact": int(fields["Content-Length"]) == len(block),
        "first_record_each_file": firsts[0] if len(set(firsts)) == 1 else firsts,
        "protocol_recorded": fields.get("WARC-Protocol"),
        "same_date": sorted(
            kind
            for kind, date in dates.items()
            if kind != "warcinfo" and date == fields["WARC-Date"]
        ),
        "concurrent_to": concurrent,
        "blank_lines_after_block": len(re.match(rb"(?:\r\n)*", plain[at:])[0]) // 2,
    }


class _Contains(str):
    """Equal to the base64 of any part of the block."""

    def __new__(cls, block: bytes) -> "_Contains":
        self = super().__new__(cls, base64.b64encode(block).decode())
        self.block = block
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and base64.b64decode(other) in self.block

    __hash__ = str.__hash__


def _consistent(headers: dict[str, str], body: bytes) -> bool:
    low = {k.lower(): v for k, v in headers.items()}
    return "transfer-encoding" not in low and int(low.get("content-length", len(body))) == len(body)


def _decoded(headers: dict[str, str], body: bytes) -> str | None:
    coding = next((v.lower() for k, v in headers.items() if k.lower() == "content-encoding"), "")
    try:
        return (
            zlib.decompress(body, 47) if coding in ("gzip", "x-gzip", "deflate") else body
        ).decode("utf-8", "replace")
    except zlib.error:
        return None
