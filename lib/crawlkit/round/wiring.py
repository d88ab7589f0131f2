"""The stages of a round wired to a crawl: each reads its tables, calls its stage, and writes.

Each function takes (job, round) and returns the stage's counts: rows_in = rows_out + the sum of
`rejected`. All writes happen under the commit lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from crawlkit.adapters.lake.parquet import add_action
from crawlkit.adapters.lake.sql_text import in_list, quote
from crawlkit.adapters.store.flock import LockHeld
from crawlkit.adapters.store.parts import part_keys, read_part
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.adapters.warc.record_store import RecordReader
from crawlkit.crawl.abandon import has_live_slots
from crawlkit.crawl.open_crawl import OpenCrawl
from crawlkit.crawl.state import CrawlError
from crawlkit.model import Round
from crawlkit.round.command_intake import take_commands
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.slot.run import run_slot_in
from crawlkit.stages import (
    cluster,
    compare,
    fold,
    host_rows,
)
from crawlkit.stages import (
    commit as commit_stage,
)
from crawlkit.stages import (
    dedup as dedup_stage,
)
from crawlkit.stages import (
    fetch as fetch_stage,
)
from crawlkit.stages import (
    generate as generate_stage,
)
from crawlkit.stages import (
    inject as inject_stage,
)
from crawlkit.stages import (
    parse as parse_stage,
)
from crawlkit.stages import (
    rank as rank_stage,
)
from crawlkit.stages import (
    update as update_stage,
)
from crawlkit.tables import TABLES

Counts = dict[str, Any]
# due URLs that generate left out, by reason: kept beside its list, for a run that dies between
# claim and mark
LEFT_OUT = "left-out"


class StageError(RuntimeError):
    """A stage failed; the tables are as they were before it."""

    exit_code = 1


def read_live_log(job: OpenCrawl, again: int | None = None) -> tuple[DataFrame, bool]:
    """Rows of crawldb_log that are not in crawldb yet (and those from the number `again` on), and
    whether they are few (stages/fold.py).
    """
    folded = (r["folded_through"] for r in job.tables.rows("buckets", ["folded_through"]))
    through = fold.folded_by_all(folded, again)
    newer = None if through is None else ("updated_no", through)
    log = job.tables.read("crawldb_log", above=newer)
    few = job.tables.count("crawldb_log", above=newer) <= fold.FEW_ROWS
    return fold.live_log(log, job.read("buckets"), again), few


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
    own = f"round_id = {quote(round_.id)} AND writer = {quote(writer)}"
    of_others = f"{in_list('host_bucket', made.buckets)} AND NOT ({own})"
    return inject_stage.count_known(
        job.frame("crawldb_log", made.found),
        job.read("crawldb", {"host_bucket": made.buckets}),
        read_live_log(job)[0].where(of_others),
    )


# -- generate --------------------------------------------------------------------------
def generate(job: OpenCrawl, round_: Round, clock_now: float | None = None) -> Counts:
    """Buckets -> fetch list, then the claims. An unclaimed list is garbage: a rerun starts anew."""
    clock_now = time.time() if clock_now is None else clock_now
    with job.crawl.lock:
        if round_.buckets:  # claimed: the list stands
            return _count_planned(job, round_)
        commanded, urgent = take_commands(job, round_)
        buckets = _choose_buckets(job, round_, commanded)
        if not buckets:
            return {"planned": 0, "buckets": 0, "slots": 0}
        given = _generate_tables(job, buckets), _read_orders(job, urgent)
        with generate_stage.generate(*given, round_, job.cfg, clock_now) as plan:
            if plan.fetch_list is None:
                return {"planned": 0, "buckets": 0, "slots": 0, "left_out": plan.left_out}
            job.tables.replace("fetchlist", plan.fetch_list, {"round_id": [round_.id]})
        job.crawl.set_mark(round_, LEFT_OUT, plan.left_out)
        job.crawl.claim(round_, buckets)
    return _count_planned(job, round_)


def _count_planned(job: OpenCrawl, round_: Round) -> Counts:
    listed = job.of_round("fetchlist", round_)
    counts = generate_stage.count_planned(listed, len(round_.buckets))
    return counts | {"left_out": job.crawl.mark(round_, LEFT_OUT)}


def _choose_buckets(job: OpenCrawl, round_: Round, commanded: Iterable[int]) -> list[int]:
    """The most due unclaimed buckets; those that got rows in this round are due."""
    columns = ["host_bucket", *generate_stage.DUE_COLUMNS]
    injected = (job.crawl.mark(round_, "inject") or {}).get("buckets", [])
    summaries = generate_stage.add_due(
        job.tables.rows("buckets", columns), {*injected, *commanded}, round_.now
    )
    taken = {b for b, r in job.crawl.claims().items() if r != round_.id}
    limit = job.cfg.frontier.buckets_per_round
    return generate_stage.choose_buckets(summaries, round_.now, limit, taken)


def _generate_tables(job: OpenCrawl, buckets: Sequence[int]) -> generate_stage.Tables:
    part = {"host_bucket": buckets}
    log, few = read_live_log(job)
    of_buckets = log.where(in_list("host_bucket", buckets))
    return generate_stage.Tables(
        fold.reduce_rows(job.read("crawldb", part), of_buckets, few),
        job.read("hostdb", part),
        job.read("host_ranks"),
        job.read("robots"),
    )


def _read_orders(job: OpenCrawl, urgent: list[bytes]) -> generate_stage.Orders:
    orders = read_orders(job.crawl.objects)
    return generate_stage.Orders(urgent, list(orders.hosts), list(orders.domains), orders.policies)


# -- fetch -----------------------------------------------------------------------------
def fetch(job: OpenCrawl, round_: Round, region: str | None = None) -> Counts:
    """The fetch list (of a region) -> WARC files and parts."""
    slots = (job.crawl.mark(round_, "generate") or {}).get("slots", 0)
    if not slots:
        return {"planned": 0}
    listed = job.of_round("fetchlist", round_)
    if region is not None:
        listed = listed.where(f"region = {quote(region)}")
    run = partial(
        run_slot_in,
        cfg=job.cfg,
        state_root=str(job.crawl.objects.root),
        warc_root=str(job.crawl.warc.root),
        seed=round_.seed,
    )
    return fetch_stage.fetch(listed, slots, run)


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
def read_parts(job: OpenCrawl, round_: Round, hosts_only: bool = False) -> DataFrame:
    """The records of the round's parts (stages/commit.py), whose list is pinned."""
    objects = job.crawl.objects
    keys = job.crawl.pin(round_, "commit", part_keys(objects, f"parts/{round_.id}/"))

    def read(key: str) -> Iterable[tuple[int, int, object]]:
        part = read_part(objects, key)
        return ((part.attempt, part.n, r) for r in part.records)

    policy = UrlPolicy.of(job.cfg.urls)
    return commit_stage.read_parts(job.spark, keys, read, policy, hosts_only)


def commit(job: OpenCrawl, round_: Round) -> Counts:
    """Parts -> captures and robots. Raises StageError, LockHeld."""
    settle_regions(job, round_)
    listed = job.of_round("fetchlist", round_)
    parts = read_parts(job, round_).persist()
    try:
        rows = commit_stage.commit(listed, parts, round_.id)
        with job.crawl.lock:
            job.tables.replace("captures", rows.captures, {"round_id": [round_.id]})
            job.tables.replace("robots", rows.robots, {"round_id": [round_.id]})
    finally:
        parts.unpersist()
    outcomes = commit_stage.count_outcomes(job.of_round("captures", round_))
    n, found = listed.count(), sum(outcomes.values())
    if n != found:
        raise StageError(f"commit of round {round_.id}: {n} planned, {found} outcomes")
    return {"rows_in": n, "rows_out": n, "outcomes": outcomes}


# -- parse -----------------------------------------------------------------------------
def parse(job: OpenCrawl, round_: Round) -> Counts:
    """WARC records -> pages, links, found rows, rejects."""
    writers = {name: job.tables.writer(name) for name in ("pages", "links", "rejects")}
    read = RecordReader(job.crawl.warc)
    rows = parse_stage.parse(
        _items(job, round_), read, job.cfg, round_.now, writers, round_.id
    ).persist()
    try:
        reported = rows.where("found IS NULL").select("added", "counted").collect()
        files: dict[str, list[Any]] = {name: [] for name in writers}
        for r in reported:
            if r.added:
                files[r.added.table].append(add_action(r.added.asDict()))
        _commit_parsed(job, round_, rows.where("found IS NOT NULL").select("found.*"), files)
    finally:
        rows.unpersist()
    return parse_stage.count_parsed(r.counted for r in reported if r.counted)


def _items(job: OpenCrawl, round_: Round) -> DataFrame:
    sitemaps = (job.crawl.mark(round_, "generate") or {}).get("sitemaps", 0)
    vouching = parse_stage.vouching_origins(job.read("robots")) if sitemaps else None
    captures, listed = job.of_round("captures", round_), job.of_round("fetchlist", round_)
    return parse_stage.to_parse(captures, listed, job.read("host_ranks"), vouching)


def _commit_parsed(
    job: OpenCrawl, round_: Round, found: DataFrame, files: dict[str, list[Any]]
) -> None:
    """Commit the tables of parse, with the sitemaps that the round's robots.txt files name."""
    part = {"round_id": [round_.id]}
    log, rejects = part | {"writer": ["parse"]}, part | {"stage": ["parse"]}
    if job.cfg.frontier.sitemaps and job.tables.count("robots", part):
        robots, listed = job.of_round("robots", round_), job.of_round("fetchlist", round_)
        named = parse_stage.parse_robots_sitemaps(robots, listed, job.cfg, round_.now)
        found = found.unionByName(parse_stage.found_in(named))
        refused = parse_stage.rejects_of(named, round_.id)
        files["rejects"] += job.tables.write("rejects", refused, rejects)
    rows = parse_stage.found_of(found, round_.id, round_.no, round_.now)
    with job.crawl.lock:
        job.tables.commit("pages", files["pages"], part)
        job.tables.commit("links", files["links"], part)
        job.tables.replace("crawldb_log", rows, log)
        job.tables.commit("rejects", files["rejects"], rejects)


# -- dedup -----------------------------------------------------------------------------
def dedup(job: OpenCrawl, round_: Round) -> Counts:
    """The round's pages against everything known -> contents, sim_bands, similar, duplicates."""
    columns = ("url_key", "url", "capture_id", "text_sha256", "simhash", "minhash")
    pages = job.of_round("pages", round_).select(*columns).persist()
    blocks_cut = 0
    try:
        n, texts = pages.count(), pages.where("text_sha256 IS NOT NULL").count()
        if n:
            with job.crawl.lock:
                _write_bands(job, round_, pages)
                blocks_cut = _write_similar(job, round_)
                write_clusters(job)
    finally:
        pages.unpersist()
    members = cluster.count_members(job.read("duplicates"))
    return {"rows_in": n, "rows_out": n, "texts": texts, **members, "blocks_cut": blocks_cut}


def _write_bands(job: OpenCrawl, round_: Round, pages: DataFrame) -> None:
    part = {"round_id": [round_.id]}
    job.tables.replace("contents", dedup_stage.contents_of(pages, round_.id, round_.no), part)
    known = job.read("sim_bands").where(f"round_id <> {quote(round_.id)}")
    writer = job.tables.writer("sim_bands")
    bands = dedup_stage.new_bands(pages, known, job.cfg.dedup, round_.id, writer)
    job.tables.commit("sim_bands", job.tables.files(bands), part)


def _write_similar(job: OpenCrawl, round_: Round) -> int:
    """Candidate pairs of the round's texts, verified; how many blocks were cut."""
    known = job.read("sim_bands").where(f"round_id <> {quote(round_.id)}")
    pairs, blocks_cut = compare.find_pairs(job.of_round("sim_bands", round_), known, job.cfg.dedup)
    rounds = sorted({r for side in ("a_round", "b_round") for r in pairs[side].to_pylist()})
    files = []
    if rounds:
        texts = job.read("pages", {"round_id": rounds}).select("capture_id", "text", "text_bytes")
        writer = job.tables.writer("similar")
        verified = compare.verify(job.spark, pairs, texts, job.cfg.dedup, round_.id, writer)
        files = job.tables.files(verified)
    job.tables.commit("similar", files, {"round_id": [round_.id]})
    return blocks_cut


def write_clusters(job: OpenCrawl) -> None:
    """Write `duplicates` anew from contents and similar."""
    with job.compiled(job.tables.count("similar")):
        rows = cluster.cluster(
            job.spark, job.read("contents"), job.read("similar"), job.read("ranks")
        )
        job.tables.replace("duplicates", rows)


# -- update ----------------------------------------------------------------------------
def update(job: OpenCrawl, round_: Round, clock_now: float | None = None) -> Counts:
    """State rows, hostdb, the fold into crawldb, buckets."""
    clock_now = job.crawl.pin(round_, "update", time.time() if clock_now is None else clock_now)
    states = commit_stage.host_states(read_parts(job, round_, hosts_only=True)).persist()
    with job.crawl.lock:
        if round_.buckets:
            _write_states(job, round_, states, clock_now)
        known, folded = _fold(job, round_)
    states.unpersist()
    outcomes = (job.crawl.mark(round_, "commit") or {}).get("outcomes", {})
    return {
        "known": known,
        "not_deferred": sum(n for o, n in outcomes.items() if not o.startswith("deferred")),
        "folded_buckets": folded,
    }


def _write_states(job: OpenCrawl, round_: Round, states: DataFrame, clock_now: float) -> None:
    listed, captures = job.of_round("fetchlist", round_), job.of_round("captures", round_)
    pages = job.of_round("pages", round_)
    rows = update_stage.update(listed, captures, pages, states, round_, job.cfg)
    job.tables.replace("crawldb_log", rows, {"round_id": [round_.id], "writer": ["update"]})
    part = {"host_bucket": round_.buckets}
    hosts = host_rows.host_rows(
        job.read("hostdb", part), listed, captures, states, round_, clock_now, job.cfg
    )
    job.tables.replace("hostdb", hosts, part)


def _fold(job: OpenCrawl, round_: Round) -> tuple[int, int]:
    """Fold the log into crawldb; known URLs and the number of folded buckets."""
    through = fold.all_in(round_.no, (r.no for r in job.crawl.open_rounds() if r.id != round_.id))
    # a parse run again after the fold may have found more
    live, few = read_live_log(job, again=round_.no)
    columns = TABLES["buckets"].column_names
    known = {r["host_bucket"]: r for r in job.tables.rows("buckets", columns)}
    waiting = [r.asDict() for r in fold.log_summary(live).collect()]
    sizes = job.tables.bytes("crawldb"), job.tables.bytes("crawldb_log")
    buckets = fold.choose_fold(waiting, *sizes)
    if buckets:
        part = {"host_bucket": buckets}
        log = live.where(in_list("host_bucket", buckets))
        job.tables.replace("crawldb", fold.reduce_rows(job.read("crawldb", part), log, few), part)
        summary = fold.bucket_summary(job.read("crawldb", part), through).collect()
        folded = {r.host_bucket: r.asDict() for r in summary}
        rest = [r for r in waiting if r["host_bucket"] not in folded]
        known = fold.merge_summaries(known, folded, rest, through, again=round_.no)
        job.tables.replace("buckets", list(known.values()))
    return sum(r["rows"] for r in known.values()), len(buckets)


# -- rank ------------------------------------------------------------------------------
def rank(job: OpenCrawl, round_: Round) -> Counts:
    """In-links, host quality, proposed parameter rules."""
    links = job.read("links")
    with job.crawl.lock, job.compiled(job.tables.count("links")):
        job.tables.replace("ranks", rank_stage.page_ranks(links, round_.no))
        hosts = rank_stage.host_ranks(
            links,
            job.read("captures"),
            job.read("duplicates"),
            job.read("hostdb"),
            job.read("domain_authority"),
            round_.no,
        )
        job.tables.replace("host_ranks", hosts)
        job.tables.replace("param_rules", rank_stage.param_rules(job.read("pages"), round_.no))
    return {"param_rules": job.tables.count("param_rules")}
