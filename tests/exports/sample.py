"""A small crawl on disk, made without Spark: WARC files by the product's writer, and the tables
that name their records.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from crawlkit.adapters.warc.record_fields import StoredCopy, record_id
from crawlkit.adapters.warc.writer import WarcWriter
from crawlkit.model import Answer
from crawlkit.rules.page.page import parse_page
from crawlkit.rules.url.canonical import host_of, url_key
from crawlkit.rules.url.domains import registered_domain
from crawlkit.tables import ARROW, TABLES
from deltalake import write_deltalake

T0 = 1_711_972_800.5  # 2024-04-01T12:00:00.5Z
HTML = "text/html; charset=utf-8"

A = (
    "<html lang=en><head><title>Harbour</title><meta name=description content='All about"
    " it'></head><body><p>The harbour is open at high water.<a href=/b>Moorings</a> <a"
    " href='http://other.test/x'>Other</a></body></html>"
)
B = (
    "<html><head><title>Moorings é</title></head><body><p>Moorings are to be had from the harbour"
    " master.<a href=/>Home</a></body></html>"
)
PAGES: list[tuple[str, int, list[tuple[str, str]], bytes]] = [  # url, status, fields, body
    ("http://www.site.test/", 200, [("Content-Type", HTML)], A.encode()),
    ("http://www.site.test/b?z=1&a=2", 200, [("Content-Type", HTML)], B.encode()),
    (
        "https://sub.site.co.uk:8443/C/",
        200,
        [("Content-Type", "application/pdf;x")],
        b"%PDF-1.4 none",
    ),
    ("http://site.test/old", 301, [("Location", "/b"), ("Content-Type", "text/html")], b"moved"),
    ("http://site.test/none", 404, [("Content-Type", "text/plain")], b"no"),
    ("http://127.0.0.9/%C3%A9~x", 200, [], b"no type"),
    (
        "http://site.test/robots.txt",
        200,
        [("Content-Type", "text/plain")],
        b"User-agent: *\nDisallow: /secret\n",
    ),
]


def answer(url: str, status: int, fields: list[tuple[str, str]], body: bytes, at: float) -> Answer:
    fields = [*fields, ("Content-Length", str(len(body)))]
    head = (
        f"HTTP/1.1 {status} Word\r\n".encode()
        + b"".join(f"{k}: {v}\r\n".encode() for k, v in fields)
        + b"\r\n"
    )
    return Answer(
        url,
        status=status,
        http_version="1.1",
        headers=fields,
        header_bytes=head,
        body=body,
        request_bytes=b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        wall_start=at,
        wall_end=at + 0.2,
        ip="192.0.2.1",
    )


def make(data: Path) -> list[dict[str, Any]]:
    """Writes `data`/warc and `data`/tables: two rounds, the second a revisit of the first page and
    a 304. Returns the captures.
    """
    captures, pages, links = [], [], []
    for n, round_id in enumerate(("r000001", "r000002"), 1):
        writer = WarcWriter(
            data / "warc",
            ("crawl", round_id, 0, 1),
            {"software": "crawlkit"},
            roll_bytes=1 << 30,
            roll_s=1e9,
            clock=lambda n=n: T0 + n * 1000,
        )
        for i, (url, status, fields, body) in enumerate(
            PAGES if n == 1 else [PAGES[0], (PAGES[1][0], 304, [], b"")]
        ):
            got, earlier = answer(url, status, fields, body, T0 + n * 86_400 + i), None
            capture_id = f"{round_id}-0-1-{i}"
            if n == 2:
                first = captures[i]
                earlier = StoredCopy(
                    url, T0 + 86_400 + i, first["payload_digest"], record_id(first["capture_id"])
                )
            written = writer.write(got, capture_id, earlier=earlier)
            kind = "robots" if url.endswith("/robots.txt") else "page"
            outcome = (
                "not_modified"
                if status == 304
                else "fetched"
                if status == 200
                else "redirected"
                if status == 301
                else "http_error"
            )
            captures.append(
                {
                    "capture_id": capture_id,
                    "round_id": round_id,
                    "url_key": url_key(url),
                    "url": url,
                    "kind": kind,
                    "host": host_of(url),
                    "slot": 0,
                    "attempt": 1,
                    "seq": i,
                    "outcome": outcome,
                    "status": status,
                    "started": got.wall_start,
                    "ended": got.wall_end,
                    "ip": got.ip,
                    "content_type": got.header("content-type"),
                    "body_bytes": len(body),
                    "redirect_to": "http://site.test/b" if status == 301 else None,
                    "payload_digest": written.payload_digest,
                    "warc_filename": written.filename,
                    "warc_record_offset": written.offset,
                    "warc_record_length": written.length,
                    "warc_record_id": written.record_id,
                    "record_type": written.record_type,
                    "revisit_of": captures[i]["capture_id"] if n == 2 else None,
                    "is_outcome": True,
                }
            )
            if n == 1 and status == 200 and kind == "page" and fields and "html" in fields[0][1]:
                page = parse_page(body, url, fields[0][1], fields, "crawlkit")
                pages.append(
                    {
                        "capture_id": capture_id,
                        "round_id": round_id,
                        "url_key": url_key(url),
                        "url": url,
                        "host": host_of(url),
                        "kind": page.kind,
                        "media_type": "text/html",
                        "charset": page.encoding.name,
                        "title": page.metadata.title,
                        "language": page.language,
                        "text": page.text,
                        "text_sha256": hashlib.sha256(page.text.encode()).hexdigest(),
                        "noindex": False,
                    }
                )
                links += [
                    {
                        "capture_id": capture_id,
                        "round_id": round_id,
                        "n": k,
                        "from_key": url_key(url),
                        "from_url": url,
                        "to_key": url_key(link.url),
                        "to_url": link.url,
                        "to_host": host_of(link.url),
                        "anchor": link.anchor,
                        "kind": link.kind,
                    }
                    for k, link in enumerate(page.links.links)
                ]
        writer.write_log(
            [("round", json.dumps({"id": round_id, "no": n}).encode())]
        )  # as each file of a crawl ends
        writer.close()
    frontier = [
        {
            "url_key": url_key(u),
            "url": u,
            "host": host_of(u),
            "domain": registered_domain(host_of(u)),
            "host_bucket": 0,
            "state": "fetched",
            "depth": i,
            "first_seen": T0,
            "last_fetch": T0 + 86_400,
            "n_fetch": 1,
            "last_status": 200,
        }
        for i, (u, *_) in enumerate(PAGES)
    ]
    for name, rows in (
        ("captures", captures),
        ("pages", pages),
        ("links", links),
        ("crawldb", frontier),
    ):
        write(data, name, rows)
    (data / "state").mkdir(exist_ok=True)
    return captures


def write(data: Path, name: str, rows: list[dict[str, Any]]) -> None:
    table = TABLES[name]
    columns = {}
    for c in table.columns:
        values = [r.get(c.name) for r in rows]
        if c.type == "timestamp":
            values = [None if v is None else int(v * 1e6) for v in values]
        columns[c.name] = pa.array(values, ARROW[c.type])
    write_deltalake(
        str(data / "tables" / name),
        pa.table(columns),
        partition_by=list(table.partition_by),
        mode="overwrite",
    )
