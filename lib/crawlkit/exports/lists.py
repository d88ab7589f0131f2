"""Lists of URLs, pages and hosts.

The daily URL snapshot, an indexer's feed, and the host graph.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from crawlkit.exports.files import atomic, sorted_lines
from crawlkit.exports.source import Source
from crawlkit.exports.withheld import withheld
from crawlkit.rules.requisites.page_requisites import KINDS as REQUISITES
from crawlkit.rules.url.canonical import host_of
from crawlkit.tables import ARROW, TABLES

URL_COLUMNS = [
    "url",
    "host",
    "domain",
    "state",
    "priority_class",
    "depth",
    "source",
    "first_seen",
    "last_fetch",
    "next_fetch",
    "last_status",
    "error_type",
    "n_fetch",
    "n_change",
    "body_sha256",
    "text_sha256",
    "content_type",
    "content_length",
    "flags",
]


_PAGE_COLUMNS = [
    "url",
    "host",
    "capture_id",
    "round_id",
    "title",
    "headline",
    "author",
    "description",
    "language",
    "published",
    "published_on",
    "canonical",
    "main_text",
    "text",
]


def export_urls(source: Source, out: Path, date: str) -> dict[str, Any]:
    """`out`/date=YYYY-MM-DD/urls.parquet: every known URL as of the last fold.

    The same date again replaces it.
    """
    path = out / f"date={date}" / "urls.parquet"
    n = 0
    with atomic(path) as f:
        writer = None
        for batch in source.batches("crawldb", URL_COLUMNS):
            writer = writer or pq.ParquetWriter(f, batch.schema, compression="zstd")
            writer.write_batch(batch)
            n += batch.num_rows
        if writer is None:
            pq.write_table(
                pa.schema(
                    [
                        (c.name, ARROW[c.type])
                        for c in TABLES["crawldb"].columns
                        if c.name in URL_COLUMNS
                    ]
                ).empty_table(),
                f,
            )
        else:
            writer.close()
    return {"file": str(path), "urls": n}


def export_pages(source: Source, out: Path) -> dict[str, Any]:
    """An indexer's feed, JSON lines: each canonical page with its text and its duplicates' URLs."""
    n = 0
    with atomic(out, "w") as f:
        for page in canonical_pages(source):
            f.write(json.dumps(page, ensure_ascii=False) + "\n")
            n += 1
    return {"file": str(out), "pages": n, "aliases": sum(map(len, _aliases(source).values()))}


def export_pages_by_host(source: Source, out: Path) -> dict[str, Any]:
    """The same pages below the folder `out`: YYYY-MM-DD/HOST.json, a JSON array for each day on
    which pages were fetched and each host.
    """
    fetched = {
        row["capture_id"]: f"{row['started']:%Y-%m-%d}"
        for row in source.rows(
            "captures", ["capture_id", "started"], ds.field("started").is_valid()
        )
    }
    lines = (
        f"{fetched.get(page['capture_id'], 'unknown')}\t{page['host']}\t"
        + json.dumps(page, ensure_ascii=False)
        for page in canonical_pages(source)
    )
    files = n = 0
    for place, rows in groupby(sorted_lines(lines), lambda line: line.split("\t", 2)[:2]):
        day, host = place
        with atomic(out / day / f"{host.replace(':', '_')}.json", "w") as f:
            for at, row in enumerate(rows):
                f.write(("[" if at == 0 else ",\n") + row.split("\t", 2)[2])
                n += 1
            f.write("]\n")
        files += 1
    return {"folder": str(out), "files": files, "pages": n}


def canonical_pages(source: Source) -> Iterator[dict[str, Any]]:
    """The newest row of each page with text that is no other's duplicate, with `aliases`."""
    aliases = _aliases(source)
    copies = {url for urls in aliases.values() for url in urls}
    newest: dict[str, str] = {}
    for row in source.rows("pages", ["url", "capture_id", "round_id"]):
        newest[row["url"]] = max(newest.get(row["url"], ""), _version(row))
    left_out = withheld(source)
    for page in source.rows("pages", _PAGE_COLUMNS, ds.field("text").is_valid()):
        if page["url"] not in copies and newest[page["url"]] == _version(page):
            page["aliases"] = sorted(aliases.get(page["url"], ()))
            if page["capture_id"] in left_out:  # to be found, not to be shown
                page |= {"text": None, "main_text": None, "noarchive": True}
            yield {k: v for k, v in page.items() if v is not None}


def _aliases(source: Source) -> dict[str, list[str]]:
    """The URLs of the duplicates of each canonical URL."""
    aliases: dict[str, list[str]] = {}
    for row in source.rows("duplicates", ["url", "canonical_url"]):
        if row["url"] != row["canonical_url"]:
            aliases.setdefault(row["canonical_url"], []).append(row["url"])
    return aliases


def _version(row: dict[str, Any]) -> str:
    """Orders the captures of a URL."""
    return f"{row['round_id']} {row['capture_id']}"


def export_hostgraph(source: Source, out: Path) -> dict[str, Any]:
    """Host graph as Common Crawl publishes it, below the folder `out`.

    `vertices.txt.gz` (id, host name reversed; sorted) and `edges.txt.gz` (from id, to id; sorted,
    each pair once, links inside a host left out).
    """

    def pairs() -> Iterator[str]:
        for row in source.rows(
            "links",
            ["from_url", "to_host"],
            ds.field("to_key").is_valid()
            & ds.field("to_host").is_valid()
            & ~ds.field("kind").isin(REQUISITES),
        ):
            yield f"{reversed_host(host_of(row['from_url']))}\t{reversed_host(row['to_host'])}"

    edges = 0
    found: set[str] = set()
    for line in sorted_lines(pairs()):
        found.update(line.split("\t"))
    ids = {host: n for n, host in enumerate(sorted(found))}
    with atomic(out / "vertices.txt.gz") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as f:
        for host, n in ids.items():
            f.write(f"{n}\t{host}\n".encode())
    with atomic(out / "edges.txt.gz") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as f:
        for line in sorted_lines(pairs()):  # sorted by name is sorted by id
            a, b = line.split("\t")
            if a != b:
                f.write(f"{ids[a]}\t{ids[b]}\n".encode())
                edges += 1
    return {"folder": str(out), "hosts": len(ids), "edges": edges}


def reversed_host(host: str) -> str:
    """`com.example.www`; an address as it is."""
    return (
        host
        if host.startswith("[") or host.replace(".", "").isdigit()
        else ".".join(reversed(host.split(".")))
    )
