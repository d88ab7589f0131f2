"""rebuild: captures, pages, links and what was injected -> crawldb rows, one for each URL
that they name.

Contract: an event a URL and round from each source; all events of a URL come together in one task,
in order, and rules/frontier/replay.py makes its row of them. Memory is bounded by the events of one
URL.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

from crawlkit.config import Config
from crawlkit.engine.frame import Frame, Tasks
from crawlkit.rules.frontier.lifecycle import FETCH_KIND
from crawlkit.rules.frontier.replay import FETCHED, ORDERED, READ, replay
from crawlkit.rules.requisites.page_requisites import KINDS_SQL
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.stages.arrow import Row, map_rows
from crawlkit.stages.update import seen_of
from crawlkit.tables import TABLES

ROW = TABLES["crawldb"].columns
ROUNDS = "round_id string, no int, now double, settled boolean, imported boolean"
_EVENT = {
    "url_key": "binary",
    "no": "int",
    "phase": "int",
    "seq": "bigint",
    "now": "double",
    "url": "string",
    "sent_url": "string",
    "source": "string",
    "fetch_kind": "string",
    "depth": "int",
    "redirects": "int",
    "parent_key": "binary",
    "priority_class": "int",
    "boost": "double",
    "due_at": "double",
    "force": "boolean",
    "mode": "string",
    "metadata": "string",
}
_SEEN = "seen_"  # begins the columns of an outcome that `seen_of` gives
_PLANNED = {
    "depth": "planned_depth",
    "redirects": "planned_redirects",
    "priority_class": "planned_class",
}
# columns of a fetch list's row about the document to render, as its capture has them
_DOCUMENT = {
    "doc_filename": "warc_filename",
    "doc_offset": "warc_record_offset",
    "doc_length": "warc_record_length",
}
# columns of a frontier row that a capture keeps, under their names there
PLAN = tuple(f"{kept} AS {name}" for name, kept in _PLANNED.items())


def _event(values: dict[str, str]) -> str:
    """The columns of an event, some from an expression in SQL; the others are null."""
    return ", ".join(f"CAST({values.get(n, 'NULL')} AS {t}) AS {n}" for n, t in _EVENT.items())


def outcomes(
    captures: Frame, pages: Frame, duplicates: Frame, rounds: Frame, renders: bool
) -> Frame:
    """Events of fetches, with the columns of `seen_of`.

    rounds (`ROUNDS`): `settled` where the outcomes went into the frontier (not those of an
    abandoned round); `imported` where each capture has the time of its record. renders: pages that
    need a browser wait for one until they are rendered.
    """
    engine = captures.engine
    query = f"""
        SELECT /*+ BROADCAST(r) */ c.*, r.no,
            CASE WHEN r.imported THEN unix_micros(c.started) / 1e6 ELSE r.now END AS now,
            0e0 AS retry_wait_s, {renders} AS render_worth, false AS fresh_believed
        FROM {{captures}} AS c JOIN {{rounds}} AS r ON c.round_id = r.round_id
        WHERE c.is_outcome AND c.kind <> 'robots' AND r.settled
    """
    done = engine.query(query, captures=captures, rounds=rounds)
    seen = seen_of(done, pages, captures, duplicates)
    about = {"url_key": "s.url_key", "no": "c.no", "phase": str(FETCHED), "seq": "0"}
    about |= {
        "now": "c.now",
        "url": "c.url",
        "sent_url": "c.sent_url",
        "fetch_kind": "CASE WHEN c.kind = 'render' THEN 'page' ELSE c.kind END",
    }
    about |= {name: f"c.{kept}" for name, kept in _PLANNED.items()}
    columns = [f"s.{c}" for c in seen.columns if c != "url_key"]
    query = f"""
        SELECT {_event(about)}, {", ".join(columns)}
        FROM {{seen}} AS s JOIN {{done}} AS c ON s.captured = c.capture_id
    """
    return engine.query(query, seen=seen, done=done)


def link_events(links: Frame, captures: Frame, rounds: Frame) -> Frame:
    """Events of the links that a page's reading brought into the frontier: of a round's the
    shallowest, as parse chooses.
    """
    same = (
        "url_key",
        "url",
        "sent_url",
        "source",
        "fetch_kind",
        "depth",
        "redirects",
        "parent_key",
    )
    event = {name: f"b.{name}" for name in same}
    event |= {"no": "r.no", "now": "r.now", "phase": str(READ), "seq": "0"}
    event["fetch_kind"] = "b.special"
    query = f"""
        WITH named AS (
            SELECT l.to_key AS url_key, l.round_id, l.to_url AS url, l.sent_url, l.n,
                CASE WHEN l.kind IN ('redirect', 'canonical') THEN l.kind
                    WHEN l.kind IN ({KINDS_SQL}) THEN 'requisite' ELSE 'link' END AS source,
                coalesce(c.planned_depth, 0)
                    + CASE WHEN l.kind IN ('redirect', {KINDS_SQL}) THEN 0 ELSE 1 END AS depth,
                CASE WHEN l.kind = 'redirect' OR c.kind = 'requisite'
                    THEN coalesce(c.planned_redirects, 0) + 1 ELSE 0 END AS redirects,
                l.from_key AS parent_key,
                CASE WHEN l.kind = 'feed' THEN 'feed' WHEN l.kind = 'redirect' THEN c.kind
                    WHEN l.kind IN ({KINDS_SQL}) THEN 'requisite' ELSE 'page' END AS fetch_kind
            FROM {{links}} AS l JOIN {{captures}} AS c ON l.capture_id = c.capture_id
            WHERE l.refused IS NULL AND l.to_key IS NOT NULL
        ),
        best AS (
            SELECT *,
                {FETCH_KIND.replace("$1", "OVER (PARTITION BY url_key, round_id)")} AS special,
                row_number() OVER (PARTITION BY url_key, round_id
                    ORDER BY depth, redirects, parent_key, url, source, n) AS place
            FROM named
        )
        SELECT /*+ BROADCAST(r) */ {_event(event)}
        FROM best AS b JOIN {{rounds}} AS r ON b.round_id = r.round_id WHERE b.place = 1
    """
    return links.engine.query(query, links=links, captures=captures, rounds=rounds)


def sightings(found: Frame, rounds: Frame) -> Frame:
    """Events of found rows (`crawldb_log`, `injected`)."""
    event = {name: f"f.{name}" for name in _EVENT}
    at = "CASE WHEN r.imported THEN unix_micros(f.first_seen) / 1e6 ELSE r.now END"
    event |= {"no": "r.no", "now": at, "due_at": "unix_micros(f.due_at) / 1e6"}
    event["phase"] = f"CASE WHEN f.writer IN ('parse', 'rebuild') THEN {READ} ELSE {ORDERED} END"
    query = f"""
        SELECT /*+ BROADCAST(r) */ {_event(event)}
        FROM {{found}} AS f JOIN {{rounds}} AS r ON f.round_id = r.round_id WHERE f.kind = 'found'
    """
    return found.engine.query(query, found=found, rounds=rounds)


def rows_of(events: Frame, cfg: Config) -> Frame:
    """`crawldb` rows of all events (`outcomes` and, by union, those of other sources)."""
    return map_rows(events, partial(_replay_all, cfg), ROW, Tasks(by=("url_key",)))


def _replay_all(cfg: Config, events: Iterator[Row]) -> Iterator[Row]:
    """The row of each URL, whose events come one after the other."""
    for key, of_url in itertools.groupby(events, key=lambda e: e["url_key"]):
        ordered = sorted(of_url, key=lambda e: e["source"] or "", reverse=True)
        ordered.sort(key=lambda e: (e["no"], e["phase"], e["seq"] or 0))
        yield replay(key, map(_with_seen, ordered), cfg)


def _with_seen(event: Row) -> Row:
    """An event with its outcome as one value `seen`, as `replay` takes it."""
    names = [name for name in event if name.startswith(_SEEN)]
    seen = {name.removeprefix(_SEEN): event.pop(name) for name in names}
    return event | {"seen": None if event["captured"] is None else seen}


def plan_of(parts: Frame, captures: Frame, round_id: str, cfg: Config) -> Frame:
    """The round's `fetchlist` as far as its parts know it: rows with an outcome.

    captures: of earlier rounds, among which are the documents that were rendered in this one.
    """
    kept = ("url_key", "url", "host", "kind", "slot")
    query = f"""
        WITH got AS (SELECT capture.* FROM {{parts}} WHERE rec = 'capture'),
        numbered AS (
            SELECT *, row_number() OVER (
                PARTITION BY url_key, kind ORDER BY attempt, seq, capture_id) AS place
            FROM got WHERE is_outcome
        )
        SELECT {", ".join((*(f"g.{name}" for name in kept), *(f"g.{name}" for name in PLAN)))},
            {", ".join(f"d.{stored} AS {name}" for name, stored in _DOCUMENT.items())}
        FROM numbered AS g LEFT JOIN {{captures}} AS d
            ON g.kind = 'render' AND g.revisit_of = d.capture_id
        WHERE g.place = 1
    """
    names = {*kept, *_PLANNED, *_DOCUMENT, "domain", "host_bucket"}
    columns = [c for c in TABLES["fetchlist"].columns if c.name in names]
    outcomes = parts.engine.query(query, parts=parts, captures=captures)
    made = map_rows(outcomes, partial(_add_domain, cfg.frontier.buckets), columns)
    return made.select("*", f"'{round_id}' AS round_id")


def _add_domain(buckets: int, rows: Iterator[Row]) -> Iterator[Row]:
    for r in rows:
        domain = registered_domain(r["host"])
        yield r | {"domain": domain, "host_bucket": host_bucket(domain, buckets)}
