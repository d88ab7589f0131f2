"""Sitemaps and feeds as fetched, and the sitemaps that robots.txt names -> found rows (REQUIREMENTS
A2, A3). Pure.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from crawlkit import __version__
from crawlkit.config import Config
from crawlkit.outcomes import Reason
from crawlkit.rules.feeds.sitemaps import Sitemap, parse
from crawlkit.rules.http.content_types import media_type
from crawlkit.rules.page.encoding import header_charset
from crawlkit.rules.url.canonical import UrlPolicy, host_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.rules.url.scope import Scope, scope_reason

MAX_CHARS = 2000
FEEDS = ("rss", "atom")


def found(
    url: str,
    key: bytes,
    host: str,
    depth: int,
    source: str,
    fetch_kind: str,
    parent_key: bytes | None,
    cfg: Config,
    due_at: float | None = None,
    redirects: int = 0,
) -> dict[str, Any]:
    """A found row of PARSED_SCHEMA. key, host: those of `url`."""
    domain = registered_domain(host)
    return {
        "url_key": key,
        "url": url,
        "host": host,
        "domain": domain,
        "host_bucket": host_bucket(domain, cfg.frontier.buckets),
        "source": source,
        "fetch_kind": fetch_kind,
        "depth": depth,
        "redirects": redirects,
        "parent_key": parent_key,
        "due_at": due_at,
    }


def read_sitemap(
    out: dict[str, Any],
    row: dict[str, Any],
    body: bytes,
    cut: bool,
    cfg: Config,
    scope: Scope,
    policy: UrlPolicy,
    now: float,
) -> bool:
    """Put what a sitemap or feed says into `out`; False: it is neither, so read it as a page.

    An entry dated after our copy makes its URL due (fold); a date in the future is no evidence.
    """
    sitemap = parse(
        body,
        row["url"],
        charset=header_charset(row["content_type"]),
        vouched=frozenset(row["vouched"] or ()),
        policy=policy,
    )
    if sitemap.kind == "none":
        return False
    kind = "feed" if sitemap.kind in FEEDS else "sitemap"
    year = time.gmtime(now).tm_year
    for url, lastmod, fetch_kind in _named(sitemap):
        reason = scope_reason(url, row["depth"] + 1, scope, year, page=fetch_kind == "page")
        if reason is None:
            out["found"].append(
                found(
                    url,
                    url_key(url),
                    host_of(url),
                    row["depth"] + 1,
                    kind,
                    fetch_kind,
                    row["url_key"],
                    cfg,
                    lastmod if lastmod is not None and lastmod <= now else None,
                )
            )
        else:
            reject(out, url[:MAX_CHARS], reason, f"named by {row['url']}")
    for url in sitemap.refused:
        reject(
            out,
            url[:MAX_CHARS],
            Reason.SITEMAP_FOREIGN,
            f"{row['url']} may not name it: no robots.txt there names this sitemap",
        )
    if sitemap.bad_entries:
        reject(
            out,
            row["url"],
            Reason.URL_INVALID,
            f"{sitemap.bad_entries} entries without a usable address",
        )
    out["page"] = {
        "url_key": row["url_key"],
        "url": row["url"],
        "host": row["host"],
        "parser_version": __version__,
        "kind": kind,
        "media_type": media_type(row["content_type"]) or None,
        "robots_meta": [],
        "noindex": False,
        "nofollow": False,
        "text_bytes": 0,
        "decoded_bytes": sitemap.decoded_bytes,
        "body_sha256": hashlib.sha256(body).hexdigest(),
        "links": len(out["found"]),
        "flags": ["truncated"] if sitemap.partial or cut or row["truncated"] else [],
    }
    return True


def _named(sitemap: Sitemap) -> Iterator[tuple[str, float | None, str]]:
    for url, lastmod in sitemap.sitemaps.items():
        yield url, lastmod, "sitemap"
    for entry in sitemap.entries:
        yield entry.url, entry.lastmod, "page"


def reject(out: dict[str, Any], item: str, reason: Reason, detail: str) -> None:
    out["rejects"].append({"item": item, "reason": str(reason), "detail": detail[:MAX_CHARS]})


def named_by_robots(
    robots: DataFrame, fetchlist: DataFrame, cfg: Config, now: float, schema: pa.Schema, ddl: str
) -> DataFrame:
    """Rows of PARSED_SCHEMA, one for each robots.txt read in the round: its sitemaps, or a try of
    /sitemap.xml.

    A sitemap is as deep as the origin's shallowest page of the round. An unreadable robots.txt
    (5xx, no answer) names none.
    """
    depth = fetchlist.where("kind <> 'robots'").groupBy("host").agg(F.min("depth").alias("depth"))
    read = (
        robots.where("status BETWEEN 200 AND 499 AND status <> 429")
        .join(F.broadcast(depth), "host", "left")
        .select("origin", "capture_id", "sitemaps", F.coalesce("depth", F.lit(0)).alias("depth"))
    )
    guess = cfg.frontier.guess_sitemap

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        scope, year = Scope.of(cfg.scope), time.gmtime(now).tm_year
        for batch in batches:
            done = []
            for r in batch.to_pylist():
                out: dict[str, Any] = {
                    "capture_id": r["capture_id"],
                    "page": None,
                    "links": [],
                    "found": [],
                    "rejects": [],
                }
                for url in r["sitemaps"] or ([f"{r['origin']}/sitemap.xml"] if guess else []):
                    reason = scope_reason(url, r["depth"], scope, year, page=False)
                    if reason is None:
                        out["found"].append(
                            found(
                                url,
                                url_key(url),
                                host_of(url),
                                r["depth"],
                                "sitemap",
                                "sitemap",
                                None,
                                cfg,
                            )
                        )
                    else:
                        reject(out, url[:MAX_CHARS], reason, f"named by {r['origin']}/robots.txt")
                done.append(out)
            yield pa.RecordBatch.from_pylist(done, schema)

    return read.mapInArrow(rows, ddl)


def vouched(robots: DataFrame) -> DataFrame:
    """url, vouched: the origins whose robots.txt names this sitemap (sitemaps.org, "Sitemaps &
    Cross Submits").
    """
    return (
        robots.select("origin", F.explode("sitemaps").alias("url"))
        .groupBy("url")
        .agg(F.collect_set("origin").alias("vouched"))
    )
