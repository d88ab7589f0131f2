"""update: fetch list, captures and pages of a round -> state rows of crawldb_log.

Contract: one state row for each planned page that is not deferred; a deferred URL stays as it was,
but for the flag given_back where its task died.
The stage goes on with `host_rows.py` (hostdb) and `fold.py` (crawldb, buckets).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from crawlkit.config import Config
from crawlkit.engine.frame import Frame
from crawlkit.model import Round
from crawlkit.outcomes import Outcome
from crawlkit.rules.duplicates.clusters import IS_COPY
from crawlkit.rules.frontier.claims import fresh_believed_sql
from crawlkit.rules.frontier.lifecycle import LOST, next_row
from crawlkit.rules.render.waiting_pages import worth_sql
from crawlkit.stages.arrow import Row, map_rows
from crawlkit.tables import TABLES

READS = (
    "buckets",
    "captures",
    "crawldb",
    "crawldb_log",
    "duplicates",
    "fetchlist",
    "host_ranks",
    "hostdb",
    "pages",
)  # and the host states in the parts of the round
WRITES = ("buckets", "crawldb", "crawldb_log", "hostdb")

ROW = TABLES["crawldb"].columns
# What rules.frontier.lifecycle.next_row takes of an outcome, each as SQL over a capture `c`, its
# page `p` and the copy `o` that a revisit refers to. A row keeps the copy, never the revisit.
_SEEN = {
    "outcome": "c.outcome",
    "reason": "c.reason",
    "detail": "c.detail",
    "status": "c.status",
    "record_type": "c.record_type",
    "own_digest": "p.body_sha256 IS NULL AND coalesce(c.record_type = 'revisit', false)",
    "truncated": "c.truncated",
    "etag": "c.etag",
    "last_modified": "c.last_modified",
    "content_type": "c.content_type",
    "content_length": "c.body_bytes",
    "capture_id": "CASE WHEN o.stored_at IS NULL THEN c.capture_id ELSE c.revisit_of END",
    "fetched_at": "unix_micros(coalesce(o.stored_at, c.started)) / 1e6",
    "copy_url": "CASE WHEN o.stored_url IS NULL THEN c.sent_url"
    " WHEN o.stored_url <> c.url THEN o.stored_url END",
    "payload_digest": "c.payload_digest",
    "body_sha256": "p.body_sha256",
    "text_sha256": "coalesce(p.text_sha256, p.named_sha256)",
    "simhash": "p.simhash",
    "outlinks": "p.links",
    "page_flags": "p.flags",
    "retry_wait_s": "c.retry_wait_s",
    "sent_url": "c.sent_url",
    "host_class": "c.planned_host_class",
    "is_duplicate": "d.url_key IS NOT NULL",
    "kind": "c.kind",
    "render_worth": "c.render_worth",
    "cache_control": "c.cache_control",
    "fresh_believed": "c.fresh_believed",
    "started": "unix_micros(c.started) / 1e6",
}
_PREFIX = "seen_"


def update(
    fetchlist: Frame,
    captures: Frame,
    pages: Frame,
    states: Frame,
    duplicates: Frame,
    hostdb: Frame,
    round_: Round,
    cfg: Config,
) -> Frame:
    """State rows of crawldb_log for the round's page rows that are not deferred.

    Args:
        fetchlist, captures, pages: of the round.
        states: host, state_json of its hosts (the wait that a host asked for).
        duplicates: the table of this name.
        hostdb: rows of its hosts before it (what their renders brought).
    """
    lost = ", ".join(f"'{reason}'" for reason in LOST)
    worth = worth_sql("h", "c.url") if cfg.render.enabled else "false"
    done = fetchlist.engine.query(
        f"""
        SELECT c.*, greatest(0e0,
            CAST(get_json_object(s.state_json, '$.retry_after_until') AS double)
            - unix_micros(c.ended) / 1e6) AS retry_wait_s, {worth} AS render_worth,
            {fresh_believed_sql("h", round_.now)} AS fresh_believed
        FROM {{captures}} AS c LEFT JOIN {{states}} AS s ON c.host = s.host
        LEFT JOIN {{hostdb}} AS h ON c.host = h.host
        WHERE c.is_outcome AND c.kind <> 'robots'
            AND (c.outcome <> '{Outcome.DEFERRED}' OR c.reason IN ({lost}))
        """,
        captures=captures,
        states=states,
        hostdb=hostdb,
    )
    seen = seen_of(done, pages, captures, duplicates)
    row = ", ".join(f"f.{c.name}" for c in ROW)
    both = ", ".join([f"f.score AS {_PREFIX}score", *(f"s.{_PREFIX}{name}" for name in _SEEN)])
    planned = fetchlist.engine.query(
        f"""
        SELECT {row}, {both} FROM {{fetchlist}} AS f JOIN {{seen}} AS s ON f.url_key = s.url_key
        WHERE f.kind <> 'robots'
        """,
        fetchlist=fetchlist,
        seen=seen,
    )
    return map_rows(planned, partial(_next_rows, round_, cfg), TABLES["crawldb_log"].columns)


def _next_rows(round_: Round, cfg: Config, rows: Iterator[Row]) -> Iterator[dict[str, Any]]:
    same = {
        "updated_no": round_.no,
        "round_id": round_.id,
        "writer": "update",
        "kind": "state",
        "seq": 0,
        "force": False,
    }
    for r in rows:
        seen = {name: r.pop(_PREFIX + name) for name in ("score", *_SEEN)}
        now = seen["started"] if round_.imported else round_.now
        yield next_row(r, seen, now, cfg) | same


def seen_of(done: Frame, pages: Frame, captures: Frame, duplicates: Frame) -> Frame:
    """url_key, captured (its capture_id) and the columns of _SEEN of outcomes with their
    retry_wait_s.

    captures: those among which the copies are that revisits refer to.
    """
    seen = ", ".join(f"{sql} AS {_PREFIX}{name}" for name, sql in _SEEN.items())
    return done.engine.query(
        f"""
        SELECT c.url_key, c.capture_id AS captured, {seen} FROM {{done}} AS c
        LEFT JOIN {{pages}} AS p ON c.capture_id = p.capture_id
        LEFT JOIN (
            SELECT capture_id, coalesce(sent_url, url) AS stored_url, started AS stored_at
            FROM {{captures}} WHERE record_type = 'response'
        ) AS o ON c.revisit_of = o.capture_id
        LEFT JOIN (
            SELECT url_key FROM {{duplicates}} WHERE {IS_COPY}
        ) AS d ON c.url_key = d.url_key
        """,
        done=done,
        pages=pages,
        captures=captures,
        duplicates=duplicates,
    )
