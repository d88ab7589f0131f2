"""What the control API shows of a crawl: state objects and, without Spark, the tables."""

from __future__ import annotations

import datetime
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.lake.duckdb_reader import aggregate, frontier_counts
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.config import Config
from crawlkit.crawl.fetch_progress import read_progress
from crawlkit.crawl.state import Crawl, Place
from crawlkit.model import Round
from crawlkit.observe.explain import USED, pages_of
from crawlkit.observe.status import STAGES
from crawlkit.report.metrics import DAY_S, alerts_now
from crawlkit.rules.url.canonical import canonicalize
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.rules.url.policy import UrlPolicy

FETCHED = ("fetched", "not_modified")
FAILED = ("failed", "http_error")
_ERROR = (
    "round_id",
    "url",
    "host",
    "kind",
    "outcome",
    "reason",
    "detail",
    "status",
    "started",
)
# pages of this month, requests and errors of the last hour; ?: month, hour, hour in Unix us
_LATELY = f"""
    SELECT
      count(*) FILTER (WHERE outcome IN {FETCHED} AND started >= make_timestamptz(?)),
      count(*) FILTER (WHERE started > make_timestamptz(?)),
      count(*) FILTER (WHERE outcome IN {FAILED} AND started > make_timestamptz(?))
    FROM t WHERE is_outcome AND kind = 'page'"""


class Cached:
    """A value that is computed again when it is older than `max_age_s`; one thread at a time."""

    def __init__(self, make: Callable[[], dict[str, Any]], max_age_s: float) -> None:
        self._make = make
        self._max_age_s = max_age_s
        self._lock = threading.Lock()
        self._at = -1e9
        self._value: dict[str, Any] = {}

    def __call__(self) -> dict[str, Any]:
        with self._lock:
            if time.monotonic() - self._at > self._max_age_s:
                self._value, self._at = self._make(), time.monotonic()
            return self._value


def table_figures(data: Place, cfg: Config) -> dict[str, Any]:
    """URLs by state, what is due, pages of this month, requests and errors of the last hour.

    It takes about a second for each 10^7 rows: call it seldom.
    """
    crawl, now = Crawl(data, cfg), time.time()
    tables = crawl.plain_tables()
    states, due = frontier_counts(tables, now)
    day = datetime.datetime.fromtimestamp(now, datetime.UTC)
    month = day.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()
    recent = [
        r.id
        for r in itertools.takewhile(
            lambda r: (r.closed_at or now) >= month - DAY_S, _rounds(crawl)
        )
    ]
    hour_us, month_us = round((now - 3600) * 1e6), round(month * 1e6)
    pages, tried, errors = aggregate(
        tables,
        "captures",
        _LATELY,
        [month_us, hour_us, hour_us],
        {"round_id": recent},
    )[0]
    return {
        "states": states,
        "known_urls": sum(states.values()),
        "due_now": due,
        "queue_depth": states.get("queued", 0) + states.get("retrying", 0),
        "pages_this_month": pages,
        "errors_last_hour": errors,
        "tried_last_hour": tried,
        "read_at": now,
    }


def status(data: Place, cfg: Config, figures: dict[str, Any]) -> dict[str, Any]:
    """The open rounds as they are now, with the table figures."""
    crawl = Crawl(data, cfg)
    orders, now = read_orders(crawl.objects), time.time()
    rounds = [round_view(crawl, r, orders.paused) for r in crawl.open_rounds()]
    fetching = [r["fetching"] for r in rounds if r["fetching"]]
    errors = figures["errors_last_hour"] + sum(f["failed"] for f in fetching)
    tried = figures["tried_last_hour"] + sum(f["done"] for f in fetching)
    rate = sum(f["recent"]["pages_per_s"] for f in fetching) if fetching else _last_rate(crawl, now)
    planned = [crawl.mark(crawl.round(r["round_id"]), "generate") or {} for r in rounds]
    of_tables = ("states", "known_urls", "due_now", "queue_depth", "pages_this_month")
    return {
        "crawl": cfg.crawl.id,
        "now": now,
        "rounds": rounds,
        "pages_per_s": round(rate, 3),
        "hosts_active": sum(mark.get("hosts", 0) for mark in planned),
        "errors_last_hour": errors,
        "error_share": round(errors / max(1, tried), 4),
        "stopped_hosts": len(orders.hosts),
        "stopped_domains": len(orders.domains),
        **{k: figures[k] for k in of_tables},
    }


def _last_rate(crawl: Crawl, now: float) -> float:
    """Pages a second of the newest round's fetch stage, if it ended within the last hour."""
    last = next(iter(_rounds(crawl)), None)
    mark = None if last is None else crawl.mark(last, "fetch")
    if mark is None or mark["ended"] <= now - 3600:
        return 0
    return sum(mark.get(o, 0) for o in FETCHED) / max(mark["ended"] - mark["started"], 0.001)


def round_view(crawl: Crawl, r: Round, paused: frozenset[str]) -> dict[str, Any]:
    """One round: state, the stages done, and the progress of its fetch tasks."""
    marks = {stage: crawl.mark(r, stage) for stage in STAGES}
    stages = {stage: mark for stage, mark in marks.items() if mark is not None}
    is_fetching = r.state == "open" and "generate" in stages and "fetch" not in stages
    planned = stages.get("generate", {})
    return {
        "round_id": r.id,
        "round_no": r.no,
        "state": "paused" if r.state == "open" and r.id in paused else r.state,
        "nominal_time": r.now,
        "opened_at": r.opened_at,
        "closed_at": r.closed_at,
        "stages": {s: round(m["ended"] - m["started"], 2) for s, m in stages.items()},
        **{k: planned.get(k) for k in ("planned", "left_out")},
        "outcomes": stages.get("commit", {}).get("outcomes", {}),
        "fetching": read_progress(crawl.objects, r.id, time.time()) if is_fetching else None,
    }


def _rounds(crawl: Crawl) -> list[Round]:
    """All rounds, newest first."""
    return sorted((crawl.round(i) for i in crawl.round_ids()), key=lambda r: -r.no)


def rounds(crawl: Crawl, offset: int, limit: int) -> list[dict[str, Any]]:
    """Some rounds, newest first."""
    paused = read_orders(crawl.objects).paused
    return [round_view(crawl, r, paused) for r in _rounds(crawl)[offset : offset + limit]]


def errors(crawl: Crawl, offset: int, limit: int, host: str | None) -> list[dict[str, Any]]:
    """Failed requests, newest round first."""
    tables = crawl.plain_tables()
    of_host = {"host": [host]} if host else {}

    def all_errors() -> Iterator[dict[str, Any]]:
        for r in _rounds(crawl):
            part = {"round_id": [r.id], "outcome": list(FAILED), **of_host}
            rows = tables.rows("captures", _ERROR, part)
            yield from sorted(rows, key=lambda c: (-(c["started"] or 0), c["url"]))

    return list(itertools.islice(all_errors(), offset, offset + limit))


def cdx(crawl: Crawl, url: str, offset: int, limit: int) -> list[dict[str, Any]]:
    """Stored records of a URL, oldest first. Raises Refused."""
    canonical = canonicalize(url, policy=UrlPolicy.of(crawl.cfg.urls))
    columns = [
        "url",
        "started",
        "status",
        "content_type",
        "payload_digest",
        "record_type",
        "warc_filename",
        "warc_record_offset",
        "warc_record_length",
        "capture_id",
    ]
    rows = [
        r
        for r in crawl.plain_tables().rows("captures", columns, {"url": [canonical]})
        if r["warc_filename"]
    ]
    return sorted(rows, key=lambda r: (r["started"] or 0, r["capture_id"]))[offset : offset + limit]


def commands(crawl: Crawl, offset: int, limit: int) -> list[dict[str, Any]]:
    """Some operator commands, newest first."""
    rows = crawl.plain_tables().rows(
        "commands", ["command_id", "at", "verb", "target", "arguments", "actor"]
    )
    return [
        r | {"arguments": json.loads(r["arguments"])}
        for r in sorted(rows, key=lambda r: (-r["at"], r["command_id"]))[offset : offset + limit]
    ]


def host_policy(crawl: Crawl, host: str) -> dict[str, Any]:
    """What an operator has ordered for a host, and the delay last in force."""
    orders, domain = read_orders(crawl.objects), registered_domain(host)
    rows = _host_rows(crawl.plain_tables(), crawl.cfg, host, domain)
    policy = orders.policies.get(
        host,
        {
            "delay_s": None,
            "parallel": 1,
            "quota_max": None,
            "cycle_quota_max": None,
            "recrawl": None,
            "weight": None,
        },
    )
    return {
        "host": host,
        **policy,
        "stopped": orders.stopped(host, domain),
        "delay_ms_in_force": rows[0]["delay_ms"] if rows else None,
        "next_allowed_at": rows[0]["next_allowed_at"] if rows else None,
        **pages_of(host, rows, orders.policies.get(host), crawl.cfg, time.time()),
    }


def _host_rows(tables: Tables, cfg: Config, host: str, domain: str) -> list[dict[str, Any]]:
    return tables.rows(
        "hostdb",
        ["delay_ms", "next_allowed_at", *USED],
        {"host_bucket": [host_bucket(domain, cfg.frontier.buckets)], "host": [host]},
    )


def alerts(crawl: Crawl) -> dict[str, Any]:
    """The alert rules and their states after the newest round."""
    round_id, found = alerts_now(crawl)
    return {"round_id": round_id, "alerts": [a._asdict() for a in found]}
