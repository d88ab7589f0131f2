"""A frontier of any size without a crawl: crawldb, hostdb and buckets rows written straight to the
tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.lake.parquet import add_action, write_files
from crawlkit.round.job import Job
from crawlkit.rules.url.domains import host_bucket
from crawlkit.tables import ARROW, TABLES

BLOCK = 50_000


def domains_of(buckets: int, each: int) -> dict[int, list[str]]:
    """`each` registered domains for every bucket."""
    out: dict[int, list[str]] = {b: [] for b in range(buckets)}
    n, missing = 0, buckets * each
    while missing:
        name = f"known{n}.example"
        n += 1
        place = out[host_bucket(name, buckets)]
        if len(place) < each:
            place.append(name)
            missing -= 1
    return out


def known_urls(
    job: Job, rows_a_bucket: int, domains_a_bucket: int, next_fetch: float, now: float
) -> int:
    """Fills crawldb with fetched URLs that are due at `next_fetch` (Unix s), hostdb and buckets;
    the number of URLs.
    """
    buckets = job.cfg.frontier.buckets
    domains = domains_of(buckets, domains_a_bucket)
    t = TABLES["crawldb"]
    with job.crawl.lock:
        job.tables.replace("crawldb", [])
        adds = []
        for bucket, names in domains.items():
            files = write_files(
                t, job.tables._where(t), _batches(names, bucket, rows_a_bucket, next_fetch, now)
            )
            adds += [add_action(r) for b in files for r in b.to_pylist()]
        job.tables._commit(t, adds, None)
        job.tables.replace(
            "hostdb",
            [
                {
                    "host": n,
                    "domain": n,
                    "host_bucket": b,
                    "class": "generic",
                    "first_seen": now,
                    "updated_no": 0,
                }
                for b, names in domains.items()
                for n in names
            ],
        )
        job.tables.replace(
            "buckets",
            [
                {
                    "host_bucket": b,
                    "rows": rows_a_bucket,
                    "next_due_1": next_fetch,
                    "log_rows": 0,
                    "folded_through": 0,
                }
                for b in domains
            ],
        )
    return rows_a_bucket * buckets


def _batches(
    names: list[str], bucket: int, rows: int, next_fetch: float, now: float
) -> Iterator[pa.RecordBatch]:
    columns = TABLES["crawldb"].columns
    for start in range(0, rows, BLOCK):
        n = min(BLOCK, rows - start)
        hosts = [names[(start + i) % len(names)] for i in range(n)]
        urls = [f"http://{h}/page/{start + i}" for i, h in enumerate(hosts)]
        digests = [hashlib.sha256(u.encode()).hexdigest() for u in urls]
        same: dict[str, Any] = {
            "host_bucket": bucket,
            "state": "fetched",
            "priority_class": 1,
            "boost": 0.0,
            "depth": 2,
            "redirects": 0,
            "source": "link",
            "first_seen": now,
            "last_fetch": now,
            "next_fetch": next_fetch,
            "interval_s": 604_800.0,
            "last_status": 200,
            "retries": 0,
            "n_fetch": 1,
            "n_change": 0,
            "history": "N",
            "content_type": "text/html",
            "content_length": 30_000,
            "outlinks": 40,
            "flags": [],
            "updated_no": 0,
        }
        made = {
            "url_key": [bytes.fromhex(d[:32]) for d in digests],
            "url": urls,
            "host": hosts,
            "domain": hosts,
            "body_sha256": digests,
        }
        arrays = []
        for c in columns:
            kind, value = ARROW[c.type], same.get(c.name)
            if c.name in made:
                arrays.append(pa.array(made[c.name], kind))
            elif value is None:
                arrays.append(pa.nulls(n, kind))
            elif c.type == "timestamp":
                arrays.append(pa.repeat(pa.scalar(round(value * 1e6), pa.int64()), n).cast(kind))
            else:
                arrays.append(pa.repeat(pa.scalar(value, kind), n))
        yield pa.RecordBatch.from_arrays(arrays, [c.name for c in columns])


def contents(tables: Tables, name: str) -> list[str]:
    """The table's rows as sorted texts."""
    return sorted(str(r) for r in tables.rows(name, TABLES[name].column_names))
