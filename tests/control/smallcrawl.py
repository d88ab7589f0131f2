"""A crawl's folder with a few rows in its tables, written without a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crawlkit.config import Config
from crawlkit.crawl.state import Crawl
from crawlkit.rules.frontier.lifecycle import found_row
from crawlkit.rules.url.canonical import host_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain

NOW = 1_790_000_000.0
ROBOTS = b"User-agent: crawlkit\nDisallow: /private\nCrawl-delay: 2\n\nUser-agent: *\nDisallow: /\n"


def make_crawl(folder: Path, **sections: dict[str, Any]) -> Crawl:
    """An empty crawl with state on disk."""
    crawl = Crawl(folder, Config.model_validate(sections))
    crawl.close(crawl.open_round(NOW))
    return crawl


def write(
    crawl: Crawl, table: str, rows: list[dict[str, Any]], part: dict[str, list[Any]] | None = None
) -> None:
    with crawl.lock:
        crawl.plain_tables().replace(table, rows, part)


def known(crawl: Crawl, url: str, **fields: Any) -> dict[str, Any]:
    """A crawldb row."""
    host = host_of(url)
    domain = registered_domain(host)
    return (
        found_row(
            url,
            url_key(url),
            host,
            domain,
            host_bucket(domain, crawl.cfg.frontier.buckets),
            source="seed",
            now=NOW,
        )
        | {"updated_no": 1}
        | fields
    )


def capture(url: str, n: int = 1, round_id: str = "r000001", **fields: Any) -> dict[str, Any]:
    return {
        "capture_id": f"{round_id}-0-1-{n}",
        "round_id": round_id,
        "url_key": url_key(url),
        "url": url,
        "kind": "page",
        "host": host_of(url),
        "slot": 0,
        "attempt": 1,
        "seq": n,
        "outcome": "fetched",
        "status": 200,
        "started": NOW + n,
        "ended": NOW + n + 0.5,
        "is_outcome": True,
    } | fields


def fill(crawl: Crawl) -> None:
    """Three URLs of a.test: one fetched, one forbidden by robots.txt, one dead; and the
    host's row.
    """
    good, private, dead = "http://a.test/", "http://a.test/private/x", "http://a.test/dead"
    rows = [
        known(
            crawl,
            good,
            state="fetched",
            next_fetch=NOW + 86_400,
            last_fetch=NOW,
            last_status=200,
            n_fetch=1,
            capture_id="r000001-0-1-1",
        ),
        known(crawl, private, state="robots_skipped", error_type="robots_rule"),
        known(
            crawl,
            dead,
            state="dead",
            next_fetch=None,
            error_type="http_404",
            error_detail="404",
            last_status=404,
        ),
    ]
    write(crawl, "crawldb", rows)
    write(
        crawl,
        "captures",
        [
            capture(
                good, 1, warc_filename="f.warc.gz", warc_record_offset=0, warc_record_length=900
            ),
            capture(
                private,
                2,
                outcome="robots_denied",
                reason="robots_rule",
                status=None,
                started=None,
                ended=None,
                robots_line="Disallow: /private",
            ),
            capture(dead, 3, outcome="http_error", reason="http_404", status=404),
        ],
    )
    bucket = rows[0]["host_bucket"]
    write(
        crawl,
        "hostdb",
        [
            {
                "host": "a.test",
                "domain": "a.test",
                "host_bucket": bucket,
                "delay_ms": 2000,
                "breaker": "closed",
                "pages": 1,
                "requests": 3,
                "flags": [],
                "first_seen": NOW,
            }
        ],
    )
    write(
        crawl,
        "robots",
        [
            {
                "origin": "http://a.test",
                "host": "a.test",
                "fetched_at": NOW,
                "status": 200,
                "final_url": "http://a.test/robots.txt",
                "body": ROBOTS,
                "expires": NOW + 86_400,
                "round_id": "r000001",
            }
        ],
    )
