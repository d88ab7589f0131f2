"""explain: everything that a crawl knows of one URL, and why it was or was not fetched
(REQUIREMENTS M4). Read without Spark.
"""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.store.pending_commands import read_pending
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.config import Config
from crawlkit.crawl.state import Crawl
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
    """Raises TableError, CrawlError.

    A URL that cannot be crawled at all is explained too: `refused`.
    """
    now = time.time() if now is None else now
    cfg = crawl.cfg
    out: dict[str, Any] = {"url": url}
    try:
        canonical = canonicalize(url, policy=UrlPolicy.of(cfg.urls))
    except Refused as e:
        return out | {
            "refused": str(e.reason),
            "detail": e.detail,
            "why": [f"it is no URL that can be crawled: {e.reason} {e.detail}".strip()],
        }
    host, key = host_of(canonical), url_key(canonical)
    domain = registered_domain(host)
    bucket = host_bucket(domain, cfg.frontier.buckets)
    tables, at = crawl.plain_tables(), {"host_bucket": [bucket]}
    known, log = _known(tables, key, at)
    depth = (known or {}).get("depth") or 0
    reason = scope_reason(
        canonical,
        depth,
        Scope.of(cfg.scope),
        time.gmtime(now).tm_year,
        page=(known or {}).get("fetch_kind", "page") == "page",
    )
    hosts = tables.rows("hostdb", _HOST, at | {"host": [host]})
    orders = read_orders(crawl.objects)
    stopped = orders.stopped(host, domain)
    captures = sorted(
        tables.rows("captures", _CAPTURE, {"url": [canonical]}),
        key=lambda c: (c["started"] or 0, c["round_id"]),
    )
    waiting = [
        c["verb"]
        for c in read_pending(crawl.objects)
        if c["verb"] in URL_VERBS and canonical in c["arguments"]["urls"]
    ]
    out |= {
        "canonical": canonical,
        "url_key": key.hex(),
        "rewritings": [s._asdict() for s in rewriting_steps(url, cfg.urls)],
        "host_bucket": bucket,
        "scope": {"in_scope": reason is None, "reason": reason},
        "robots": _robots(crawl, tables, canonical),
        "stopped": stopped,
        "host": {
            "host": host,
            "domain": domain,
            **(hosts[0] if hosts else {}),
            **pages_of(host, hosts, orders.policies.get(host), cfg, now),
        },
        "schedule": None if known is None else {k: known[k] for k in _SCHEDULE},
        "claimed_by": crawl.claims().get(bucket),
        "log_rows_waiting": len(log),
        "commands_waiting": waiting,
        "captures": captures,
        "rejects": tables.rows(
            "rejects", ["round_id", "stage", "reason", "detail"], {"item": [canonical, url]}
        ),
        "duplicates": _duplicates(tables, key),
    }
    return out | {"why": _why(out, now)}


def pages_of(
    host: str,
    rows: Sequence[Mapping[str, Any]],
    policy: Mapping[str, Any] | None,
    cfg: Config,
    now: float,
) -> dict[str, Any]:
    """What the quotas still let through of a host, which of them decides, and when there are pages
    again if none is left (null: never).

    rows: its row of hostdb, if there is one. policy: what an operator has ordered.
    """
    used = {k: int(v) for k, v in (rows[0] if rows else {}).items() if k in USED and v is not None}
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


def _known(
    tables: Tables, key: bytes, at: dict[str, Any]
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The URL's newest row, and the rows of the log that are not folded into it yet."""
    where = at | {"url_key": [key]}
    base = tables.rows("crawldb", TABLES["crawldb"].column_names, where)
    folded = tables.rows("buckets", ["folded_through"], at)
    through = (
        folded[0]["folded_through"] if folded and folded[0]["folded_through"] is not None else -1
    )
    log = sorted(
        (
            r
            for r in tables.rows("crawldb_log", TABLES["crawldb_log"].column_names, where)
            if r["updated_no"] > through
        ),
        key=lambda r: (r["updated_no"], r["writer"], r["seq"]),
    )
    states = [r for r in log if r["kind"] == "state"]
    return (states[-1] if states else base[0] if base else log[0] if log else None), log


def _robots(crawl: Crawl, tables: Tables, url: str) -> dict[str, Any] | None:
    """The newest copy of the origin's robots.txt, and the group and line that decide; null: it was
    never asked for.
    """
    rows = sorted(
        tables.rows(
            "robots",
            ["fetched_at", "status", "error", "final_url", "expires", "body"],
            {"origin": [origin_of(url)]},
        ),
        key=lambda r: r["fetched_at"],
    )
    if not rows:
        return None
    newest = rows[-1]
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
    members = sorted(
        r["url"] for r in tables.rows("duplicates", ["url"], {"cluster_id": [own[0]["cluster_id"]]})
    )
    return {k: v for k, v in own[0].items() if k != "cluster_id"} | {"members": members[:100]}


def _why(x: dict[str, Any], now: float) -> list[str]:
    """Sentences, the decisive first, that say why the URL is or is not fetched next."""
    why, s = [], x["schedule"]
    if x["stopped"] is not None:
        why.append(f"an operator has stopped the host: {x['stopped'] or 'no reason given'}")
    elif x["host"].get("blacklisted"):
        why.append(f"the host is not to be fetched: {x['host'].get('reason') or 'no reason given'}")
    if s is None:
        why.append(
            "the crawl does not know it"
            + (f": it is out of scope ({x['scope']['reason']})" if x["scope"]["reason"] else "")
        )
    elif x["scope"]["reason"]:
        why.append(f"today's scope would not let it in ({x['scope']['reason']})")
    if (r := x["robots"]) is not None and r["allowed"] is False:
        why.append(f"robots.txt forbids it: line {r['line_no']} of group {r['group']}: {r['line']}")
    elif r is not None and r["allowed"] is None:
        why.append(
            f"robots.txt could not be read ({r['error'] or r['status']}), so nothing of the host is"
            " fetched"
        )
    if s is not None:
        if s["state"] in ("dead", "refused"):
            why.append(
                f"it is {s['state']}: {s['error_type']} {s['error_detail'] or ''}".rstrip()
                + "; `crawlkit recrawl` wakes it"
            )
        elif s["next_fetch"] is None:
            why.append("it has no next time")
        elif s["next_fetch"] > now:
            why.append(f"it is due at {_time(s['next_fetch'])}")
        else:
            why.append(
                f"it is due since {_time(s['next_fetch'])}"
                + (
                    f"; round {x['claimed_by']} has its bucket"
                    if x["claimed_by"]
                    else "; a next round takes it as its place in the order allows"
                )
            )
        if s["state"] == "retrying":
            why.append(f"its last try failed: {s['error_type']} {s['error_detail'] or ''}".rstrip())
    wait = x["host"].get("next_allowed_at")
    if wait and wait > now:
        why.append(f"its host may be asked again at {_time(wait)} (breaker {x['host']['breaker']})")
    if x["host"]["pages_left"] == 0:
        again = x["host"]["pages_again_at"]
        why.append(
            f"its host has had its pages ({x['host']['quota']})"
            + (f" until {_time(again)}" if again else "")
        )
    last = next((c for c in reversed(x["captures"]) if c["is_outcome"]), None)
    if last is not None:
        why.append(
            f"its last outcome was {last['outcome']}"
            + (f" ({last['reason']})" if last["reason"] else "")
            + f" in round {last['round_id']}"
        )
    if x["commands_waiting"]:
        why.append(f"commands wait for the next round: {', '.join(x['commands_waiting'])}")
    return why


def _time(t: float) -> str:
    return datetime.datetime.fromtimestamp(t, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def explain_text(x: dict[str, Any]) -> str:
    """For a person."""
    if "refused" in x:
        return f"{x['url']}\nrefused: {x['refused']} {x['detail']}"
    out = [x["canonical"], *(f"  {w}" for w in x["why"]), ""]
    out += [f"rewritten: {s['what']}: {s['url']}" for s in x["rewritings"]] or [
        "rewritten: nothing"
    ]
    out.append(f"scope: {'in' if x['scope']['in_scope'] else 'refused by ' + x['scope']['reason']}")
    r = x["robots"]
    out.append(
        "robots.txt: never asked for"
        if r is None
        else f"robots.txt: status {r['status'] or r['error']} of {_time(r['fetched_at'])}, "
        + (
            "unreadable"
            if r["allowed"] is None
            else f"{'allowed' if r['allowed'] else 'forbidden'}"
            + (f" by line {r['line_no']} ({r['line']})" if r["line_no"] else ", no rule matches")
            + f", group {r['group'] or 'none'}"
        )
    )
    out.append(
        "host: "
        + ", ".join(
            f"{k} "
            f"{_time(v) if k in ('next_allowed_at', 'retry_after_until', 'slow_until', 'pages_again_at') else v}"
            for k, v in x["host"].items()
            if v not in (None, [], False)
        )
    )
    if x["schedule"]:
        times = ("first_seen", "last_fetch", "next_fetch")
        out.append(
            "schedule: "
            + ", ".join(
                f"{k} {_time(v) if k in times else v}"
                for k, v in x["schedule"].items()
                if v not in (None, [], "")
            )
        )
    out.append(f"captures: {len(x['captures'])}")
    out += [
        f"  {c['round_id']} {_time(c['started']) if c['started'] else '-'} {c['kind']}"
        f" {c['outcome']} {c['reason'] or ''} {c['status'] or ''} "
        f"{c['warc_filename'] or ''}".rstrip()
        for c in x["captures"][-20:]
    ]
    out += [
        f"rejected: {r['stage']} in {r['round_id']}: {r['reason']} {r['detail'] or ''}"
        for r in x["rejects"][:20]
    ]
    if d := x["duplicates"]:
        out.append(
            f"duplicates: {d['method']} in a cluster of {d['size']}; {d['canonical_url']} stands"
            f" for it; members: {', '.join(d['members'][:5])}"
        )
    return "\n".join(out)
