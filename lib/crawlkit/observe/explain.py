"""explain: everything that a crawl knows of one URL, and why it is or is not fetched.

Read without Spark.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.store.pending_commands import read_pending
from crawlkit.adapters.store.stop_list import Orders, read_orders
from crawlkit.config import Config
from crawlkit.crawl.state import Crawl
from crawlkit.observe.explain_text import reasons
from crawlkit.outcomes import Refused
from crawlkit.rules.frontier.command_rules import URL_VERBS
from crawlkit.rules.politeness.host_state import HostState, may_send, pages_left
from crawlkit.rules.robots.fetching import KeptCopy, verdict_of
from crawlkit.rules.url.canonical import canonicalize, host_of, origin_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.scope import Scope, scope_reason
from crawlkit.rules.url.steps import rewriting_steps
from crawlkit.tables import TABLES

_SCHEDULE = (
    "state",
    "fetch_kind",
    "priority_class",
    "boost",
    "depth",
    "source",
    "first_seen",
    "last_fetch",
    "next_fetch",
    "interval_s",
    "last_status",
    "error_type",
    "error_detail",
    "retries",
    "n_fetch",
    "n_change",
    "history",
    "flags",
)
_CAPTURE = (
    "round_id",
    "capture_id",
    "kind",
    "outcome",
    "reason",
    "detail",
    "status",
    "started",
    "ended",
    "ip",
    "body_bytes",
    "content_type",
    "redirect_to",
    "robots_line",
    "warc_filename",
    "warc_record_offset",
    "warc_record_length",
    "is_outcome",
)
USED = ("quota_used", "quota_day", "cycle_used", "cycle_day")
_HOST = (
    "delay_ms",
    "robots_delay_ms",
    "next_allowed_at",
    "retry_after_until",
    "breaker",
    "slow_until",
    "health",
    "failures",
    "errors_24h",
    "avg_ms",
    *USED,
    "pages",
    "requests",
    "blacklisted",
    "reason",
    "last_ips",
    "flags",
)


def explain(crawl: Crawl, url: str, now: float | None = None) -> dict[str, Any]:
    """Everything known of a URL; `why` holds the reasons as sentences.

    now: Unix s. A URL that cannot be crawled at all is explained too: `refused`. Raises TableError,
    CrawlError.
    """
    now = time.time() if now is None else now
    try:
        canonical = canonicalize(url, policy=UrlPolicy.of(crawl.cfg.urls))
    except Refused as e:
        return {
            "url": url,
            "refused": str(e.reason),
            "detail": e.detail,
            "why": [f"it is no URL that can be crawled: {e.reason} {e.detail}".strip()],
        }
    tables, key = crawl.plain_tables(), url_key(canonical)
    bucket = host_bucket(registered_domain(host_of(canonical)), crawl.cfg.frontier.buckets)
    row, log = _newest_row(tables, key, bucket)
    captures = tables.rows("captures", _CAPTURE, {"url": [canonical]})
    rejects = ["round_id", "stage", "reason", "detail"]
    orders = read_orders(crawl.objects)
    out = {
        "url": url,
        "canonical": canonical,
        "url_key": key.hex(),
        "rewritings": [s._asdict() for s in rewriting_steps(url, crawl.cfg.urls)],
        "host_bucket": bucket,
        "scope": _scope(crawl.cfg, canonical, row or {}, now),
        "robots": _robots(crawl, tables, canonical),
        **_host(crawl.cfg, tables, orders, canonical, bucket, now),
        "schedule": None if row is None else {k: row[k] for k in _SCHEDULE},
        "claimed_by": crawl.claims().get(bucket),
        "log_rows_waiting": len(log),
        "commands_waiting": _waiting_commands(crawl, canonical),
        "captures": sorted(captures, key=lambda c: (c["started"] or 0, c["round_id"])),
        "rejects": tables.rows("rejects", rejects, {"item": [canonical, url]}),
        "duplicates": _duplicates(tables, key),
    }
    return out | {"why": reasons(out, now)}


def _scope(cfg: Config, url: str, row: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Whether today's scope lets the URL in. row: of crawldb, or empty."""
    scope, kind = Scope.of(cfg.scope, UrlPolicy.of(cfg.urls)), row.get("fetch_kind", "page")
    reason = scope_reason(
        url,
        row.get("depth") or 0,
        scope.for_requisites() if kind == "requisite" else scope,
        time.gmtime(now).tm_year,
        page=kind == "page",
    )
    return {"in_scope": reason is None, "reason": reason}


def _host(
    cfg: Config, tables: Tables, orders: Orders, url: str, bucket: int, now: float
) -> dict[str, Any]:
    """`stopped` by an operator, and the `host` with its pace and quotas."""
    host = host_of(url)
    domain = registered_domain(host)
    rows = tables.rows("hostdb", _HOST, {"host_bucket": [bucket], "host": [host]})
    return {
        "stopped": orders.stopped(host, domain),
        "host": {
            "host": host,
            "domain": domain,
            **(rows[0] if rows else {}),
            **pages_of(host, rows, orders.policies.get(host), cfg, now),
        },
    }


def _waiting_commands(crawl: Crawl, url: str) -> list[str]:
    """The commands about a URL that wait for the next round."""
    commands = [c for c in read_pending(crawl.objects) if c["verb"] in URL_VERBS]
    return [c["verb"] for c in commands if url in c["arguments"]["urls"]]


def pages_of(
    host: str,
    rows: Sequence[Mapping[str, Any]],
    policy: Mapping[str, Any] | None,
    cfg: Config,
    now: float,
) -> dict[str, Any]:
    """The pages that the quotas still allow of a host, and which quota decides.

    rows: its row of hostdb, if there is one. policy: what an operator has ordered. `pages_again_at`
    (Unix s): when there are pages again if none is left; null: never.
    """
    used: dict[str, Any] = {
        k: int(v) for k, v in (rows[0] if rows else {}).items() if k in USED and v is not None
    }
    state = HostState(
        host,
        quota_max=(policy or {}).get("quota_max"),
        cycle_quota_max=(policy or {}).get("cycle_quota_max"),
        **used,
    )
    left, reason = pages_left(state, cfg.politeness, now, now)
    permit = may_send(state, now, cfg)
    return {
        "pages_left": left,
        "quota": str(reason),
        "pages_again_at": permit.at if left == 0 and permit.at < math.inf else None,
    }


def _newest_row(
    tables: Tables, key: bytes, bucket: int
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The URL's newest row, and the rows of the log that are not folded into it yet."""
    at = {"host_bucket": [bucket]}
    where = at | {"url_key": [key]}
    base = tables.rows("crawldb", TABLES["crawldb"].column_names, where)
    folded = [r["folded_through"] for r in tables.rows("buckets", ["folded_through"], at)]
    through = folded[0] if folded and folded[0] is not None else -1
    rows = tables.rows("crawldb_log", TABLES["crawldb_log"].column_names, where)
    log = sorted(
        (r for r in rows if r["updated_no"] > through),
        key=lambda r: (r["updated_no"], r["writer"], r["seq"]),
    )
    states = [r for r in log if r["kind"] == "state"]
    newest = [*states[-1:], *base[:1], *log[:1]]
    return (newest[0] if newest else None), log


def _robots(crawl: Crawl, tables: Tables, url: str) -> dict[str, Any] | None:
    """The newest copy of the origin's robots.txt, and the group and line that decide.

    null if it was never requested.
    """
    columns = ["fetched_at", "status", "error", "final_url", "expires", "body"]
    rows = tables.rows("robots", columns, {"origin": [origin_of(url)]})
    if not rows:
        return None
    newest = max(rows, key=lambda r: r["fetched_at"])
    copy = KeptCopy(origin_of(url), newest["status"], newest.pop("body"), newest["fetched_at"])
    verdict = verdict_of(copy, crawl.cfg.robots)
    match = verdict.match(crawl.cfg.agent.name, url)
    if match is None:
        unknown = ("allowed", "group", "line_no", "line", "crawl_delay_s")
        return newest | dict.fromkeys(unknown)
    return newest | {
        "allowed": match.allowed,
        "group": match.group,
        "line_no": match.line_no,
        "line": match.line,
        "crawl_delay_s": verdict.robots.crawl_delay_s(crawl.cfg.agent.name),
    }


def _duplicates(tables: Tables, key: bytes) -> dict[str, Any] | None:
    """The URL's row of `duplicates` with up to 100 members of its cluster."""
    columns = [
        "cluster_id",
        "canonical_url",
        "method",
        "evidence_url",
        "distance",
        "jaccard",
        "size",
    ]
    own = tables.rows("duplicates", columns, {"url_key": [key]})
    if not own:
        return None
    cluster_id = own[0].pop("cluster_id")
    members = tables.rows("duplicates", ["url"], {"cluster_id": [cluster_id]})
    return own[0] | {"members": sorted(r["url"] for r in members)[:100]}
