"""`crawlkit reparse`: closed rounds read again by the parser of today, without fetching.

parse runs on the stored records of each round and replaces its rows of pages, links, found rows,
rejects and signals. Then every round from the first of them on is compared again (a text that is
gone may have been the only one that stood for others), clusters and ranks are computed, the found
rows are folded, and frontier rows take text, fingerprint, links and flags from the page of their
copy. Every step can be repeated; killed, the same command does it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from crawlkit.adapters.lake.sql_text import in_list
from crawlkit.crawl.state import CrawlError
from crawlkit.engine.frame import Frame
from crawlkit.model import Round
from crawlkit.round.job import Job
from crawlkit.round.page_stages import (
    compare_again,
    items_to_parse,
    ordered_settings,
    parse,
    rank,
    write_clusters,
)
from crawlkit.rules.frontier.claims import HINTED
from crawlkit.rules.frontier.lifecycle import DUPLICATE, GIVEN_BACK, TOO_LONG
from crawlkit.rules.frontier.schedule import FORCED, next_fetch_sql
from crawlkit.stages.arrow import Row, map_rows
from crawlkit.stages.fold import live_log, reduce_rows
from crawlkit.tables import TABLES
from crawlkit.upkeep.frame_rows import distinct, is_empty
from crawlkit.upkeep.purge_frontier import update_buckets

# flags of a row that no page gives (rules/frontier/lifecycle.py)
_OWN_FLAGS = {
    *(FORCED, HINTED, GIVEN_BACK, DUPLICATE, TOO_LONG, "truncated"),
    *("render", "render_again", "render_failed", "rendered"),
}
_OF_PAGE = ("text_sha256", "simhash", "outlinks", "flags")


def reparse(job: Job, round_ids: Sequence[str]) -> dict[str, Any]:
    """Read rounds again (none named: all that are closed); the counts of each.

    Raises CrawlError while a round is open, for one that is not closed, and where what was stored
    is gone; LockHeld, StageError.
    """
    crawl = job.crawl
    closed = [r for r in map(crawl.round, crawl.round_ids()) if r.state == "closed"]
    chosen = [r for r in closed if r.id in round_ids] if round_ids else closed
    chosen.sort(key=lambda r: r.no)
    _check(job, chosen, set(round_ids) - {r.id for r in chosen})
    done = {}
    for r in chosen:
        job.report_step(f"reading round {r.id} again")
        done[r.id] = parse(job, r)
        crawl.set_mark(r, "parse", (crawl.mark(r, "parse") or {}) | done[r.id])
    if chosen:
        later = sorted((r for r in closed if r.no >= chosen[0].no), key=lambda r: r.no)
        job.report_step("comparing pages, and updating the frontier")
        for r in later:
            compare_again(job, r)
        with crawl.lock:
            write_clusters(job, later[-1])
            _fold_again(job, chosen, later[-1])
        rank(job, later[-1])
    return {"rounds": done}


def _check(job: Job, chosen: Sequence[Round], unknown: set[str]) -> None:
    """Raises CrawlError unless all of it can be read again."""
    if open_ := job.crawl.open_rounds():
        raise CrawlError(
            f"round {open_[0].id} is open: finish it (`crawlkit round`) or end it (`crawlkit"
            f" abandon {open_[0].id}`), then read rounds again"
        )
    if unknown:
        raise CrawlError(f"round {', '.join(sorted(unknown))}: only closed rounds are read again")
    for r in chosen:
        if job.tables.count("pages", {"round_id": [r.id]}) and is_empty(
            job.of_round("fetchlist", r)
        ):
            raise CrawlError(
                f"round {r.id}: its fetch list was removed by age (maintain.raw_days), so it cannot"
                " be read again; its pages stay"
            )
        gone = items_to_parse(job, r).where("outcome = 'fetched' AND file IS NULL").count()
        if gone:
            raise CrawlError(
                f"round {r.id}: {gone} of its records were removed by age (maintain.raw_days), and"
                " their texts would be lost: it is not read again"
            )


def _fold_again(job: Job, chosen: Sequence[Round], last: Round) -> None:
    """crawldb with the new found rows and flags, and with what pages say of its copies."""
    log, rounds = job.read("crawldb_log"), [r.id for r in chosen]
    new = log.where(
        f"(writer = 'parse' AND {in_list('round_id', rounds)})"
        f" OR (writer = 'dedup' AND round_id = '{last.id}')"
    )
    live = live_log(log, job.read("buckets"))
    due = next_fetch_sql(ordered_settings(job).schedule)
    rows = reduce_rows(job.read("crawldb"), live.union(new), due=due)
    pages = job.read("pages", {"round_id": rounds})
    job.tables.replace("crawldb", _take_pages(rows, pages))
    update_buckets(job, [b for (b,) in distinct(job.read("crawldb"), "host_bucket")])


def _take_pages(rows: Frame, pages: Frame) -> Frame:
    """crawldb rows whose copy is a page of the rounds, as update makes them of it."""
    named = rows.engine.query(
        """
        SELECT r.*, p.capture_id AS page_id, coalesce(p.text_sha256, p.named_sha256)
            AS page_text_sha256, p.simhash AS page_simhash, p.links AS page_outlinks,
            p.flags AS page_flags
        FROM {rows} AS r LEFT JOIN {pages} AS p ON r.capture_id = p.capture_id
        """,
        rows=rows,
        pages=pages,
    )
    taken = map_rows(named.where("page_id IS NOT NULL"), _as_parsed, TABLES["crawldb"].columns)
    return named.where("page_id IS NULL").select(*rows.columns).union(taken)


def _as_parsed(rows: Iterable[Row]) -> Iterable[Row]:
    for r in rows:
        page = {name: r.pop(f"page_{name}") for name in _OF_PAGE}
        flags = {*(r["flags"] or ())}
        page["flags"] = sorted((flags & _OWN_FLAGS) | {*(page["flags"] or ())})
        if "truncated" in flags:  # no evidence: the digests stay those of the last whole copy
            page |= {name: r[name] for name in ("text_sha256", "simhash")}
        yield r | page


def reparse_text(done: dict[str, Any]) -> str:
    """The result of reparse for a terminal."""
    if not done["rounds"]:
        return "no round is closed: nothing was read again"
    return "\n".join(
        f"round {name}: {c['pages']} pages and {c['links']} links read again"
        for name, c in done["rounds"].items()
    )
