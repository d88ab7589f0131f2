"""The sections of the report page that are more than a plot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from crawlkit.report.html_parts import (
    Html,
    esc,
    host_anchor,
    host_link,
    link,
    section,
    show_bytes,
    table,
    tiles,
)
from crawlkit.report.plots import show_number
from crawlkit.report.queries import Query

MOST_ROUNDS = 40  # in the list of rounds
Report = dict[str, Any]
Queries = dict[str, Query]


def rows_to_draw(name: str, report: Report) -> Sequence[dict[str, Any]]:
    """Rows of a query that is drawn; hosts are links to their rows."""
    rows: list[dict[str, Any]] = report[name]
    if name != "slowest":
        return rows
    known = {r["host"] for r in report["hosts"]}
    return [r | {"href": f"#{host_anchor(r['label'])}"} if r["label"] in known else r for r in rows]


def show_links(report: Report) -> str:
    """Links from the head: parts of the page, files beside it."""
    inside = [("Hosts", "#hosts"), ("Errors", "#errors"), ("Rounds", "#rounds")]
    inside += [("Alerts", "#alerts"), ("Settings", "#settings")]
    files = [("report.json", "report.json"), ("metrics.prom", "metrics.prom")]
    files += [("WARC files", report["warc"])] if report["warc"] else []
    links = "".join(f'<a href="{esc(to)}">{esc(name)}</a>' for name, to in inside + files)
    return f"<nav aria-label=Parts>{links}</nav>"


def show_firing(report: Report) -> str:
    """A line for each alert that fires, before all else."""
    lines = "".join(
        f"<li><b>{esc(a['name'])}</b> ({esc(a['severity'])}): {esc(a['summary'])};"
        f" {esc(a['metric'])} is {_of_metric(a['metric'], a['value'])}"
        for a in report["alerts"]
        if a["state"] == "firing"
    )
    return f"<section class='wide firing'><ul>{lines}</ul></section>" if lines else ""


def show_tiles(report: Report) -> str:
    """The crawl as a whole: counts, bytes, rates over the time of the fetch stages, latency."""
    total = report["totals"][0] if report["totals"] else {}
    seconds = report["fetch_time"][0]["seconds"] if report["fetch_time"] else 0.0
    pages = total.get("pages fetched", 0) + total.get("not modified", 0)
    over = f"over {show_number(round(seconds, 1))} s of fetch stages in all rounds"
    shown = [
        (name, show_bytes(v) if name.endswith("bytes") else show_number(v), _WHY.get(name, ""))
        for name, v in total.items()
    ]
    if seconds:
        body = total.get("body bytes", 0) / seconds
        shown[:0] = [
            ("pages a second", show_number(pages / seconds), over),
            ("body bytes a second", show_bytes(body), over),
        ]
    times = report["percentiles"][0] if report["percentiles"] else {}
    shown += [
        (
            f"{name} of an answer",
            f"{show_number(round(ms))}\u202fms",
            "of all answers with a status",
        )
        for name, ms in times.items()
        if ms is not None
    ]
    rates = f"<p class=note>Rates are {over}.</p>" if seconds else ""
    return f"<section class=wide><div class=tiles>{tiles(shown)}</div>{rates}</section>"


_WHY = {
    "body bytes": "bodies as they were stored, without headers",
    "stored bytes": "compressed records of WARC files",
    "errors": "as `crawlkit errors` counts: failed, HTTP errors and refused answers, without"
    " missing robots.txt files and sitemaps",
    "planned pages": "outcomes of planned pages in all rounds",
    "hosts": "hosts that were asked",
}


def show_freshness(report: Report, queries: Queries) -> str:
    """Each promise with the share of pages that keep it, and the pages that are most late."""
    body = table(
        ("promise", "within h", "pages", "kept %", "late", "worst lag h"),
        (
            (
                *(r["promise"], r["within_s"] / 3600, r["pages"]),
                None if r["kept"] is None else round(100 * r["kept"], 2),
                *(r["late"], round(r["worst_lag_s"] / 3600, 1)),
            )
            for r in report["promises"]
        ),
        texts=(0,),
    )
    late = table(
        ("page", "promise", "age h", "lag h"),
        (
            (
                *(link(r["url"]), r["promise"]),
                *(round(r[name] / 3600, 1) for name in ("age_s", "lag_s")),
            )
            for r in report["late_pages"]
        ),
        texts=(0, 1),
    )
    query = queries["promises"]
    shown = late if report["late_pages"] else "<p class=note>No page is late.</p>"
    return section(query.title, body + shown, True, query.sql)


def show_hosts(report: Report, queries: Queries) -> str:
    """The hosts that have the most; sorted by a click on a column's title."""
    rows = report["hosts"]
    head = ("host", "pages", "errors", "waiting", "delay s", "set by", "robots.txt", "held back")
    body = table(
        (*head, "p50 ms", "p95 ms", "p99 ms"),
        (
            (
                Html(f"<span id={_quoted(host_anchor(r['host']))}>{esc(r['host'])}</span>"),
                *(r["pages"], r["errors"], r["waiting"], r["delay_s"], r["delay_source"]),
                *(r["robots"], r["held"]),
                *(None if r[p] is None else round(r[p]) for p in ("p50", "p95", "p99")),
            )
            for r in rows
        ),
        texts=(0, 5, 6, 7),
        css="sort",
    )
    known = rows[0]["hosts"] if rows else 0
    note = f"{len(rows)} of {show_number(known)} hosts: those with the most pages, errors and"
    note = f"<p class=note>{note} waiting URLs. A click on a title sorts.</p>"
    return section("Hosts", note + body, True, queries["hosts"].sql, "hosts")


def show_errors(report: Report, queries: Queries) -> str:
    """The newest errors with a page that links there."""
    known = {r["host"] for r in report["hosts"]}
    body = table(
        ("URL", "host", "outcome", "reason", "status", "detail", "linked from", "round"),
        (
            (
                *(link(r["url"]), host_link(r["host"], known), r["outcome"], r["reason"]),
                *(Html(esc(r["status"])), _short(r["detail"])),
                *(link(r["referrer"]) if r["referrer"] else "", r["round_id"]),
            )
            for r in report["newest_errors"]
        ),
        texts=(0, 1, 2, 3, 5, 6, 7),
    )
    count = report["totals"][0]["errors"] if report["totals"] else 0
    note = f"<p class=note>{len(report['newest_errors'])} of {show_number(count)}.</p>"
    return section("Newest errors", note + body, True, queries["newest_errors"].sql, "errors")


def show_clusters(report: Report, queries: Queries) -> str:
    """The largest clusters of duplicates with two members each."""
    body = table(
        ("stands for them", "members", "least likeness", "example", "another"),
        (
            (
                *(link(r["canonical_url"]), r["members"], r["least_jaccard"]),
                link(r["example"]) if r["example"] else "",
                link(r["another"]) if r["another"] not in (None, r["example"]) else "",
            )
            for r in report["clusters"]
        ),
        texts=(0, 3, 4),
    )
    query = queries["clusters"]
    return section(query.title, body, True, query.sql)


def show_rounds(report: Report, queries: Queries) -> str:
    """The newest rounds, with links to the pages that compare them (`crawlkit diff`)."""
    by_round: dict[str, list[tuple[str, str]]] = {}
    for before, after, name in report["diffs"]:
        by_round.setdefault(after, []).append((before, name))
    rows = sorted(report["rounds"], key=lambda r: str(r["label"]), reverse=True)
    body = table(
        ("round", "fetched", "redirected", "errors", "compared with"),
        (
            (
                *(r["label"], r["fetched"], r["redirected"], r["errors"]),
                Html(
                    " ".join(
                        f'<a href="{esc(name)}">{esc(before)}</a>'
                        for before, name in by_round.get(r["label"], [])
                    )
                ),
            )
            for r in rows[:MOST_ROUNDS]
        ),
        texts=(0, 4),
        css="sort",
    )
    note = f"{min(len(rows), MOST_ROUNDS)} of {show_number(len(rows))} rounds, the newest first."
    return section("Rounds", f"<p class=note>{note}</p>{body}", True, anchor="rounds")


def show_audit(report: Report, queries: Queries) -> str:
    """The verdict of the audit over this round: violations, and the closest request."""
    told = report["audit"]
    kinds = ("disallowed", "host", "domain", "address")
    body = table(("requests", *kinds), [[told["requests"], *(told[k] for k in kinds)]])
    closest = told["closest"]
    if closest is not None:
        body += (
            f"<p>The least gap against the ordered delay: {closest['gap_s']:.3f}\u202fs where"
            f" {closest['required_s']:.3f}\u202fs were ordered, before {link(closest['url'])}</p>"
        )
    return section("Politeness of this round, by the audit", body, True)


def show_alerts(report: Report, queries: Queries) -> str:
    """The rules with a value, those that fire first; the others behind a click."""
    alerts = report["alerts"]
    unknown = [a for a in alerts if a["state"] in ("no_data", "no_cause", "off")]
    known = [a for a in alerts if a not in unknown]
    firing_first = sorted(known, key=lambda a: a["state"] != "firing")
    more = f"{len(unknown)} rules without a value or a threshold in this round"
    body = (
        f"<p class=note>What each means and what to do: docs/alerts.md.</p>{_alerts(firing_first)}"
        f"<details><summary>{more}</summary>{_alerts(unknown)}</details>"
    )
    return section("Alerts", body, True, anchor="alerts")


def _alerts(alerts: list[dict[str, Any]]) -> str:
    return table(
        ("rule", "state", "severity", "value", "fires", "means"),
        (
            (
                *(a["name"], a["state"], a["severity"], _of_metric(a["metric"], a["value"])),
                f"{a['fires']} {_of_metric(a['metric'], a['threshold'])}",
                a["summary"],
            )
            for a in alerts
        ),
        texts=(0, 1, 2, 4, 5),
    )


def _of_metric(metric: str, value: float | None) -> str:
    """A value of a metric with its unit."""
    if value is not None and "bytes" in metric:
        return show_bytes(value)
    return show_number(value)


def show_stages(report: Report, queries: Queries) -> str:
    """What the stages of this round took; the report's own time is in its stage line."""
    body = table(
        ("stage", "wall s", "CPU s", "rows in", "rows out", "rejected"),
        (
            (s["stage"], s["wall_s"], s["cpu_s"], s["rows_in"], s["rows_out"], s["rejected"])
            for s in report["stages"]
        ),
        texts=(0,),
    )
    return section("Stages of this round", body, True)


def show_settings(report: Report, queries: Queries) -> str:
    """The settings that the round was opened with, and who asks."""
    body = f"<p>Agent: <b>{esc(report['agent'])}</b></p>"
    for name, keys in sorted(report["settings"].items()):
        text = json.dumps(keys, indent=1, ensure_ascii=False, sort_keys=True)
        body += f"<details><summary>{esc(name)}</summary><pre>{esc(text)}</pre></details>"
    note = "<p class=note>As recorded when the round was opened; passwords are left out.</p>"
    return section("Settings in force", body + note, True, anchor="settings")


def _quoted(text: str) -> str:
    return f'"{esc(text)}"'


def _short(text: Any) -> str:
    return str(text or "")[:200]
