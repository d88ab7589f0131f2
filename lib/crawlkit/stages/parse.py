"""parse: WARC records of a round's captures -> pages, links, found rows and rejects.

Contract: it never asks the network (G4); items in = pages + redirects + style
sheets + rejects by reason. The
tasks write the tables' data files themselves (parsing/table_files.py), and only found rows, counts
and the names of the files travel through Spark.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from crawlkit.config import Config
from crawlkit.engine.frame import NO_STRINGS, Batches, Frame, Tasks
from crawlkit.parsing.batches import to_batch
from crawlkit.parsing.capture import ReadRecord
from crawlkit.parsing.child import parse_isolated, warm_up
from crawlkit.parsing.discovery import ParseRules
from crawlkit.parsing.schemas import FOUND, ITEM_COLUMNS, PARSED_SCHEMA, WRITTEN_SCHEMA
from crawlkit.parsing.sitemap import read_robots_sitemaps
from crawlkit.parsing.table_files import CountedBatches, Writer, write_tables
from crawlkit.rules.frontier.claims import believed_sql
from crawlkit.rules.frontier.lifecycle import FETCH_KIND
from crawlkit.rules.robots.opt_outs import page_signals, robots_reserves, robots_signals
from crawlkit.stages.arrow import Row, map_rows
from crawlkit.tables import TABLES, Column
from crawlkit.tables.ddl import arrow_schema, split_fields

READS = (
    "captures",
    "crawldb_log",
    "fetchlist",
    "host_ranks",
    "hostdb",
    "robots",
)  # and WARC records
WRITES = ("crawldb_log", "links", "pages", "rejects", "signals")
BATCH = 64
CHILD_BATCHES = 256  # that one child parses: the next one has all to learn again


_OWN_RECORD = "'response', 'resource', 'conversion'"  # kinds that hold their payload
_PLACES = {"file": "filename", "offset": "record_offset", "length": "record_length"}
_OF_ITEM = {  # columns of an item that are not its capture's
    "depth": "f.depth",
    "redirects": "f.redirects",
    "domain": "f.domain",
    "quality": "coalesce(r.quality, 5e-1)",
    "vouched": "v.vouched",
    "reserves": "s.reserves",
    **{name: f"f.{name}" for name in ("doc_filename", "doc_offset", "doc_length")},
    **{
        name: f"CASE WHEN c.record_type IN ({_OWN_RECORD}) THEN c.warc_{stored}"
        f" ELSE o.warc_{stored} END"
        for name, stored in _PLACES.items()
    },
}
# of requisites style sheets alone are read, and where redirects lead
_NAMES_URLS = (
    "(c.kind <> 'requisite' OR c.outcome = 'redirected' OR lower(c.content_type) LIKE 'text/css%')"
)


def to_parse(
    captures: Frame,
    fetchlist: Frame,
    host_ranks: Frame,
    vouching: Frame | None,
    reserving: Frame | None = None,
) -> Frame:
    """The round's captures with something to read (ITEM_COLUMNS): each with where its payload is
    stored and its place in the frontier.

    A revisit of another URL's copy is read from that copy; a revisit of the URL's own copy is
    unchanged and not read again.

    Args:
        captures, fetchlist: of the round.
        vouching: `vouching_origins`; None: the round has no sitemaps.
        reserving: `reserving_origins`; None: opt-outs are not enforced.
    """
    engine = captures.engine
    vouching = engine.from_rows(_VOUCHING, []) if vouching is None else vouching
    reserving = engine.from_rows(_RESERVING, []) if reserving is None else reserving
    names = [c.split(" ", 1)[0] for c in ITEM_COLUMNS]
    columns = ", ".join(f"{_OF_ITEM.get(n, f'c.{n}')} AS `{n}`" for n in names)
    query = f"""
        SELECT /*+ BROADCAST(o, r, v, s) */ {columns}
        FROM {{captures}} AS c
        JOIN {{fetchlist}} AS f ON c.url_key = f.url_key AND f.kind <> 'robots'
        LEFT JOIN (
            SELECT capture_id, warc_filename, warc_record_offset, warc_record_length
            FROM {{captures}} WHERE record_type = 'response'
        ) AS o ON c.revisit_of = o.capture_id
        LEFT JOIN {{host_ranks}} AS r ON c.host = r.host
        LEFT JOIN {{vouching}} AS v ON c.url = v.url
        LEFT JOIN {{reserving}} AS s ON regexp_extract(c.url, '^[a-z]+://[^/]+', 0) = s.origin
        WHERE c.is_outcome AND c.kind <> 'robots' AND c.outcome IN ('fetched', 'redirected')
            AND (c.record_type IN ({_OWN_RECORD}) OR o.warc_filename IS NOT NULL) AND {_NAMES_URLS}
    """
    frames = {"host_ranks": host_ranks, "vouching": vouching, "reserving": reserving}
    return engine.query(query, captures=captures, fetchlist=fetchlist, **frames)


@dataclass(frozen=True)
class ParseTask:
    """A task of parse: batches of ITEM_COLUMNS -> batches of PARSED_SCHEMA."""

    read: ReadRecord
    cfg: Config
    now: float

    def prepare(self) -> None:
        """Load what a first page loads (parsing/child.py)."""
        warm_up(ParseRules(self.cfg, self.now))

    def __call__(self, batches: Batches) -> Batches:
        groups = (
            batch.slice(start, BATCH)
            for batch in batches
            for start in range(0, batch.num_rows, BATCH)
        )
        rules, schema = None, arrow_schema(PARSED_SCHEMA)
        while some := list(islice(groups, CHILD_BATCHES)):
            if rules is None:
                rules = ParseRules(self.cfg, self.now)
                warm_up(rules)
            yield from parse_isolated(some, self.read, rules, schema)


@dataclass(frozen=True)
class WriteTask:
    """A task of parse that writes what it has parsed: batches of ITEM_COLUMNS -> WRITTEN_SCHEMA."""

    parse: ParseTask
    writers: Mapping[str, Callable[[], Writer]]
    round_id: str

    def prepare(self) -> None:
        """As `ParseTask.prepare`."""
        self.parse.prepare()

    def __call__(self, batches: Batches) -> Batches:
        counted = CountedBatches(batches)
        parsed = self.parse(iter(counted))
        schema = arrow_schema(WRITTEN_SCHEMA)
        yield from write_tables(parsed, counted, self.writers, self.round_id, schema)


_RANGES = Tasks(order=("file", "`offset`"), spread=True)  # records in the order of their files


def parse(
    items: Frame,
    read: ReadRecord,
    cfg: Config,
    now: float,
    writers: Mapping[str, Callable[[], Writer]],
    round_id: str,
) -> Frame:
    """Rows of WRITTEN_SCHEMA: the data files of pages, links and rejects, counts and found rows.

    Args:
        items: `to_parse`.
        read: of stored records (parsing/capture.py).
        now: nominal time of the round, Unix s.
        writers: of the tables pages, links and rejects.
    """
    task = WriteTask(ParseTask(read, cfg, now), writers, round_id)
    return items.map_batches(task, WRITTEN_SCHEMA, _RANGES)


def parse_rows(items: Frame, read: ReadRecord, cfg: Config, now: float) -> Frame:
    """Rows of PARSED_SCHEMA, one for each item; nothing is written.

    A task reports a link's found row again only when it is a better one.
    """
    return items.map_batches(ParseTask(read, cfg, now), PARSED_SCHEMA, _RANGES)


def parse_robots_sitemaps(robots: Frame, fetchlist: Frame, cfg: Config, now: float) -> Frame:
    """Rows of PARSED_SCHEMA, one for each robots.txt read in the round: the sitemaps it names.

    A sitemap is as deep as the origin's shallowest page of the round. An unavailable robots.txt
    (5xx, no answer) names none.
    """
    query = """
        SELECT /*+ BROADCAST(d) */ r.origin, r.capture_id, r.sitemaps,
            coalesce(d.depth, 0) AS depth
        FROM {robots} AS r LEFT JOIN (
            SELECT host, min(depth) AS depth FROM {fetchlist} WHERE kind <> 'robots' GROUP BY host
        ) AS d ON r.host = d.host
        WHERE r.status BETWEEN 200 AND 499 AND r.status <> 429
    """
    read = robots.engine.query(query, robots=robots, fetchlist=fetchlist)
    return read.map_batches(partial(_read_sitemaps, cfg, now), PARSED_SCHEMA)


def _read_sitemaps(cfg: Config, now: float, batches: Batches) -> Batches:
    rules = ParseRules(cfg, now)
    for batch in batches:
        found = [read_robots_sitemaps(r, rules) for r in batch.to_pylist()]
        yield to_batch(found, arrow_schema(PARSED_SCHEMA))


def signal_rows(pages: Frame, robots: Frame, round_id: str) -> Frame:
    """`signals` of a round's pages and robots.txt files."""
    query = """
        SELECT capture_id, host, url, signals, CAST(NULL AS binary) AS body
        FROM {pages} WHERE signals IS NOT NULL
        UNION ALL
        SELECT capture_id, host, origin || '/robots.txt', NULL, body
        FROM {robots} WHERE status BETWEEN 200 AND 299
    """
    given = pages.engine.query(query, pages=pages, robots=robots)
    return map_rows(given, partial(_signal_rows, round_id), TABLES["signals"].columns)


def _signal_rows(round_id: str, rows: Iterable[Row]) -> Iterable[Row]:
    for r in rows:
        body, signals = r.pop("body"), r.pop("signals")
        if signals is None:
            found = [("ai", value) for value in robots_signals(body or b"")]
        else:
            found = page_signals(signals)
        place = "robots" if signals is None else "page"
        for kind, value in dict.fromkeys(found):
            yield r | {"round_id": round_id, "found_in": place, "kind": kind, "value": value}


_VOUCHING = "url string, vouched array<string>"


def vouching_origins(robots: Frame) -> Frame:
    """url, vouched: the origins whose robots.txt names this sitemap (sitemaps.org, "Sitemaps &
    Cross Submits").
    """
    query = """
        SELECT url, array_sort(collect_set(origin)) AS vouched
        FROM (SELECT origin, explode(sitemaps) AS url FROM {robots}) AS named GROUP BY url
    """
    return robots.engine.query(query, robots=robots)


_RESERVING = "origin string, reserves string"


def reserving_origins(robots: Frame, captures: Frame, agent: str) -> Frame:
    """origin, reserves: hosts of the captures whose newest robots.txt keeps pages from AI use
    (`robots_reserves`).
    """
    query = """
        WITH numbered AS (
            SELECT r.origin, r.status, r.body,
                row_number() OVER (PARTITION BY r.origin ORDER BY r.fetched_at DESC) AS n
            FROM {robots} AS r SEMI JOIN {captures} AS c ON r.host = c.host
        )
        SELECT origin, body FROM numbered WHERE n = 1 AND status BETWEEN 200 AND 299
    """
    newest = robots.engine.query(query, robots=robots, captures=captures)
    columns = [Column(*field, "") for field in split_fields(_RESERVING)]
    return map_rows(newest, partial(_reserving_rows, agent), columns)


def _reserving_rows(agent: str, rows: Iterable[Row]) -> Iterable[Row]:
    for r in rows:
        if reserves := robots_reserves(r["body"] or b"", agent):
            yield {"origin": r["origin"], "reserves": reserves}


def rejects_of(rows: Frame, round_id: str) -> Frame:
    """`rejects` of the stage."""
    query = f"""
        SELECT capture_id, r.*, row_number() OVER (
            PARTITION BY capture_id ORDER BY r.item, r.reason, r.detail) - 1 AS n,
            '{round_id}' AS round_id, 'parse' AS stage
        FROM (SELECT capture_id, explode(rejects) AS r FROM {{rows}}) AS x
    """
    return rows.engine.query(query, rows=rows)


def explode_found(rows: Frame) -> Frame:
    """The found rows of PARSED_SCHEMA's rows."""
    return rows.engine.query(
        "SELECT f.* FROM (SELECT explode(found) AS f FROM {rows}) AS x", rows=rows
    )


_FOUND_NAMES = [name for name, _ in split_fields(FOUND)]


def keep_found(flat: Frame, hostdb: Frame, round_id: str, round_no: int, now: float) -> Frame:
    """Found rows of crawldb_log: one for each distinct target, from the shallowest page (then the
    smallest key). Dates make pages of a host due as far as hostdb believes them.
    """
    best = ", ".join(n for n in _FOUND_NAMES if n not in ("fetch_kind", "due_at"))
    at = f"timestamp_micros({round(now * 1e6)})"
    query = f"""
        WITH placed AS (
            SELECT *,
                {FETCH_KIND.replace("$1", "OVER (PARTITION BY url_key)")} AS special,
                max(due_at) OVER (PARTITION BY url_key) AS due,
                row_number() OVER (PARTITION BY url_key
                    ORDER BY depth, redirects, parent_key, url) AS place
            FROM {{flat}}
        )
        SELECT {best}, special AS fetch_kind,
            CASE WHEN special <> 'page' OR refuted IS NULL
                THEN timestamp_micros(CAST(due * 1e6 AS bigint)) END AS due_at,
            'queued' AS state, CASE WHEN special = 'page' THEN 2 ELSE 1 END AS priority_class,
            0e0 AS boost, {at} AS first_seen, {at} AS next_fetch, 0 AS retries, 0 AS n_fetch,
            0 AS n_change, '' AS history, {NO_STRINGS} AS flags, {round_no} AS updated_no,
            '{round_id}' AS round_id, 'parse' AS writer, 'found' AS kind, 0 AS seq,
            false AS force, 'keep' AS mode
        FROM placed
        LEFT JOIN (SELECT host AS refuted FROM {{hostdb}} WHERE NOT ({believed_sql(now)})) AS h
        ON host = refuted
        WHERE place = 1
    """
    return flat.engine.query(query, flat=flat, hostdb=hostdb)


def count_parsed(counted: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The stage's counts from those of its tasks (what, reason, n)."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for r in counted:
        counts[r["what"]][r["reason"]] += r["n"]
    pages, others = counts["pages"][""], counts["others"][""]
    return {
        "rows_in": counts["items"][""],
        "rows_out": pages + others,
        "rejected": dict(counts["rejected"]),
        "pages": pages,
        "links": counts["links"][""],
        "entries_refused": dict(counts["refused"]),
    }
