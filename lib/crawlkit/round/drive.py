"""What the crawl, round and stage verbs do; shared by the command line and jobs/."""

from __future__ import annotations

import contextlib
import datetime
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawlkit.adapters.lake.duckdb_reader import aggregate
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.cli.app import emit, open_job, read_seeds
from crawlkit.config import PLACEHOLDER_INFO_URL, Config, ConfigError, load_config
from crawlkit.control.commands import plain_tables
from crawlkit.round.command_intake import finish_abandoned
from crawlkit.round.job import ROUND, Counts, Job, check_tables, make_job
from crawlkit.round.progress import FetchWatch, Progress
from crawlkit.round.state import Crawl, CrawlError, Place, Round


def crawl_command(
    urls: list[str],
    seeds: str | None,
    data: Place,
    rounds: int,
    sample: Path | None,
    config: Path | None,
    sets: tuple[str, ...],
    now: float,
    as_json: bool,
    fixed_now: bool,
) -> None:
    """`crawlkit crawl`: seeds and rounds. With a fixed `now` every round has that nominal time."""
    started = time.time()
    with contextlib.ExitStack() as stack:
        if sample is not None:
            from crawlkit.local.sample_site import serve

            web = stack.enter_context(serve(sample))
            sets = (*web.config_sets(), *sets)
            urls = urls or list(web.seeds)
        cfg = load_config(config, sets)
        lines = [*urls, *(read_seeds(seeds) if seeds else ())]
        refuse_placeholder(cfg, lines)
        job = open_job(data, None, None, as_json, cfg)
        stack.callback(job.stop)
        stack.callback(job.say.close)
        if lines:
            _ = job.spark  # a Java or JAR that does not work is told before a row is written
        done: list[str] = []
        injected: dict[str, Any] = {}
        for n in range(rounds):
            round_ = next_round(job.crawl, now if fixed_now else time.time())
            with job.driving(round_):
                if n == 0 and lines and job.crawl.mark(round_, "generate") is None:
                    injected = job.run("inject", round_, force=True, lines=lines)
                finished = run_round(job, round_, last=n == rounds - 1)
            if not finished:
                break
            done.append(round_.id)
        if (
            done and not finished
        ):  # it ended early: what the last full round left out is made up for
            for stage in ("rank", "report"):
                job.run(stage, job.crawl.round(done[-1]))
        emit(
            summary(job, done, injected, started, now if fixed_now else time.time()),
            as_json,
            summary_text,
        )


def refuse_placeholder(cfg: Config, lines: list[str]) -> None:
    """The placeholder agent may only speak to loopback.

    Raises ConfigError that names the first other seed.
    """
    from crawlkit.outcomes import Refused
    from crawlkit.rules.url.canonical import host_of
    from crawlkit.rules.url.seeds import parse_seed

    if cfg.agent.info_url != PLACEHOLDER_INFO_URL:
        return
    for line in lines:
        try:
            seed = parse_seed(line)
        except Refused:
            continue
        if seed is not None and not cfg.fetch.is_loopback(host_of(seed.url)):
            raise ConfigError(
                f"agent.info_url is still the placeholder, so {host_of(seed.url)} is not asked: set"
                " it to a page that explains your crawler and how to opt out, for example --set"
                " agent.info_url=https://you.example/bot"
            )


def next_round(
    crawl: Crawl, now: float, round_id: str | None = None, resume: str | None = ""
) -> Round:
    """The round of that name if there is one; else the oldest open round that no living process
    drives; else a new one of that name.

    resume: only open rounds whose names start so are gone on with; None: none.
    """
    from crawlkit.adapters.store.flock import LockHeld

    crawl.repair()
    abandoned = read_orders(crawl.objects).abandoned
    for r in [] if resume is None or round_id in crawl.round_ids() else crawl.open_rounds():
        if not r.id.startswith(resume):
            continue
        try:
            with crawl.driver_lock(r):
                if r.id in abandoned:
                    finish_abandoned(crawl, r, wait=True, driving=True)
                    continue
                return r
        except LockHeld:
            continue
    return crawl.open_round(now, round_id)


def open_command(
    data: Place,
    round_id: str | None,
    resume: str | None,
    config: Path | None,
    sets: tuple[str, ...],
    now: float,
    as_json: bool,
) -> None:
    """`crawlkit open`."""
    crawl = Crawl(data, load_config(config, sets))
    crawl.check()
    check_tables(crawl, plain_tables(crawl))
    round_ = next_round(crawl, now, round_id, resume)
    told = {
        "round_id": round_.id,
        "state": round_.state,
        "resumed": round_id not in (None, round_.id),
    }
    emit(told, as_json, lambda v: f"round {v['round_id']}: {v['state']}")


def run_round(job: Job, round_: Round, last: bool = True) -> bool:
    """All stages of a round that are not done yet, then close it.

    False if nothing was due (the round leaves no trace but its injected rows).

    rank and report look at all rounds so far, so in a run of several rounds they wait for the
    `last`.
    """
    job.say({"event": "round", "round_id": round_.id})
    planned = job.run("generate", round_)
    if not planned.get("planned"):
        job.run("update", round_)  # injected rows reach the base even so
        job.crawl.close(round_)
        return False
    for stage in ROUND[1:]:
        if stage in ("rank", "report") and not last:
            continue
        run_stage(job, stage, round_)
    job.crawl.close(round_)
    return True


def run_stage(job: Job, stage: str, round_: Round, **options: Any) -> Counts:
    """One stage of a round; a fetch (of a region) tells its progress meanwhile."""
    if stage != "fetch":
        return job.run(stage, round_, **options)
    slots = (
        None
        if "region" not in options
        else [
            slot
            for (slot,) in aggregate(
                job.tables,
                "fetchlist",
                "SELECT DISTINCT slot FROM t WHERE region = ?",
                [options["region"]],
                {"round_id": [round_.id]},
            )
        ]
    )
    with FetchWatch(job.crawl.objects, round_.id, job.say, slots):
        return job.run(stage, round_, **options)


def round_command(
    data: Place,
    round_id: str | None,
    config: Path | None,
    sets: tuple[str, ...],
    now: float,
    as_json: bool,
) -> None:
    """`crawlkit round`."""
    with opened(data, config, sets, as_json) as job:
        started = time.time()
        job.crawl.repair()
        round_ = job.crawl.open_round(now, round_id) if round_id else next_round(job.crawl, now)
        done = []
        if round_.state == "open":
            with job.driving(round_):
                done = [round_.id] if run_round(job, round_) else []
        emit(summary(job, done, {}, started, now), as_json, summary_text)


@contextlib.contextmanager
def opened(data: Place, config: Path | None, sets: tuple[str, ...], as_json: bool) -> Iterator[Job]:
    cfg = load_config(config, sets)
    job = make_job(data, cfg, quick=True, say=Progress(as_json))
    try:
        yield job
    finally:
        job.stop()


def stage_command(
    name: str,
    data: Place,
    round_id: str | None,
    config: Path | None,
    sets: tuple[str, ...],
    now: float,
    as_json: bool,
    force: bool,
    seeds: str | None,
    priority: str,
    mode: str,
    region: str | None = None,
) -> None:
    """One stage of the named or newest open round."""
    from crawlkit.rules.frontier.priority import parse_priority

    options: dict[str, Any] = {}
    if name == "inject":
        if seeds is None:
            raise ConfigError("inject needs --seeds FILE (one URL a line; - reads standard input)")
        if mode not in ("keep", "update", "overwrite"):
            raise ConfigError(f"--mode {mode!r}: expected keep, update or overwrite")
        try:
            options = {
                "priority_class": parse_priority(priority),
                "mode": mode,
                "lines": list(read_seeds(seeds)),
            }
        except ValueError as e:
            raise ConfigError(f"--priority: {e}") from None
        force = (
            True  # each call brings its own lines; the round's injected rows are replaced by them
        )
    if region is not None:
        known = load_config(config, sets).fetch.regions
        if name != "fetch" or region not in known:
            raise ConfigError(
                f"--region {region}: "
                + (
                    "only fetch takes it"
                    if name != "fetch"
                    else f"not in fetch.regions ({', '.join(known) or 'there are none'})"
                )
            )
        options["region"] = region
    with opened(data, config, sets, as_json) as job:
        job.crawl.repair()
        rounds = job.crawl.open_rounds()
        if round_id:
            round_ = (
                job.crawl.open_round(now, round_id)
                if name in ("inject", "generate")
                else job.crawl.round(round_id)
            )
        elif name == "inject" or (name == "generate" and not rounds):
            round_ = (
                rounds[-1]
                if rounds and job.crawl.mark(rounds[-1], "generate") is None
                else job.crawl.open_round(now)
            )
        elif rounds:
            round_ = rounds[-1]
        else:
            raise CrawlError(
                f"no round is open in {data}: start one with `crawlkit generate` or `crawlkit"
                " round`"
            )
        with job.driving(round_, region):
            counts = run_stage(job, name, round_, force=force, **options)
            if name == "report":
                job.crawl.close(round_)
        emit(
            {"round_id": round_.id, **counts},
            as_json,
            lambda v: json.dumps(v, indent=1, default=str),
        )


def maintain_command(
    data: Place, config: Path | None, sets: tuple[str, ...], now: float, as_json: bool
) -> None:
    """`crawlkit maintain`."""
    from crawlkit.upkeep.maintain import maintain

    with opened(data, config, sets, as_json) as job:
        emit(maintain(job, now), as_json, lambda v: json.dumps(v, indent=1))


# -- what a crawl says at its end ------------------------------------------------------
def summary(
    job: Job, rounds: list[str], injected: dict[str, Any], started: float, now: float
) -> dict[str, Any]:
    """Rounds run, what is known, what is due next and where everything is."""
    from pyspark.sql import functions as F

    crawldb = job.read("crawldb")
    states = {r.state: r["count"] for r in crawldb.groupBy("state").count().collect()}
    due = (
        crawldb.where("next_fetch IS NOT NULL AND state NOT IN ('dead', 'refused')")
        .agg(
            F.min(F.struct(F.col("next_fetch").cast("double").alias("at"), "url")).alias("next"),
            F.count(F.when(F.col("next_fetch").cast("double") <= now, 1)).alias("due_now"),
        )
        .first()
    )
    out: dict[str, Any] = {
        "rounds": rounds,
        "nothing_due": not rounds,
        "known_urls": sum(states.values()),
        "states": states,
        "due_now": due.due_now,
        "next_due": _iso(due.next.at) if due.next else None,
        "next_url": due.next.url if due.next else None,
        "wall_s": round(time.time() - started, 1),
    }
    if injected:
        out["seeds"] = {k: injected[k] for k in ("added", "duplicates", "refused", "examples")}
    total: dict[str, int] = {}
    for round_id in rounds:
        for outcome, n in (
            (job.crawl.mark(job.crawl.round(round_id), "commit") or {}).get("outcomes", {}).items()
        ):
            total[outcome] = total.get(outcome, 0) + n
    newest = max(map(job.crawl.round, job.crawl.round_ids()), key=lambda r: r.no, default=None)
    out["left_out"] = ((job.crawl.mark(newest, "generate") if newest else None) or {}).get(
        "left_out"
    ) or {}
    reported = (job.crawl.mark(job.crawl.round(rounds[-1]), "report") if rounds else None) or {}
    out |= {
        "outcomes": total,
        "alerts": reported.get("alerts", []),
        "report": f"{job.crawl.report}/index.html",
        "warc": job.crawl.warc_place,
        "tables": job.crawl.tables_root,
    }
    return out


def _iso(t: float) -> str:
    return datetime.datetime.fromtimestamp(t, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def summary_text(s: dict[str, Any]) -> str:
    lines = []
    if "seeds" in s:
        lines.append(
            f"seeds: {s['seeds']['added']} added, {s['seeds']['duplicates']} already known,"
            f" {s['seeds']['refused']} refused"
        )
        lines += [f"  refused: {e}" for e in s["seeds"]["examples"]]
    if s["left_out"]:
        lines.append(
            "due, but left out of the last round:"
            f" {', '.join(f'{n} by {reason}' for reason, n in sorted(s['left_out'].items()))}"
        )
    if s["nothing_due"]:
        lines.append(
            f"nothing due: {s['known_urls']} URLs known; next: {s['next_url'] or 'none'}"
            + (f" at {s['next_due']}" if s["next_due"] else "")
        )
    else:
        lines.append(f"{len(s['rounds'])} round(s) in {s['wall_s']} s: {', '.join(s['rounds'])}")
        width = max((len(k) for k in s["outcomes"]), default=0)
        lines += [
            f"  {k:<{width}}  {v:>8}" for k, v in sorted(s["outcomes"].items(), key=lambda p: -p[1])
        ]
        lines += [
            f"alert: {a['name']} ({a['severity']}): {a['summary']}; {a['metric']} is"
            f" {a['value']:g}, threshold {a['threshold']:g}"
            for a in s["alerts"]
        ]
        lines.append(
            f"known URLs: {s['known_urls']}"
            f" ({', '.join(f'{k} {v}' for k, v in sorted(s['states'].items()))}); due now:"
            f" {s['due_now']}" + ("" if s["due_now"] else f"; next due: {s['next_due'] or 'none'}")
        )
    return "\n".join(
        [*lines, f"report: {s['report']}", f"WARC:   {s['warc']}", f"tables: {s['tables']}"]
    )
