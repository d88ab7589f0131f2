"""`crawlkit import warc`: WARC files of other tools become a round of a crawl.

The records that are taken are copied, byte for byte, into WARC files of the crawl, with the log
that `rebuild --from-warc` reads; a part names them as a slot's would, and a fetch list has their
URLs. Then the stages from commit on run as in any round, without a request. The round's name comes
from the files: the same ones again are the same round, and a killed import goes on.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from crawlkit.adapters.lake.sql_text import in_list
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.config import Config, ConfigError, ScopeConfig
from crawlkit.engine.frame import Frame
from crawlkit.model import Round
from crawlkit.outcomes import Outcome, Reason, Refused
from crawlkit.round.drive import close_empty, run_planned
from crawlkit.round.job import Job
from crawlkit.round.page_stages import ordered_settings
from crawlkit.round.plan_stages import read_live_log
from crawlkit.rules.frontier.lifecycle import found_row
from crawlkit.rules.frontier.schedule import next_fetch_sql
from crawlkit.rules.url.canonical import origin_of
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.scope import Scope
from crawlkit.runtime.cpu_time import cpu_s, process_tree
from crawlkit.stages.fold import reduce_rows
from crawlkit.tables import TABLES
from crawlkit.upkeep.imports.copied_records import copy_records
from crawlkit.upkeep.imports.foreign_records import Found, Original, Originals, Scan, original_of

EXAMPLES = 5


def import_warc(
    job: Job,
    files: Sequence[Path],
    now: float,
    is_any_scope: bool = False,
    priority_class: int = 2,
) -> dict[str, Any]:
    """Take WARC files into the crawl as one round; counts.

    Args:
        job: the crawl.
        files: WARC files, gzip or not.
        now: nominal time of the round (Unix s): of what its pages link to.
        is_any_scope: records are taken whatever the scope says; their links are not.
        priority_class: of URLs that are new.

    Raises ConfigError (no file, or none that is WARC), CrawlError (another round has claimed
    their hosts: the same command goes on later), LockHeld, StageError.
    """
    round_ = _open_round(job, _digest(files, is_any_scope), now)
    done = job.crawl.mark(round_, "import")
    if done is not None and round_.state == "closed":
        return done | {"repeated": True}
    with job.driving(round_):
        if done is None:
            try:
                done = _Import(job, round_, is_any_scope, priority_class).take(files)
            except Refused as e:
                job.crawl.close(round_, "abandoned")
                raise ConfigError(e.detail) from None
            job.crawl.set_mark(round_, "import", done)
        if done["taken"]:
            run_planned(job, round_)
        else:
            close_empty(job, round_)
    return done


def check_scope(cfg: Config, is_any_scope: bool) -> None:
    """Raises ConfigError if links of what is imported would lead the crawl anywhere, unasked."""
    scope = cfg.scope
    if not (is_any_scope or scope.hosts or scope.domains or scope.prefixes or scope.any):
        raise ConfigError(
            "the crawl has no scope, so links of these pages would lead it anywhere: name what is"
            " in scope in its crawl.yaml, of a new crawl with --set"
            " 'scope.domains=[site.example]', or give --scope any"
        )


def _digest(files: Sequence[Path], is_any_scope: bool) -> str:
    """Of the files' contents, in whatever order. Raises ConfigError."""
    digests = set()
    for path in files:
        try:
            with path.open("rb") as f:
                digests.add(hashlib.file_digest(f, "sha256").hexdigest())
        except OSError as e:
            raise ConfigError(f"{path}: {e.strerror}") from None
    text = "\n".join([*sorted(digests), *["any"] * is_any_scope])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _open_round(job: Job, digest: str, now: float) -> Round:
    """The round of these files; a new one where that was abandoned."""
    names = job.crawl.round_ids()
    n, name = 1, f"import-{digest}"
    while name in names and job.crawl.round(name).state == "abandoned":
        n += 1
        name = f"import-{digest}-{n}"
    return job.crawl.open_round(now, name, imported=True)


class _Import:
    """The way of the files' records into a round's part and fetch list. Repeating it is safe."""

    def __init__(self, job: Job, round_: Round, is_any_scope: bool, priority_class: int) -> None:
        self._job, self._round = job, round_
        scope = ScopeConfig() if is_any_scope else job.cfg.scope
        compiled = Scope.of(scope, UrlPolicy.of(job.cfg.urls))
        self._scan = Scan(job.cfg, round_.id, compiled, time.time(), priority_class)
        self._began, self._before = time.time(), process_tree()
        self._own = f"round_id <> '{round_.id}'"

    def take(self, files: Sequence[Path]) -> dict[str, Any]:
        """Read, copy and plan; counts. Raises Refused, CrawlError."""
        job, scan = self._job, self._scan
        for path in dict.fromkeys(files):
            job.report_step(f"reading {path}")
            scan.read_file(path)
        known = self._leave_known()
        older = 0
        with job.crawl.lock:
            self._leave_stopped()
            if scan.found:
                job.crawl.claim(self._round, self._buckets())
                rows = self._leave_purged()
                self._resolve_revisits()
                older = self._settle(rows)
            self._write_rejects()
        if scan.found:
            job.report_step(f"copying {len(scan.found)} records")
            copy_records(job, self._round, scan.found)
            with job.crawl.lock:
                self._plan()
        refused: Counter[str] = Counter()
        for r in scan.refused:
            refused[r["reason"]] += r["records"]
        return {
            "round_id": self._round.id,
            "files": [str(path) for path in files],
            "records": scan.records,
            "taken": len(scan.found),
            "pages": sum(f.capture.is_outcome for f in scan.found if f.robots is None),
            "known": known,
            "older": older,
            "refused": dict(refused),
            "examples": [f"{r['reason']}: {r['detail']}" for r in scan.refused[:EXAMPLES]],
        }

    def _stored(self, condition: str, values: set[str]) -> list[dict[str, Any]]:
        """Captures of other rounds with a value of `values`. condition: SQL of c and v.value."""
        engine = self._job.engine
        if not values:
            return []
        return engine.query(
            f"""
            SELECT /*+ BROADCAST(v) */ c.capture_id, c.warc_record_id, c.payload_digest, c.status,
                coalesce(c.sent_url, c.url) AS sent, unix_micros(c.started) / 1e6 AS started
            FROM {{captures}} AS c JOIN {{given}} AS v ON {condition}
            WHERE c.warc_filename IS NOT NULL
            """,
            captures=self._job.read("captures").where(self._own),
            given=engine.from_rows("value string", [(v,) for v in sorted(values)]),
        ).rows()

    def _leave_known(self) -> int:
        """Leave out the records that the crawl has already, or the files twice; how many."""
        found = self._scan.found
        names = {f.capture.warc_record_id or "" for f in found}
        there = {r["warc_record_id"] for r in self._stored("c.warc_record_id = v.value", names)}
        kept = []
        for f in found:
            if f.capture.warc_record_id not in there:
                there.add(f.capture.warc_record_id)
                kept.append(f)
        self._scan.found = kept
        return len(found) - len(kept)

    def _resolve_revisits(self) -> None:
        """Name each revisit's original; those without one are refused."""
        found = self._scan.found
        refers = [f.refers for f in found if f.refers is not None]
        if not refers:
            return
        own = (original_of(f.capture) for f in found if f.capture.record_type == "response")
        others = [
            *self._stored("c.warc_record_id = v.value", {r.record_id for r in refers}),
            *self._stored("c.payload_digest = v.value", {r.payload_digest for r in refers}),
        ]
        names = ("capture_id", "warc_record_id", "sent", "started", "payload_digest", "status")
        stored = [Original(*(r[name] for name in names)) for r in others]
        originals = Originals([*own, *(o._replace(date=int(o.date)) for o in stored)])
        kept = []
        for f in found:
            try:
                if f.refers is not None:
                    original = originals.find(f.refers)
                    f.capture.revisit_of = original.capture_id
                    f.capture.payload_digest = original.payload_digest
                    if f.capture.status is None:
                        f.capture.status = original.status
                kept.append(f)
            except Refused as e:
                where = f"{f.source.path}: at {f.source.offset}: {e.detail}"
                self._scan.refuse(f.capture.url, Refused(e.reason, where))
        self._scan.found = kept

    def _leave(self, why: Callable[[Found], str | None], reason: Reason) -> None:
        """Refuse the records of which `why` says so."""
        found, self._scan.found = self._scan.found, []
        for f in found:
            if (text := why(f)) is None:
                self._scan.found.append(f)
            else:
                where = f"{f.source.path}: at {f.source.offset}: {text}"
                self._scan.refuse(f.capture.url, Refused(reason, where))

    def _leave_stopped(self) -> None:
        """Refuse what is of hosts that operators have stopped: it may have been purged."""
        orders = read_orders(self._job.crawl.objects)

        def why(f: Found) -> str | None:
            return orders.stopped(f.capture.host, registered_domain(f.capture.host))

        self._leave(why, Reason.STOP_LIST)

    def _bucket(self, host: str) -> int:
        return host_bucket(registered_domain(host), self._job.cfg.frontier.buckets)

    def _buckets(self) -> list[int]:
        return sorted({self._bucket(f.capture.host) for f in self._scan.found})

    def _write_rejects(self) -> None:
        mine = {"round_id": self._round.id, "stage": "import"}
        names = set(TABLES["rejects"].column_names)
        rows = [{k: v for k, v in r.items() if k in names} | mine for r in self._scan.refused]
        if rows:
            part = {name: [value] for name, value in mine.items()}
            self._job.tables.replace("rejects", rows, part)

    def _frontier(self, is_own: bool) -> Frame:
        """The rows of the claimed buckets as they are now. is_own: with those of this round."""
        job, part = self._job, {"host_bucket": self._round.buckets}
        log, few = read_live_log(job)
        of_buckets = in_list("host_bucket", self._round.buckets)
        log = log.where(of_buckets if is_own else f"{of_buckets} AND {self._own}")
        due = next_fetch_sql(ordered_settings(job).schedule)
        return reduce_rows(job.read("crawldb", part), log, few, due)

    def _leave_purged(self) -> dict[bytes, dict[str, Any]]:
        """Refuse what is of purged URLs; what the frontier knows of each URL, by key."""
        engine = self._job.engine
        keys = sorted({f.capture.url_key for f in self._scan.found})
        known = engine.query(
            "SELECT r.url_key, r.depth, r.redirects, r.priority_class, r.fetch_kind, r.error_type,"
            " unix_micros(r.last_fetch) / 1e6 AS last_fetch"
            " FROM {rows} AS r SEMI JOIN {keys} AS k ON r.url_key = k.url_key",
            rows=self._frontier(is_own=False),
            keys=engine.from_rows("url_key binary", [(k,) for k in keys]),
        ).rows()
        rows = {bytes(r["url_key"]): r for r in known}
        purged = {key for key, r in rows.items() if r["error_type"] == Reason.PURGED}
        self._leave(lambda f: f.capture.url if f.capture.url_key in purged else None, Reason.PURGED)
        return rows

    def _settle(self, rows: dict[bytes, dict[str, Any]]) -> int:
        """Of each URL the newest record is the outcome, if the frontier knows no newer fetch; the
        others stand beside it. rows: of `_leave_purged`. How many URLs have a newer one.
        """
        newest: dict[bytes, Found] = {}
        for f in self._scan.found:
            f.capture.is_outcome = False
            best = newest.get(f.capture.url_key)
            if best is None or _order(best) <= _order(f):
                newest[f.capture.url_key] = f
        older = 0
        for key, f in newest.items():
            row = rows.get(key)
            if row is not None and f.capture.kind == "page":
                f.capture.kind = row["fetch_kind"] or "page"
                f.capture.planned_depth, f.capture.planned_redirects = (
                    row["depth"],
                    row["redirects"],
                )
                f.capture.planned_class = row["priority_class"]
            last = None if row is None else row["last_fetch"]
            f.capture.is_outcome = last is None or last < (f.capture.started or 0)
            older += not f.capture.is_outcome
        return older

    def _plan(self) -> None:
        """Found rows, the fetch list, and the marks of generate and fetch."""
        job, round_ = self._job, self._round
        planned = [f for f in self._scan.found if f.capture.is_outcome]
        pages = [f for f in planned if f.capture.kind != "robots"]
        mine = {"round_id": [round_.id], "writer": ["import"]}
        job.tables.replace("crawldb_log", [self._found_row(f) for f in pages], mine)
        listed = job.engine.from_rows(
            "url_key binary, kind string, place int",
            [(f.capture.url_key, f.capture.kind, n) for n, f in enumerate(pages)],
        )
        robots = [self._robots_row(f) for f in planned if f.capture.kind == "robots"]
        own = {"round_id": f"'{round_.id}'", "slot": "0", "region": "''", "rank": "p.place"}
        own["kind"] = "p.kind"
        columns = ", ".join(
            f"r.`{c.name}`"
            if c.name in _ROW
            else f"CAST({own.get(c.name, 'NULL')} AS {c.type}) AS `{c.name}`"
            for c in TABLES["fetchlist"].columns
        )
        rows = job.engine.query(
            f"SELECT {columns} FROM {{rows}} AS r JOIN {{listed}} AS p ON r.url_key = p.url_key",
            rows=self._frontier(is_own=True),
            listed=listed,
        )
        both = rows.union(job.frame("fetchlist", robots).select(*rows.columns))
        job.tables.replace("fetchlist", both, {"round_id": [round_.id]})
        self._set_marks(Counter(f.capture.kind for f in planned))

    def _set_marks(self, kinds: Counter[str]) -> None:
        """generate and fetch are done: the first took the time of the reading, the other none."""
        now, n = time.time(), kinds.total()
        used = {"started": self._began, "ended": now, "cpu_s": cpu_s(self._before, process_tree())}
        none = {"started": now, "ended": now, "cpu_s": 0.0}
        counts = {f"{kind}s": kinds[kind] for kind in ("page", "sitemap", "feed")}
        planned = {"planned": n, "rows_in": n, "rows_out": n, "slots": 0, **counts}
        self._job.crawl.set_mark(self._round, "generate", {"stage": "generate", **used, **planned})
        self._job.crawl.set_mark(self._round, "fetch", {"stage": "fetch", **none, "planned": 0})

    def _found_row(self, f: Found) -> dict[str, Any]:
        c = f.capture
        row = found_row(
            c.url,
            c.url_key,
            c.host,
            registered_domain(c.host),
            self._bucket(c.host),
            source="import",
            now=c.started or 0.0,
            priority_class=c.planned_class or 0,
            sent_url=c.sent_url,
        )
        same = {"updated_no": self._round.no, "round_id": self._round.id, "writer": "import"}
        return row | same | {"kind": "found", "seq": c.seq, "force": False, "mode": "keep"}

    def _robots_row(self, f: Found) -> dict[str, Any]:
        c = f.capture
        domain, bucket = registered_domain(c.host), self._bucket(c.host)
        return {
            **{name: getattr(c, name) for name in ("url_key", "url", "host", "kind", "round_id")},
            **{"domain": domain, "host_bucket": bucket, "origin": origin_of(c.url)},
            **{"slot": 0, "region": "", "rank": 0},
        }


_ROW = {*TABLES["crawldb"].column_names}


def _order(f: Found) -> tuple[bool, float]:
    """A record that has something to read comes before one that does not, then the newest."""
    return f.capture.outcome != Outcome.NOT_MODIFIED, f.capture.started or 0.0


def import_warc_text(done: dict[str, Any]) -> str:
    """The result of an import for a terminal."""
    if done.get("repeated"):
        return f"round {done['round_id']} has these files already: nothing was done"
    refused = ", ".join(f"{reason} {n}" for reason, n in sorted(done["refused"].items()))
    head = (
        f"round {done['round_id']}: {done['records']} records, {done['taken']} taken,"
        f" {done['known']} already known, not taken: {refused or 'none'}"
    )
    if done["older"]:
        head += (
            f"; {done['older']} URLs were fetched later than their records, and stay as they are"
        )
    return "\n".join([head, *(f"  {e}" for e in done["examples"])])
