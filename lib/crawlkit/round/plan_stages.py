"""Wiring of the stages that plan and fetch: inject, generate, fetch, commit.

Each function takes (job, round), reads the tables, calls its stage (stages/) and writes under the
commit lock. It returns the stage's counts: rows_in = rows_out + the sum of `rejected`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from crawlkit.adapters.lake.sql_text import in_list
from crawlkit.adapters.net.geo_ip import open_geo_ip
from crawlkit.adapters.store.flock import LockHeld
from crawlkit.adapters.store.free_space import free_bytes
from crawlkit.adapters.store.objects import Objects
from crawlkit.adapters.store.parts import part_keys, read_part
from crawlkit.adapters.store.spool_folder import spool_folder
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.config.whole import Config
from crawlkit.crawl.abandon import has_live_slots
from crawlkit.crawl.open_crawl import OpenCrawl
from crawlkit.crawl.state import CrawlError
from crawlkit.engine.frame import Frame
from crawlkit.model import Round
from crawlkit.round.command_intake import take_commands
from crawlkit.round.counts import Counts, StageError
from crawlkit.rules.frontier import buckets as buckets_rule
from crawlkit.rules.frontier.schedule import next_fetch_sql, with_ordered
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.slot.run import run_slot_in
from crawlkit.stages import (
    commit as commit_stage,
    fetch as fetch_stage,
    fold,
    generate as generate_stage,
    inject as inject_stage,
)

# due URLs that generate left out, by reason: kept beside its list, for a run that dies between
# claim and mark
LEFT_OUT = "left-out"


def read_live_log(job: OpenCrawl, again: int | None = None) -> tuple[Frame, bool]:
    """Rows of crawldb_log that are not in crawldb yet (and those from the number `again` on), and
    whether they are few (stages/fold.py).
    """
    folded = (r["folded_through"] for r in job.tables.rows("buckets", ["folded_through"]))
    through = fold.fold_limit(folded, again)
    newer = None if through is None else ("updated_no", through)
    log = job.tables.read("crawldb_log", above=newer)
    few = job.tables.count("crawldb_log", above=newer) <= fold.FEW_ROWS
    return fold.live_log(log, job.read("buckets"), again), few


def read_renders(job: OpenCrawl) -> Frame | None:
    """hostdb, by which pages that wait to be rendered are due; None: pages are not rendered."""
    return job.read("hostdb") if job.cfg.render.enabled else None


# -- inject ----------------------------------------------------------------------------
def inject(job: OpenCrawl, round_: Round, lines: Iterable[str] = (), **options: Any) -> Counts:
    """Seed lines -> found rows and rejects. options: of `SeedList` (stages/inject.py).

    Raises CrawlError for new lines of a round whose rows have been folded already.
    """
    seeds = inject_stage.SeedList(list(lines), **options)
    part = {"round_id": [round_.id], "writer": [seeds.writer]}
    _refuse_folded(job, round_, part)
    made = inject_stage.inject(seeds, round_, job.cfg)
    known = _count_known(job, round_, seeds.writer, made) if made.found else 0
    with job.crawl.lock:
        if made.found:
            job.tables.replace("crawldb_log", made.found, part)
        if made.rejects:
            rejects = {"round_id": [round_.id], "stage": [seeds.writer]}
            job.tables.replace("rejects", made.rejects, rejects)
    earlier = (job.crawl.mark(round_, "inject") or {}).get("buckets", [])
    return made.summarize(known) | {"buckets": sorted({*made.buckets, *earlier})}


def _refuse_folded(job: OpenCrawl, round_: Round, part: dict[str, list[str]]) -> None:
    """Raises CrawlError if no later fold would see these rows."""
    folded = job.tables.rows("buckets", ["folded_through"])
    is_folded = any((r["folded_through"] or 0) >= round_.no for r in folded)
    if is_folded and not job.tables.count("crawldb_log", part):
        raise CrawlError(
            f"round {round_.id} has updated the frontier already: inject into the next one (without"
            " --round-id)"
        )


def _count_known(job: OpenCrawl, round_: Round, writer: str, made: inject_stage.Injection) -> int:
    """How many of the found rows were known before."""
    if not (job.tables.exists("crawldb") or job.tables.exists("crawldb_log")):
        return 0
    own = f"round_id = '{round_.id}' AND writer = '{writer}'"
    of_others = f"{in_list('host_bucket', made.buckets)} AND NOT ({own})"
    return inject_stage.count_known(
        job.frame("crawldb_log", made.found),
        job.read("crawldb", {"host_bucket": made.buckets}),
        read_live_log(job)[0].where(of_others),
    )


# -- generate --------------------------------------------------------------------------
def generate(
    job: OpenCrawl,
    round_: Round,
    clock_now: float | None = None,
    split: bool = False,
    due: Collection[int] = (),
    beside: str | None = None,
) -> Counts:
    """Buckets -> fetch list, then the claims. An unclaimed list is garbage: a rerun starts anew.

    Args:
        job: the crawl.
        round_: the round.
        clock_now: real time, Unix s.
        split: buckets may be left to a second round; the counts name them as `left_beside`.
        due: buckets that have due URLs, whatever the table of buckets says.
        beside: the round that left them.
    """
    clock_now = time.time() if clock_now is None else clock_now
    with job.crawl.lock:
        if round_.buckets:  # claimed: the list is valid
            return _count_planned(job, round_)
        commanded, urgent = take_commands(job, round_)
        buckets = _choose_buckets(job, round_, [*commanded, *due])
        if not buckets:
            return {"planned": 0, "buckets": 0, "slots": 0}
        orders = _read_orders(job, urgent)
        given = _generate_tables(job, buckets, _taken(job, round_), orders), orders
        split = split and not urgent  # what an operator wants at once is in this round
        with generate_stage.generate(*given, round_, job.cfg, clock_now, split) as plan:
            if plan.fetch_list is None:
                return {"planned": 0, "buckets": 0, "slots": 0, "left_out": plan.left_out}
            job.tables.replace("fetchlist", plan.fetch_list, {"round_id": [round_.id]})
        job.crawl.set_mark(round_, LEFT_OUT, plan.left_out)
        job.crawl.claim(round_, [b for b in (*buckets, *plan.led_to) if b not in plan.beside])
    more = {"left_beside": plan.beside} if plan.beside else {}
    return _count_planned(job, round_) | more | ({"beside": beside} if beside else {})


def _count_planned(job: OpenCrawl, round_: Round) -> Counts:
    listed = job.of_round("fetchlist", round_)
    counts = generate_stage.count_planned(listed, len(round_.buckets))
    return counts | {"left_out": job.crawl.mark(round_, LEFT_OUT)}


def _choose_buckets(job: OpenCrawl, round_: Round, commanded: Iterable[int]) -> list[int]:
    """The most due unclaimed buckets; those that got rows in this round are due."""
    columns = ["host_bucket", *buckets_rule.DUE_COLUMNS]
    injected = (job.crawl.mark(round_, "inject") or {}).get("buckets", [])
    summaries = buckets_rule.add_due(
        job.tables.rows("buckets", columns), {*injected, *commanded}, round_.now
    )
    limit = job.cfg.frontier.buckets_per_round
    return buckets_rule.choose_buckets(summaries, round_.now, limit, _taken(job, round_))


def _taken(job: OpenCrawl, round_: Round) -> set[int]:
    """Buckets that other rounds have claimed."""
    return {b for b, r in job.crawl.claims().items() if r != round_.id}


def _generate_tables(
    job: OpenCrawl, buckets: Sequence[int], taken: set[int], orders: generate_stage.Orders
) -> generate_stage.Tables:
    part = {"host_bucket": buckets}
    due = next_fetch_sql(with_ordered(job.cfg, orders.policies).schedule)
    log, few = read_live_log(job)
    of_buckets = log.where(in_list("host_bucket", buckets))
    return generate_stage.Tables(
        fold.reduce_rows(job.read("crawldb", part), of_buckets, few, due),
        job.read("hostdb", part),
        job.read("host_ranks"),
        job.read("robots"),
        job.read("hostdb").where(f"NOT {in_list('host_bucket', [*buckets, *taken])}"),
        taken,
        lambda rounds: job.read("captures", {"round_id": rounds}),
        job.read("ranks") if job.cfg.frontier.scorer == "product" else None,
        open_geo_ip(job.cfg.fetch),
    )


def _read_orders(job: OpenCrawl, urgent: list[bytes]) -> generate_stage.Orders:
    orders = read_orders(job.crawl.objects)
    return generate_stage.Orders(urgent, list(orders.hosts), list(orders.domains), orders.policies)


# -- fetch -----------------------------------------------------------------------------
def fetch(job: OpenCrawl, round_: Round, region: str | None = None) -> Counts:
    """The fetch list (of a region) -> WARC files and parts.

    Raises ConfigError (the agent is still the placeholder), StageError.
    """
    slots = (job.crawl.mark(round_, "generate") or {}).get("slots", 0)
    if not slots:
        return {"planned": 0}
    listed = job.of_round("fetchlist", round_)
    job.cfg.check_agent(_hosts(listed))
    if region is not None:
        listed = listed.where(f"region = '{region}'")
    _check_room(job)
    run = partial(
        run_slot_in,
        cfg=_for_slots(job.cfg, slots),
        state_root=str(job.crawl.objects.root),
        warc_root=str(job.crawl.warc.root),
        seed=round_.seed,
    )
    return fetch_stage.fetch(listed, slots, run)


def _hosts(listed: Frame) -> Iterator[str]:
    """Read only where they are looked at: with the placeholder agent."""
    yield from (r["host"] for r in listed.select("DISTINCT host").rows())


def _check_room(job: OpenCrawl) -> None:
    """Raises StageError if the disk is nearly full: nothing is asked that cannot be kept."""
    crawl = job.crawl
    spool = spool_folder(job.cfg, crawl.warc_place)
    places = (crawl.objects.root, crawl.warc.root, spool)
    fullest = min(places, key=lambda place: free_bytes([place]))
    free, least = free_bytes([fullest]), job.cfg.storage.min_free_bytes
    if free < least:
        raise StageError(
            f"only {free / 1e6:.0f} MB of space are left on the disk of {fullest}, and a fetch"
            f" leaves {least / 1e6:.0f} MB free: free some and run the same command again, or set"
            " storage.min_free_bytes lower"
        )


def _for_slots(cfg: Config, slots: int) -> Config:
    """The settings of one slot of so many: its share of the round's bytes."""
    most = cfg.round.max_bytes
    if most is None:
        return cfg
    share = cfg.round.model_copy(update={"max_bytes": max(1, most // slots)})
    return cfg.model_copy(update={"round": share})


def settle_regions(job: OpenCrawl, round_: Round) -> None:
    """One mark of fetch for those of the regions; what a region has not fetched is given back.

    Raises LockHeld while one is fetching.
    """
    regions = (job.crawl.mark(round_, "generate") or {}).get("regions", ())
    marks = {r: job.crawl.mark(round_, f"fetch-{r}") for r in regions}
    done = {r: m for r, m in marks.items() if m is not None}
    if not done or job.crawl.mark(round_, "fetch") is not None:
        return
    missing = sorted(set(marks) - set(done))
    if missing and has_live_slots(job.crawl, round_):
        wait_s = job.cfg.lease.ttl_s + job.cfg.lease.margin_s
        raise LockHeld(
            f"region {', '.join(missing)} of round {round_.id} is still fetching, or died a moment"
            f" ago: wait for its end or {wait_s:.0f} s"
        )
    total: Counts = {
        "stage": "fetch",
        "started": min(m["started"] for m in done.values()),
        "ended": max(m["ended"] for m in done.values()),
        "regions": sorted(done),
        "regions_missing": missing,
    }
    for name in {name for m in done.values() for name in m} - {"started", "ended"}:
        values = [m[name] for m in done.values() if isinstance(m.get(name), int | float)]
        if values:
            total[name] = sum(values)
    job.crawl.set_mark(round_, "fetch", total)


# -- commit ----------------------------------------------------------------------------
def read_parts(job: OpenCrawl, round_: Round, hosts_only: bool = False) -> Frame:
    """The records of the round's parts (stages/commit.py), whose list is pinned."""
    objects = job.crawl.objects
    keys = job.crawl.pin(round_, "commit", part_keys(objects, f"parts/{round_.id}/"))

    return commit_stage.read_parts(
        job.engine, keys, partial(_read_records, objects), UrlPolicy.of(job.cfg.urls), hosts_only
    )


def _read_records(objects: Objects, key: str) -> Iterable[tuple[int, int, object]]:
    part = read_part(objects, key)
    return ((part.attempt, part.n, r) for r in part.records)


def commit(job: OpenCrawl, round_: Round) -> Counts:
    """Parts -> captures and robots. Raises StageError, LockHeld."""
    settle_regions(job, round_)
    listed = job.of_round("fetchlist", round_)
    with job.engine.keep(read_parts(job, round_)) as parts:
        rows = commit_stage.commit(listed, parts, round_.id)
        with job.crawl.lock:
            job.tables.replace("captures", rows.captures, {"round_id": [round_.id]})
            job.tables.replace("robots", rows.robots, {"round_id": [round_.id]})
    outcomes = commit_stage.count_outcomes(job.of_round("captures", round_))
    n = job.tables.count("fetchlist", {"round_id": [round_.id]})
    found = sum(outcomes.values())
    if n != found:
        raise StageError(f"commit of round {round_.id}: {n} planned, {found} outcomes")
    return {"rows_in": n, "rows_out": n, "outcomes": outcomes}
