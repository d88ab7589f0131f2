"""commit: the parts of a round -> captures and robots.

Contract: exactly one outcome for each planned row. A pure function of the pinned part list: the
earliest attempt's outcome wins (a real one over a deferral); a planned row that no part names is
deferred as slot_lost; a stored record that lost keeps its row with is_outcome = false.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from crawlkit.engine.frame import Batches, Engine, Frame, Tasks
from crawlkit.model import Capture, RobotsCopy
from crawlkit.outcomes import Outcome, Reason
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.rules.robots import parser
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.stages.arrow import CHUNK_ROWS
from crawlkit.tables import TABLES
from crawlkit.tables.ddl import arrow_schema

READS = ("fetchlist",)  # and the parts of the round
WRITES = ("captures", "robots")

_TIMES = {"started", "ended", "fetched_at", "expires"}
_ROBOTS = ", ".join(f"{c.name}: {c.type}" for c in TABLES["robots"].columns if c.name != "round_id")
_CAPTURE = ", ".join(f"{c.name}: {c.type}" for c in TABLES["captures"].columns)
_CAPTURE_NAMES = TABLES["captures"].column_names
SCHEMA = (
    f"rec string, attempt int, n int, capture struct<{_CAPTURE}>, robots struct<{_ROBOTS}>, host"
    " struct<host: string, ended: double, state_json: string>"
)
ReadPart = Callable[[str], Iterable[tuple[int, int, object]]]


class Committed(NamedTuple):
    """captures, robots: rows of the tables of these names."""

    captures: Frame
    robots: Frame


def commit(planned: Frame, parts: Frame, round_id: str) -> Committed:
    """Rows of a round's parts (`read_parts`). planned: its fetch list."""
    return Committed(captures_of(planned, parts, round_id), robots_of(parts, round_id))


def count_outcomes(captures: Frame) -> dict[str, int]:
    """Planned rows by "outcome (reason)"."""
    query = """
        SELECT outcome, reason, count(*) AS n FROM {captures} WHERE is_outcome
        GROUP BY outcome, reason
    """
    counted = captures.engine.query(query, captures=captures).rows()
    return {r["outcome"] + (f" ({r['reason']})" if r["reason"] else ""): r["n"] for r in counted}


def _sitemaps(copy: RobotsCopy, policy: UrlPolicy) -> list[str]:
    if copy.status is None or copy.status // 100 != 2 or not copy.body:
        return []
    return list(parser.parse(copy.body).sitemap_urls(f"{copy.origin}/robots.txt", policy))


def read_parts(
    engine: Engine, keys: list[str], read: ReadPart, policy: UrlPolicy, hosts_only: bool = False
) -> Frame:
    """One row (SCHEMA) for each capture, robots copy and host state of the parts.

    Args:
        keys: of the part manifests.
        read: key -> (attempt, part number, record of model.py or host_state.py) of each record.
        policy: of the sitemap URLs that robots.txt names.
        hosts_only: host states alone.
    """
    frame = engine.from_rows("key string", [(k,) for k in keys])
    function = partial(_read_batches, read, policy, hosts_only)
    return frame.map_batches(function, SCHEMA, Tasks(by=("key",), costly=True))


def _read_batches(read: ReadPart, policy: UrlPolicy, hosts_only: bool, batches: Batches) -> Batches:
    for batch in batches:
        for key in batch.column(0).to_pylist():
            rows = _read_rows(read(key), policy, hosts_only)
            while chunk := list(itertools.islice(rows, CHUNK_ROWS)):
                yield pa.RecordBatch.from_pylist(chunk, arrow_schema(SCHEMA))


def _read_rows(
    records: Iterable[tuple[int, int, object]], policy: UrlPolicy, hosts_only: bool
) -> Iterator[dict[str, object]]:
    for attempt, n, record in records:
        if isinstance(record, HostState) or not hosts_only:
            row = _part_row(record, policy)
            if row is not None:
                yield {"attempt": attempt, "n": n, **row}


def _part_row(record: object, policy: UrlPolicy) -> dict[str, object] | None:
    """The columns of SCHEMA of one record of a part; None for records that have none."""
    if isinstance(record, Capture):
        return {"rec": "capture", "capture": _fields(record, _CAPTURE_NAMES)}
    if isinstance(record, RobotsCopy):
        copy = _fields(record, [f for f in record.__slots__ if f != "expires_at"])
        more = {"expires": _micros(record.expires_at), "sitemaps": _sitemaps(record, policy)}
        return {"rec": "robots", "robots": copy | more}
    if isinstance(record, HostState):
        state = {"ended": record.last_request_end or 0.0, "state_json": record.to_json()}
        return {"rec": "host", "host": {"host": record.host, **state}}
    return None


def _fields(record: object, names: Iterable[str]) -> dict[str, object]:
    values = {name: getattr(record, name) for name in names}
    return {k: _micros(v) if k in _TIMES else v for k, v in values.items()}


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e6)


def captures_of(planned: Frame, parts: Frame, round_id: str) -> Frame:
    """The round's `captures`: outcomes of all planned rows, and stored records beside them."""
    kept_columns = ", ".join(
        n if n != "is_outcome" else "wins AS is_outcome" for n in _CAPTURE_NAMES
    )
    lost = {
        "capture_id": f"'{round_id}-' || CAST(slot AS string) || '-x-' || kind || '-'"
        " || lower(hex(url_key))",
        "round_id": f"'{round_id}'",
        **{name: name for name in ("url_key", "url", "kind", "host", "slot")},
        "attempt": "-1",
        "seq": "0",
        "outcome": f"'{Outcome.DEFERRED}'",
        "reason": f"'{Reason.SLOT_LOST}'",
        "is_outcome": "true",
    }
    lost_columns = ", ".join(f"{lost.get(name, 'NULL')} AS `{name}`" for name in _CAPTURE_NAMES)
    query = f"""
        WITH got AS (SELECT capture.* FROM {{parts}} WHERE rec = 'capture'),
        ranked AS (
            SELECT *, is_outcome AND row_number() OVER (
                PARTITION BY url_key, kind, is_outcome
                ORDER BY outcome <> '{Outcome.DEFERRED}' DESC, attempt, seq) = 1 AS wins
            FROM got
        ),
        lost AS (
            SELECT p.* FROM {{planned}} AS p
            ANTI JOIN (SELECT url_key, kind FROM ranked WHERE wins) AS w
            ON p.url_key = w.url_key AND p.kind = w.kind
        )
        SELECT {kept_columns} FROM ranked WHERE wins OR warc_filename IS NOT NULL
        UNION ALL
        SELECT {lost_columns} FROM lost
    """
    return parts.engine.query(query, parts=parts, planned=planned)


def robots_of(parts: Frame, round_id: str) -> Frame:
    """The round's `robots`: one row for each fetched version."""
    query = f"""
        WITH got AS (SELECT attempt, n, robots.* FROM {{parts}} WHERE rec = 'robots'),
        numbered AS (
            SELECT *, row_number() OVER (
                PARTITION BY origin, fetched_at ORDER BY attempt, n, capture_id) AS place
            FROM got
        )
        SELECT *, '{round_id}' AS round_id FROM numbered WHERE place = 1
    """
    return parts.engine.query(query, parts=parts)


def host_states(parts: Frame) -> Frame:
    """The newest politeness state of each host: host, state_json."""
    query = """
        SELECT host, state_json FROM (
            SELECT host, state_json, row_number() OVER (
                PARTITION BY host ORDER BY ended DESC, attempt DESC, n DESC) AS place
            FROM (SELECT attempt, n, host.* FROM {parts} WHERE rec = 'host') AS h
        ) AS s WHERE place = 1
    """
    return parts.engine.query(query, parts=parts)
