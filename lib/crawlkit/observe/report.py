"""The report of a crawl: tables rounds, stages and metrics; report/index.html with SVG plots;
report/report.json, its twin; report/metrics.prom for Prometheus' textfile collector; the alert
rules evaluated.

Every plot is made of one SQL query over the tables, which stands below it.
"""

from __future__ import annotations

import datetime
import html
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawlkit.adapters.lake.delta import quote
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.observe.alerts import evaluate, load_rules, round_values
from crawlkit.observe.audit import audit
from crawlkit.observe.metrics import live_values, prometheus_text
from crawlkit.observe.plots import bars, columns, css, lines
from crawlkit.round.state import Crawl, Round

if TYPE_CHECKING:
    from crawlkit.round.job import Counts, Job

PAGES = "is_outcome AND kind = 'page'"
# name -> (title, plot, SQL); the views are the tables of the same names
QUERIES: dict[str, tuple[str, str, str]] = {
    "totals": (
        "Totals",
        "totals",
        f"""SELECT count_if({PAGES}) AS `planned pages`, count_if({PAGES} AND outcome = 'fetched') AS `pages fetched`, count_if({PAGES} AND outcome = 'not_modified') AS `not modified`,
 count_if(started IS NOT NULL) AS requests, coalesce(sum(body_bytes), 0) AS `bytes stored`, count(DISTINCT CASE WHEN started IS NOT NULL THEN host END) AS hosts,
 count_if(record_type = 'revisit') AS revisits, count_if({PAGES} AND outcome IN ('failed', 'http_error')) AS errors FROM captures""",
    ),
    "status": (
        "Answers by status",
        "bars",
        (
            "SELECT coalesce(cast(status AS string), reason) AS label, count(*) AS value FROM"
            " captures WHERE started IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20"
        ),
    ),
    "rounds": (
        "Pages by round",
        "columns",
        (
            "SELECT round_id AS label, count_if(outcome IN ('fetched', 'not_modified')) AS"
            " fetched, count_if(outcome IN ('failed', 'http_error')) AS errors, count_if(outcome ="
            f" 'redirected') AS redirected FROM captures WHERE {PAGES} GROUP BY 1 ORDER BY 1 DESC"
            " LIMIT 30"
        ),
    ),
    "over_time": (
        "Pages over time",
        "lines",
        (
            "SELECT cast(floor(unix_millis(started) / 1000 / greatest(1, ceil(t.span_s / 120))) *"
            " greatest(1, ceil(t.span_s / 120)) AS bigint) AS x, count(*) AS value FROM captures"
            " CROSS JOIN (SELECT coalesce((unix_millis(max(started)) - unix_millis(min(started)))"
            " / 1000, 1) AS span_s FROM captures WHERE started IS NOT NULL AND round_id ="
            f" {{round}}) t WHERE started IS NOT NULL AND {PAGES} AND round_id = {{round}} GROUP BY"
            " 1 ORDER BY 1"
        ),
    ),
    "latency": (
        "Answer time, ms",
        "columns",
        (
            "SELECT label, count(*) AS answers FROM (SELECT CASE WHEN ms < 10 THEN '0-10' WHEN ms <"
            " 30 THEN '10-30' WHEN ms < 100 THEN '30-100' WHEN ms < 300 THEN '100-300' WHEN ms <"
            " 1000 THEN '300-1k' WHEN ms < 3000 THEN '1k-3k' ELSE '3k+' END AS label, ms FROM"
            " (SELECT unix_millis(ended) - unix_millis(started) AS ms FROM captures WHERE status IS"
            " NOT NULL)) GROUP BY 1 ORDER BY min(ms)"
        ),
    ),
    "hosts": (
        "Hosts with the most pages",
        "bars",
        (
            f"SELECT host AS label, count(*) AS value FROM captures WHERE {PAGES} AND outcome IN"
            " ('fetched', 'not_modified') GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 15"
        ),
    ),
    "slowest": (
        "Slowest hosts, mean ms",
        "bars",
        (
            "SELECT host AS label, cast(avg(unix_millis(ended) - unix_millis(started)) AS bigint)"
            " AS value FROM captures WHERE status IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"
            " LIMIT 10"
        ),
    ),
    "states": (
        "URLs by state",
        "bars",
        "SELECT state AS label, count(*) AS value FROM crawldb GROUP BY 1 ORDER BY 2 DESC, 1",
    ),
    "duplicates": (
        "Duplicates by method",
        "bars",
        "SELECT method AS label, count(*) AS value FROM duplicates GROUP BY 1 ORDER BY 2 DESC, 1",
    ),
    "refusals": (
        "Refused, failed and deferred by reason",
        "bars",
        (
            "SELECT label, sum(n) AS value FROM (SELECT concat(outcome, ': ', reason) AS label, 1"
            " AS n FROM captures WHERE is_outcome AND reason IS NOT NULL UNION ALL SELECT"
            " concat(stage, ': ', reason), 1 FROM rejects) GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20"
        ),
    ),
    "links_refused": (
        "Links that did not enter the frontier",
        "bars",
        (
            "SELECT refused AS label, count(*) AS value FROM links WHERE refused IS NOT NULL GROUP"
            " BY 1 ORDER BY 2 DESC, 1 LIMIT 15"
        ),
    ),
}
# what the alert rules look at; `round_values` (observe/alerts.py) makes shares of it
FIGURES = f"""SELECT c.*, d.copies, f.frontier, f.stored, g.bytes_last_day FROM (SELECT count_if({PAGES} AND outcome IN ('fetched', 'not_modified')) AS pages,
 count_if({PAGES} AND outcome IN ('failed', 'http_error')) AS failed, count_if(status IS NOT NULL) AS answers, count_if(status IN (429, 503)) AS throttled,
 coalesce(avg(CASE WHEN status IS NOT NULL THEN unix_millis(ended) - unix_millis(started) END), 0) AS latency_ms FROM captures WHERE round_id = {{round}}) c
 CROSS JOIN (SELECT count_if(method <> 'canonical') AS copies FROM duplicates) d
 CROSS JOIN (SELECT count_if(state IN ('queued', 'retrying')) AS frontier, count(capture_id) AS stored FROM crawldb) f
 CROSS JOIN (SELECT coalesce(sum(warc_record_length), 0) AS bytes_last_day FROM captures WHERE started > (SELECT max(started) - INTERVAL 1 DAY FROM captures)) g"""
VIEWS = ("captures", "crawldb", "duplicates", "rejects", "links")


def write_report(job: "Job", round_: Round) -> "Counts":
    """Everything that a finished round tells; repeating it writes the same for the same tables."""
    for name in VIEWS:
        job.read(name).createOrReplaceTempView(name)
    data: dict[str, list[dict[str, Any]]] = {}
    for name, (_, _, sql) in QUERIES.items():
        data[name] = [
            r.asDict() for r in job.spark.sql(sql.replace("{round}", quote(round_.id))).collect()
        ]
    rounds, stages = _history(job, round_)
    metrics = _metrics(data, stages, round_) + _round_metrics(job, round_)
    alerts = evaluate(
        load_rules(),
        {m["name"]: m["value"] for m in metrics if m["labels"] == "{}"},
        job.cfg.alerts,
    )
    firing = [a._asdict() for a in alerts if a.state == "firing"]
    with job.crawl.lock:
        job.tables.replace("rounds", rounds)
        job.tables.replace("stages", stages)
        job.tables.replace("metrics", metrics, {"round_id": [round_.id]})
    twin = {
        "crawl": job.cfg.crawl.id,
        "round_id": round_.id,
        "nominal_time": _iso(round_.now),
        **data,
        "alerts": [a._asdict() for a in alerts],
        "stages": [s for s in stages if s["round_id"] == round_.id],
    }
    put_file(job.crawl, "report.json", json.dumps(twin, indent=1, default=str))
    put_file(
        job.crawl,
        "index.html",
        render(
            twin,
            {n: (t, p, s.replace("{round}", quote(round_.id))) for n, (t, p, s) in QUERIES.items()},
        ),
    )
    put_file(
        job.crawl, "metrics.prom", prometheus_text(job.cfg.crawl.id, metrics, alerts, round_.id)
    )
    return {"metrics": len(metrics), "alerts": firing}


def _round_metrics(job: "Job", round_: Round) -> list[dict[str, Any]]:
    """What the fetch stage counted, and the figures of the alert rules."""
    fetched = job.crawl.mark(round_, "fetch") or {}
    figures = job.spark.sql(FIGURES.replace("{round}", quote(round_.id))).first().asDict()
    wall_s = fetched["ended"] - fetched["started"] if "ended" in fetched else None
    values = round_values(figures, fetched, wall_s, job.cfg.alerts.min_answers) | live_values(
        job.crawl, time.time()
    )
    values["round_robots_violations"] = audit(job, round_.id)["disallowed"]
    values |= {
        f"fetch_{k}": v
        for k, v in fetched.items()
        if isinstance(v, int | float) and k not in ("started", "ended", "cpu_s")
    }
    return [
        {"round_id": round_.id, "name": n, "labels": "{}", "value": float(v)}
        for n, v in values.items()
    ]


def put_file(crawl: Crawl, name: str, text: str) -> None:
    """Write a file of the report, in a folder or in S3; it appears whole."""
    if "://" in crawl.report:
        return open_objects(crawl.report, crawl.cfg.s3).put(name, text.encode())
    folder = Path(crawl.report)
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{name}.part"
    part.write_text(text, "utf-8")
    part.replace(folder / name)


def _history(job: "Job", current: Round) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of `rounds` and `stages` from the marks of all rounds."""
    rounds, stages = [], []
    for round_id in job.crawl.round_ids():
        r = job.crawl.round(round_id)
        planned = job.crawl.mark(r, "generate") or {}
        state = "closed" if r.id == current.id and r.state == "open" else r.state
        rounds.append(
            {
                "round_id": r.id,
                "round_no": r.no,
                "state": state,
                "nominal_time": r.now,
                "opened_at": r.opened_at,
                "closed_at": r.closed_at,
                "config_digest": r.config_digest,
                "seed": r.seed,
                "buckets": len(r.buckets),
                "planned": planned.get("planned", 0),
            }
        )
        for stage in ("inject", "generate", "fetch", "commit", "parse", "dedup", "update", "rank"):
            m = job.crawl.mark(r, stage)
            if m is not None:
                counts = {
                    k: v
                    for k, v in m.items()
                    if k
                    not in (
                        "started",
                        "ended",
                        "cpu_s",
                        "stage",
                        "rows_in",
                        "rows_out",
                        "rejected",
                    )
                }
                stages.append(
                    {
                        "round_id": r.id,
                        "stage": stage,
                        "started": m["started"],
                        "ended": m["ended"],
                        "wall_s": m["ended"] - m["started"],
                        "cpu_s": m["cpu_s"],
                        "rows_in": m.get("rows_in"),
                        "rows_out": m.get("rows_out"),
                        "rejected": sum(m.get("rejected", {}).values()),
                        "counts": json.dumps(counts, sort_keys=True),
                    }
                )
    return rounds, stages


def _metrics(
    data: dict[str, list[dict[str, Any]]], stages: list[dict[str, Any]], round_: Round
) -> list[dict[str, Any]]:
    rows = [
        ("crawl_" + k.replace(" ", "_"), {}, v)
        for k, v in (data["totals"][0] if data["totals"] else {}).items()
    ]
    for name, label in (
        ("status", "status"),
        ("states", "state"),
        ("refusals", "reason"),
        ("duplicates", "method"),
    ):
        rows += [(f"crawl_{name}", {label: r["label"]}, r["value"]) for r in data[name]]
    rows += [
        (f"stage_{k}", {"stage": s["stage"]}, s[k])
        for s in stages
        if s["round_id"] == round_.id
        for k in ("wall_s", "cpu_s")
    ]
    rows += [
        ("urls_left_out", {"reason": reason}, n)
        for s in stages
        if (s["round_id"], s["stage"]) == (round_.id, "generate")
        for reason, n in (json.loads(s["counts"]).get("left_out") or {}).items()
    ]
    return [
        {"round_id": round_.id, "name": n, "labels": json.dumps(labels), "value": float(v or 0)}
        for n, labels, v in rows
    ]


def _iso(t: float) -> str:
    return datetime.datetime.fromtimestamp(t, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def render(twin: dict[str, Any], queries: dict[str, tuple[str, str, str]]) -> str:
    """The self-contained HTML page of a report."""
    out = [
        (
            "<!DOCTYPE html><html lang=en><meta charset=utf-8><meta name=viewport"
            " content='width=device-width,initial-scale=1'><title>Crawl report:"
            f" {html.escape(twin['crawl'])}</title><style>{css()}</style>"
        ),
        (
            f"<header><h1>Crawl report</h1><p>Crawl <b>{html.escape(twin['crawl'])}</b>, after"
            f" round <b>{html.escape(twin['round_id'])}</b> at"
            f" {twin['nominal_time']}</p></header><main>"
        ),
    ]
    totals = twin["totals"][0] if twin["totals"] else {}
    out.append(
        "<section class=tiles>"
        + "".join(
            "<div"
            f" title='{html.escape(str(v))}'><b>"
            f"{_bytes(v) if k.startswith('bytes') else _number(v)}</b><span>{html.escape(k)}"
            f"</span></div>"
            for k, v in totals.items()
        )
        + "</section>"
    )
    for name, (title, plot, sql) in queries.items():
        if plot == "totals":
            continue
        rows = twin[name]
        picture = (
            "<p class=none>none</p>"
            if not rows
            else {"bars": bars, "columns": columns, "lines": lines}[plot](rows, title)
        )
        out.append(
            f"<section><h2>{html.escape(title)}</h2><div"
            f" class=scroll>{picture}</div><details><summary>SQL</summary><pre>"
            f"{html.escape(sql)}</pre></details></section>"
        )
    stage_rows = "".join(
        f"<tr><td>{s['stage']}<td>{s['wall_s']:.1f}<td>{s['cpu_s']:.1f}<td>"
        f"{'' if s['rows_in'] is None else s['rows_in']}<td>"
        f"{'' if s['rows_out'] is None else s['rows_out']}<td>{s['rejected']}"
        for s in twin["stages"]
    )
    known = [a for a in twin["alerts"] if a["state"] != "no_data"]
    out.append(
        "<section"
        f" class=wide><h2>Alerts</h2>{_alerts(sorted(known, key=lambda a: a['state'] != 'firing'))}"
        f"<details><summary>{len(twin['alerts']) - len(known)} rules without a value in this"
        f" round</summary>{_alerts([a for a in twin['alerts'] if a not in known])}</details>"
        f"</section>"
    )
    out.append(
        "<section class=wide><h2>Stages of this round</h2><div"
        " class=scroll><table><tr><th>stage<th>wall s<th>CPU s<th>rows"
        f" in<th>out<th>rejected</tr>{stage_rows}</table></div></section></main></html>"
    )
    return "\n".join(out)


def _alerts(alerts: list[dict[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td>{a['name']}<td class=text>{a['state']}<td"
        f" class=text>{a['severity']}<td>{_short(a['value'])}<td class=text>{a['fires']}"
        f" {_short(a['threshold'])}<td class=text>{html.escape(a['summary'])}"
        for a in alerts
    )
    return (
        "<div class=scroll><table><tr><th>rule<th class=text>state<th"
        " class=text>severity<th>value<th class=text>fires<th"
        f" class=text>means</tr>{rows}</table></div>"
        if alerts
        else "<p class=none>none</p>"
    )


def _bytes(v: int) -> str:
    size, units = float(v), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.{0 if units[0] == 'B' else 1}f}\u202f{units[0]}"


def _number(v: Any) -> str:
    return f"{v:,}".replace(",", "\u202f") if isinstance(v, int) else html.escape(str(v))


def _short(v: float | None) -> str:
    return "" if v is None else f"{v:g}"
