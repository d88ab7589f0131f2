"""Wiring of the stages that read what was fetched: parse, dedup, update, rank.

As in plan_stages.py: read the tables, call the stage, write under the commit lock.
"""

from __future__ import annotations

import time
from typing import Any

from crawlkit.adapters.lake.parquet import add_action
from crawlkit.adapters.lake.sql_text import in_list
from crawlkit.adapters.net.geo_ip import open_geo_ip
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.adapters.warc.record_store import RecordReader
from crawlkit.config.whole import Config
from crawlkit.crawl.open_crawl import OpenCrawl
from crawlkit.engine.frame import Frame
from crawlkit.model import Round
from crawlkit.round.counts import Counts
from crawlkit.round.plan_stages import read_live_log, read_parts, read_renders
from crawlkit.rules.frontier.schedule import next_fetch_sql, with_ordered
from crawlkit.stages import (
    cluster,
    commit as commit_stage,
    compare,
    dedup as dedup_stage,
    fold,
    host_rows,
    parse as parse_stage,
    rank as rank_stage,
    update as update_stage,
)
from crawlkit.tables import TABLES


# -- parse -----------------------------------------------------------------------------
def parse(job: OpenCrawl, round_: Round) -> Counts:
    """WARC records -> pages, links, found rows, rejects."""
    writers = {name: job.tables.writer(name) for name in ("pages", "links", "rejects")}
    read = RecordReader(job.crawl.warc)
    made = parse_stage.parse(
        items_to_parse(job, round_), read, job.cfg, round_.now, writers, round_.id
    )
    with job.engine.keep(made) as rows:
        reported = rows.where("found IS NULL").select("added", "counted").rows()
        files: dict[str, list[Any]] = {name: [] for name in writers}
        for r in reported:
            if r["added"]:
                files[r["added"]["table"]].append(add_action(r["added"]))
        found = rows.where("found IS NOT NULL").select("found.*")
        _commit_parsed(job, round_, found, files)
    return parse_stage.count_parsed(r["counted"] for r in reported if r["counted"])


def items_to_parse(job: OpenCrawl, round_: Round) -> Frame:
    """The round's captures with something to read (ITEM_COLUMNS of stages/parse.py)."""
    sitemaps = (job.crawl.mark(round_, "generate") or {}).get("sitemaps", 0)
    vouching = parse_stage.vouching_origins(job.read("robots")) if sitemaps else None
    captures, listed = job.of_round("captures", round_), job.of_round("fetchlist", round_)
    agent, enforce = job.cfg.agent.name, job.cfg.parse.enforce_opt_outs
    reserving = (
        parse_stage.reserving_origins(job.read("robots"), captures, agent) if enforce else None
    )
    return parse_stage.to_parse(captures, listed, job.read("host_ranks"), vouching, reserving)


def _commit_parsed(
    job: OpenCrawl, round_: Round, found: Frame, files: dict[str, list[Any]]
) -> None:
    """Commit the tables of parse, with the sitemaps that the round's robots.txt files name."""
    part = {"round_id": [round_.id]}
    log, rejects = part | {"writer": ["parse"]}, part | {"stage": ["parse"]}
    if job.cfg.frontier.sitemaps and job.tables.count("robots", part):
        robots, listed = job.of_round("robots", round_), job.of_round("fetchlist", round_)
        named = parse_stage.parse_robots_sitemaps(robots, listed, job.cfg, round_.now)
        found = found.union(parse_stage.explode_found(named))
        refused = parse_stage.rejects_of(named, round_.id)
        files["rejects"] += job.tables.write("rejects", refused, rejects)
    hostdb = job.read("hostdb")
    rows = parse_stage.keep_found(found, hostdb, round_.id, round_.no, round_.now)
    with job.crawl.lock:
        job.tables.commit("pages", files["pages"], part)
        job.tables.commit("links", files["links"], part)
        job.tables.replace("crawldb_log", rows, log)
        job.tables.commit("rejects", files["rejects"], rejects)
        given = job.of_round("pages", round_), job.of_round("robots", round_)
        job.tables.replace("signals", parse_stage.signal_rows(*given, round_.id), part)


# -- dedup -----------------------------------------------------------------------------
_COMPARED = "url_key url capture_id text_sha256 simhash minhash canonical flags".split()


def dedup(job: OpenCrawl, round_: Round) -> Counts:
    """The round's pages against everything known -> contents, sim_bands, similar, duplicates."""
    blocks_cut = 0
    with job.engine.keep(job.of_round("pages", round_).select(*_COMPARED)) as pages:
        counted = pages.select("count(*) AS n", "count(text_sha256) AS texts").rows()[0]
        n, texts = counted["n"], counted["texts"]
        captures = job.of_round("captures", round_).where(dedup_stage.REDIRECTS)
        redirects = captures.count()
        if n or redirects:
            with job.crawl.lock:
                blocks_cut = _compare(job, round_, pages, captures)
                write_clusters(job, round_)
    members = cluster.count_members(job.read("duplicates"))
    n += redirects
    return {"rows_in": n, "rows_out": n, "texts": texts, **members, "blocks_cut": blocks_cut}


def compare_again(job: OpenCrawl, round_: Round) -> None:
    """The round's pages against everything known, once more; `write_clusters` is to follow."""
    pages = job.of_round("pages", round_).select(*_COMPARED)
    captures = job.of_round("captures", round_).where(dedup_stage.REDIRECTS)
    with job.engine.keep(pages) as kept, job.crawl.lock:
        _compare(job, round_, kept, captures)


def _compare(job: OpenCrawl, round_: Round, pages: Frame, captures: Frame) -> int:
    """Write contents, sim_bands and similar of a round; how many blocks were cut."""
    _write_bands(job, round_, pages, captures)
    return _write_similar(job, round_)


def _write_bands(job: OpenCrawl, round_: Round, pages: Frame, captures: Frame) -> None:
    part = {"round_id": [round_.id]}
    job.tables.replace("contents", dedup_stage.contents_of(pages, captures, round_), part)
    known = job.read("sim_bands").where(f"round_id <> '{round_.id}'")
    writer = job.tables.writer("sim_bands")
    bands = dedup_stage.new_bands(pages, known, job.cfg.dedup, round_.id, writer)
    job.tables.commit("sim_bands", job.tables.files(bands), part)


def _write_similar(job: OpenCrawl, round_: Round) -> int:
    """Candidate pairs of the round's texts, verified; how many blocks were cut."""
    known = job.read("sim_bands").where(f"round_id <> '{round_.id}'")
    pairs, blocks_cut = compare.find_pairs(job.of_round("sim_bands", round_), known, job.cfg.dedup)
    rounds = sorted({r for side in ("a_round", "b_round") for r in pairs[side].to_pylist()})
    files = []
    writer = job.tables.writer("similar")
    if rounds:
        texts = job.read("pages", {"round_id": rounds}).select("capture_id", "text", "text_bytes")
        verified = compare.verify(pairs, texts, job.cfg.dedup, round_.id, writer)
        files = job.tables.files(verified)
    hints = cluster.new_canonical_links(job.read("contents"), job.read("similar"), round_.id)
    if hints.num_rows:
        rounds = sorted({r for side in ("a_round", "b_round") for r in hints[side].to_pylist()})
        texts = job.read("pages", {"round_id": rounds}).select("capture_id", "text")
        files += job.tables.files(compare.disbelieve(hints, texts, round_.id, writer))
    job.tables.commit("similar", files, {"round_id": [round_.id]})
    return blocks_cut


def write_clusters(job: OpenCrawl, round_: Round) -> None:
    """Write `duplicates` anew from contents and similar; URLs that became another's duplicate, or
    are none any more, get rows of the log.
    """
    part = {"round_id": [round_.id], "writer": ["dedup"]}
    with job.compiled(job.tables.count("similar")):
        rows = cluster.cluster(job.read("contents"), job.read("similar"), job.read("ranks"))
        with job.engine.keep(rows) as new:
            before = job.read("duplicates"), job.read("crawldb_log", part)
            flags = dedup_stage.flag_rows(*before, new, round_, job.cfg.frontier.buckets)
            job.tables.replace("crawldb_log", flags, part)
            job.tables.replace("duplicates", new)


# -- update ----------------------------------------------------------------------------
def update(job: OpenCrawl, round_: Round, clock_now: float | None = None) -> Counts:
    """State rows, hostdb, the fold into crawldb, buckets."""
    clock_now = job.crawl.pin(round_, "update", time.time() if clock_now is None else clock_now)
    with job.crawl.lock:
        if round_.buckets:
            parts = read_parts(job, round_, hosts_only=True)
            with job.engine.keep(commit_stage.host_states(parts)) as states:
                _write_states(job, round_, states, clock_now)
        known, folded = _fold(job, round_)
    outcomes = (job.crawl.mark(round_, "commit") or {}).get("outcomes", {})
    return {
        "known": known,
        "not_deferred": sum(n for o, n in outcomes.items() if not o.startswith("deferred")),
        "folded_buckets": folded,
    }


def _write_states(job: OpenCrawl, round_: Round, states: Frame, clock_now: float) -> None:
    listed, captures = job.of_round("fetchlist", round_), job.of_round("captures", round_)
    pages = job.of_round("pages", round_)
    part = {"host_bucket": round_.buckets}
    hostdb = job.read("hostdb", part)
    given = (pages, states, job.read("duplicates"), hostdb)
    rows = update_stage.update(listed, captures, *given, round_, ordered_settings(job))
    job.tables.replace("crawldb_log", rows, {"round_id": [round_.id], "writer": ["update"]})
    new = job.read("crawldb_log", {"round_id": [round_.id], "writer": ["update"]})
    of_round = host_rows.OfRound(listed, captures, states, new, pages, job.read("host_ranks"))
    places_of = open_geo_ip(job.cfg.fetch)
    hosts = host_rows.host_rows(hostdb, of_round, round_, clock_now, job.cfg, places_of)
    job.tables.replace("hostdb", hosts, part)


def ordered_settings(job: OpenCrawl) -> Config:
    """The settings with what operators ordered of single hosts."""
    return with_ordered(job.cfg, read_orders(job.crawl.objects).policies)


def _fold(job: OpenCrawl, round_: Round) -> tuple[int, int]:
    """Fold the log into crawldb; known URLs and the number of folded buckets."""
    through = fold.all_in(round_.no, (r.no for r in job.crawl.open_rounds() if r.id != round_.id))
    # a parse run again after the fold may have found more
    live, few = read_live_log(job, again=round_.no)
    columns = TABLES["buckets"].column_names
    known = {r["host_bucket"]: r for r in job.tables.rows("buckets", columns)}
    renders = read_renders(job)
    waiting = fold.log_summary(live, renders)
    sizes = job.tables.bytes("crawldb"), job.tables.bytes("crawldb_log")
    buckets = fold.choose_fold(waiting, *sizes)
    if buckets:
        part = {"host_bucket": buckets}
        log = live.where(in_list("host_bucket", buckets))
        due = next_fetch_sql(ordered_settings(job).schedule)
        rows = fold.reduce_rows(job.read("crawldb", part), log, few, due)
        job.tables.replace("crawldb", rows, part)
        summary = fold.bucket_summary(job.read("crawldb", part), through, renders)
        folded = {r["host_bucket"]: r for r in summary}
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
