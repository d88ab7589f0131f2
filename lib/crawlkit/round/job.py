"""The stages of a round wired to a crawl's folder: reads tables, calls stages/, writes under the
commit lock.

Each stage function takes (job, round) and returns its counts: rows_in = rows_out +
sum(rejected.values()), else the stage fails (`StageError`). A finished stage has a mark; running it
again returns the mark, or with `force` does it again, which changes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from crawlkit.adapters.lake.delta import Part, TableError, Tables, in_list, quote
from crawlkit.adapters.lake.parquet import add_action, arrow_table
from crawlkit.adapters.store.flock import FileLock, LockHeld
from crawlkit.adapters.store.lease import LeaseLock
from crawlkit.adapters.store.parts import part_keys, read_part
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.config import Config
from crawlkit.round.command_intake import alive, heed, take_commands
from crawlkit.round.state import Crawl, CrawlError, Place, Round
from crawlkit.rules.url.canonical import UrlPolicy
from crawlkit.rules.url.seed_lists import FORMS
from crawlkit.runtime.cpu_time import cpu_s, process_tree
from crawlkit.runtime.session import COMPILED, build_session, spark_settings, use_s3
from crawlkit.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Counts = dict[str, Any]
# due URLs that generate left out, by reason: kept beside its list, for a run that dies between
# claim and mark
LEFT_OUT = "left-out"
COMPILED_ROWS = 100_000  # 1.4 million links are ranked in 4.7 CPU s, and in 11 by interpreted plans
REBUILT = ("crawldb", "crawldb_log", "buckets")  # tables that `crawlkit rebuild` makes again


class StageError(RuntimeError):
    """A stage failed; the tables are as they were before it. Exit code 1."""


class Job:
    """A crawl with a Spark session."""

    def __init__(
        self,
        crawl: Crawl,
        quick: bool = False,
        say: Callable[[dict[str, Any]], None] = lambda event: None,
        spark: "SparkSession | None" = None,
        may_lack: Collection[str] = (),
    ) -> None:
        """may_lack: tables that may be gone, since they are made again."""
        self.crawl, self.cfg, self.quick, self.say, self._given, self._may_lack = (
            crawl,
            crawl.cfg,
            quick,
            say,
            spark,
            may_lack,
        )
        self._driver: FileLock | LeaseLock | None = None

    @cached_property
    def spark(self) -> "SparkSession":
        spark, s3 = self._given, "://" in self.crawl.tables_root
        if spark is None:
            scratch = self.crawl.scratch / "spark"
            scratch.mkdir(parents=True, exist_ok=True)
            spark = build_session(
                self.cfg.spark, f"crawlkit {self.cfg.crawl.id}", scratch, self.quick, s3
            )
        if s3:
            use_s3(spark, self.cfg.s3)
        return spark

    @cached_property
    def tables(self) -> Tables:
        """Raises TableError if a table that once was written is gone."""
        tables = self.crawl.tables(lambda: self.spark, self._guard)
        check_tables(self.crawl, tables, self._may_lack)
        return tables

    def keep_known(self) -> None:
        """Remember which tables have been written, so that a lost one is not taken for an empty
        one.
        """
        known = set(self.crawl.known_tables())
        new = [name for name in TABLES if name not in known and self.tables.exists(name)]
        if new:
            self.crawl.set_known_tables([*known, *new])

    def read(self, name: str, part: Part | None = None) -> "DataFrame":
        return self.tables.read(name, part)

    def live_log(self, again: int | None = None) -> "tuple[DataFrame, bool]":
        """Rows of crawldb_log that are not in crawldb yet (and those from the number `again` on),
        and whether they are few (stages/fold.py).
        """
        from crawlkit.stages.fold import FEW_ROWS, folded_by_all, live_log

        through = folded_by_all(
            (r["folded_through"] for r in self.tables.rows("buckets", ["folded_through"])), again
        )
        newer = None if through is None else ("updated_no", through)
        return (
            live_log(self.tables.read("crawldb_log", above=newer), self.read("buckets"), again),
            self.tables.count("crawldb_log", above=newer) <= FEW_ROWS,
        )

    def of_round(self, name: str, round_: Round) -> "DataFrame":
        return self.read(name, {"round_id": [round_.id]})

    @contextlib.contextmanager
    def compiled(self, rows: int) -> Iterator[None]:
        """Let a short round's queries over this many rows be compiled, if there are enough of them
        to pay for it.
        """
        if self.quick and rows >= COMPILED_ROWS:
            with spark_settings(self.spark, COMPILED):
                yield
        else:
            yield

    def frame(self, name: str, rows: Sequence[Mapping[str, Any]]) -> "DataFrame":
        """Rows (times as Unix s) as a frame of a table's schema; what a row lacks is null."""
        return self.spark.createDataFrame(arrow_table(TABLES[name], rows))

    def tell(self, text: str) -> None:
        """Say which step of an upkeep begins."""
        self.say({"event": "step", "text": text})

    # -- running -----------------------------------------------------------------------
    @contextlib.contextmanager
    def driving(self, round_: Round, region: str | None = None) -> Iterator[None]:
        """Hold a round (or a region's fetch of it) while its stages run: once another process has
        taken it over, none starts here and nothing is committed. Raises LockHeld.
        """
        with self.crawl.driver_lock(round_, region) as self._driver:
            try:
                yield
            finally:
                self._driver = None

    def _guard(self) -> None:
        """Just before each commit. Raises LockHeld."""
        self.crawl.lock.check()
        self._still_driving()

    def _still_driving(self) -> None:
        if self._driver is not None:
            self._driver.check()

    def run(self, stage: str, round_: Round, force: bool = False, **options: Any) -> Counts:
        """One stage of a round. Raises StageError, CrawlError, LockHeld."""
        self._still_driving()
        name = f"{stage}-{options['region']}" if options.get("region") else stage
        done = self.crawl.mark(round_, name)
        if done is not None and not force:
            return done | {"repeated": True}
        if round_.state != "open" and stage not in ("report", "rank"):
            raise CrawlError(f"round {round_.id} is {round_.state}: its stages cannot be run again")
        if round_.state == "open":
            heed(self.crawl, round_)
        started, before = time.time(), process_tree()
        self.say({"event": "stage", "stage": stage, "round_id": round_.id})
        counts = STAGES[stage](self, round_, **options)
        self.keep_known()
        rejected = sum(counts.get("rejected", {}).values())
        if "rows_in" in counts and counts["rows_in"] != counts["rows_out"] + rejected:
            raise StageError(
                f"{stage} of round {round_.id} does not add up: {counts['rows_in']} rows in,"
                f" {counts['rows_out']} out, {rejected} rejected"
            )
        counts |= {
            "stage": stage,
            "started": started,
            "ended": time.time(),
            "cpu_s": round(cpu_s(before, process_tree()), 2),
        }
        self._still_driving()
        self.crawl.set_mark(round_, name, counts)
        self.say({"event": "stage_done", "round_id": round_.id, **counts})
        return counts

    def stop(self) -> None:
        """End the session, if it was made here."""
        if self._given is None and "spark" in self.__dict__:
            from py4j.protocol import Py4JError

            with contextlib.suppress(
                OSError, Py4JError
            ):  # its JVM has died: the caller is told by the error on its way
                self.spark.stop()


# -- stages ----------------------------------------------------------------------------
def inject(
    job: Job,
    round_: Round,
    lines: Iterable[str] = (),
    priority_class: int = 1,
    source: str = "seed",
    mode: str = "keep",
    form: str = "urls",
    first_line: int = 1,
    due_at: float | None = None,
) -> Counts:
    """Seed lines, or those of a list (`form`: rules/url/seed_lists.py) -> found rows.

    mode: keep, update or overwrite what is known of a URL.

    due_at: makes known URLs due (Unix s). Raises CrawlError for new lines of a round whose rows
    have been folded already: no later fold would see them.
    """
    from crawlkit.stages.inject import read_lines

    lines = list(lines)
    # the lines name the writer: the same file twice is one injection, another file of the same
    # round is added
    writer = (
        "inject-"
        + hashlib.sha256(
            "\n".join(
                [mode, source, str(priority_class), *([form] if form != "urls" else ()), *lines]
            ).encode("utf-8", "surrogatepass")
        ).hexdigest()[:12]
    )
    rows, rejects, counts = read_lines(
        lines,
        now=round_.now,
        buckets=job.cfg.frontier.buckets,
        policy=UrlPolicy.of(job.cfg.urls),
        priority_class=priority_class,
        source=source,
        max_url_bytes=job.cfg.scope.max_url_bytes,
        parse=FORMS[form],
        first_line=first_line,
    )
    mine = {"round_id": [round_.id], "writer": [writer]}
    if not job.tables.count("crawldb_log", mine) and any(
        (r["folded_through"] or 0) >= round_.no
        for r in job.tables.rows("buckets", ["folded_through"])
    ):
        raise CrawlError(
            f"round {round_.id} has updated the frontier already: inject into the next one (without"
            " --round-id)"
        )
    found = [
        r
        | {
            "updated_no": round_.no,
            "round_id": round_.id,
            "writer": writer,
            "kind": "found",
            "seq": n,
            "force": False,
            "mode": mode,
            "due_at": due_at,
        }
        for n, r in enumerate(rows)
    ]
    known = 0
    if rows and (job.tables.exists("crawldb") or job.tables.exists("crawldb_log")):
        buckets = sorted({r["host_bucket"] for r in rows})
        of_others = (
            f"{in_list('host_bucket', buckets)} AND NOT (round_id = {quote(round_.id)} AND writer ="
            f" {quote(writer)})"
        )
        keys = job.frame("crawldb_log", found).select("url_key")
        old = (
            job.read("crawldb", {"host_bucket": buckets})
            .select("url_key")
            .unionByName(job.live_log()[0].where(of_others).select("url_key"))
        )
        known = keys.join(old.distinct(), "url_key", "left_semi").count()
    if rows:
        with job.crawl.lock:
            job.tables.replace("crawldb_log", found, mine)
    if rejects:
        with job.crawl.lock:
            job.tables.replace(
                "rejects",
                [r | {"round_id": round_.id, "stage": writer} for r in rejects],
                {"round_id": [round_.id], "stage": [writer]},
            )
    refused: dict[str, int] = {}
    for r in rejects:
        refused[r["reason"]] = refused.get(r["reason"], 0) + 1
    added = len(rows) - known
    return {
        "rows_in": counts["lines"],
        "rows_out": added,
        "rejected": {
            "duplicates": counts["duplicates"] + known,
            "comments": counts["comments"],
            **refused,
        },
        "added": added,
        "duplicates": counts["duplicates"] + known,
        "refused": counts["refused"],
        "buckets": sorted(
            {r["host_bucket"] for r in rows}
            | set((job.crawl.mark(round_, "inject") or {}).get("buckets", []))
        ),
        "examples": [f"{r['detail']}: {r['item'][:120]}" for r in rejects[:5]],
    }


def generate(job: Job, round_: Round, clock_now: float | None = None) -> Counts:
    """Buckets -> fetch list, then the claims. An unclaimed list is garbage: a rerun starts anew."""
    from pyspark.sql import functions as F

    from crawlkit.stages import generate as g
    from crawlkit.stages.fold import reduce_rows

    cfg, clock_now = job.cfg, time.time() if clock_now is None else clock_now
    with job.crawl.lock:
        if round_.buckets:
            planned = job.of_round("fetchlist", round_)
            return _planned_counts(round_, planned) | {"left_out": job.crawl.mark(round_, LEFT_OUT)}
        summary = job.tables.rows("buckets", ["host_bucket", *(f"next_due_{c}" for c in range(4))])
        commanded, urgent = take_commands(job, round_)
        injected = {*(job.crawl.mark(round_, "inject") or {}).get("buckets", []), *commanded}
        known = {r["host_bucket"]: r for r in summary}
        for b in injected:
            row = known.setdefault(
                b, {"host_bucket": b, **{f"next_due_{c}": None for c in range(4)}}
            )
            row["next_due_1"] = min(row["next_due_1"] or round_.now, round_.now)
        taken = {b for b, r in job.crawl.claims().items() if r != round_.id}
        buckets = g.choose_buckets(
            known.values(), round_.now, cfg.frontier.buckets_per_round, taken
        )
        if not buckets:
            return {"planned": 0, "buckets": 0, "slots": 0}
        mine = {"host_bucket": buckets}
        log, few = job.live_log()
        rows = reduce_rows(
            job.read("crawldb", mine), log.where(in_list("host_bucket", buckets)), few
        )
        hostdb = job.read("hostdb", mine)
        orders = read_orders(job.crawl.objects)
        rows = g.marked(rows, urgent, orders.hosts, orders.domains)
        due = g.select_due(
            rows,
            hostdb,
            job.read("host_ranks"),
            cfg,
            round_.now,
            clock_now,
            round_.seed,
            orders.policies,
        ).persist()
        try:
            stats = (
                due.groupBy("domain", "left_reason")
                .agg(
                    F.count("*").alias("n"),
                    F.sum("left_out").alias("left_out"),
                    F.sum(
                        F.greatest(
                            F.coalesce("host_delay_ms", F.lit(0)) / 1000.0,
                            F.lit(cfg.politeness.delay_s),
                        )
                    ).alias("cost_s"),
                )
                .collect()
            )
            left_out: dict[str, int] = {}
            for r in stats:
                if r.left_reason is not None:
                    left_out[r.left_reason] = left_out.get(r.left_reason, 0) + r.left_out
            stats = [r for r in stats if r.left_reason is None]
            if not stats:
                return {"planned": 0, "buckets": 0, "slots": 0, "left_out": left_out}
            ips = {
                r.domain: r.ips
                for r in (
                    hostdb.where("size(last_ips) > 0")
                    .groupBy("domain")
                    .agg(F.array_distinct(F.flatten(F.collect_list("last_ips"))).alias("ips"))
                    .collect()
                )
            }
            slot_of, _ = g.assign_in_regions(
                [{**r.asDict(), "ips": ips.get(r.domain)} for r in stats], cfg
            )
            slot_frame = job.spark.createDataFrame(
                [(domain, slot, region) for domain, (slot, region) in slot_of.items()],
                "domain string, slot int, region string",
            )
            planned = g.with_robots_rows(
                due.where("left_reason IS NULL"), job.read("robots"), hostdb, slot_frame
            ).withColumn("round_id", F.lit(round_.id))
            job.tables.replace("fetchlist", planned, {"round_id": [round_.id]})
        finally:
            due.unpersist()
        job.crawl.set_mark(round_, LEFT_OUT, left_out)
        job.crawl.claim(round_, buckets)
    return _planned_counts(round_, job.of_round("fetchlist", round_)) | {"left_out": left_out}


def _planned_counts(round_: Round, planned: "DataFrame") -> Counts:
    from pyspark.sql import functions as F

    r = planned.agg(
        F.count("*").alias("n"),
        F.count(F.when(F.col("kind") == "page", 1)).alias("pages"),
        F.max("slot").alias("slot"),
        F.countDistinct("host").alias("hosts"),
        F.array_sort(F.collect_set(F.when(F.col("region") != "", F.col("region")))).alias(
            "regions"
        ),
        F.count(F.when(F.col("kind") == "sitemap", 1)).alias("sitemaps"),
        F.count(F.when(F.col("kind") == "feed", 1)).alias("feeds"),
    ).first()
    return {
        "planned": r.n,
        "pages": r.pages,
        "buckets": len(round_.buckets),
        "slots": (r.slot or 0) + 1,
        "hosts": r.hosts,
        "sitemaps": r.sitemaps,
        "feeds": r.feeds,
        "regions": r.regions,
        "rows_in": r.n,
        "rows_out": r.n,
    }


def fetch(job: Job, round_: Round, region: str | None = None) -> Counts:
    """The fetch list (of a region) -> WARC files and parts; one task a slot, one action, no shuffle
    after it.
    """
    from functools import partial

    from crawlkit.slot.run import run_slot_in
    from crawlkit.stages.fetch import run_slots

    slots = (job.crawl.mark(round_, "generate") or {}).get("slots", 0)
    if not slots:
        return {"planned": 0}
    planned = job.of_round("fetchlist", round_)
    if region is not None:
        planned = planned.where(f"region = {quote(region)}")
    runner = partial(
        run_slot_in,
        cfg=job.cfg,
        state_root=str(job.crawl.objects.root),
        warc_root=str(job.crawl.warc.root),
        seed=round_.seed,
    )
    done = run_slots(planned, slots, runner)
    total: dict[str, float] = {}
    for row in done:
        for name, value in row.items():
            if name != "slot":
                total[name] = total.get(name, 0) + value
    return {k: int(v) if v == int(v) else v for k, v in total.items()} | {"slots": len(done)}


def _settle_regions(job: Job, round_: Round) -> None:
    """One mark of fetch for those of the regions; what a region has not fetched is given back.

    Raises LockHeld while one is at it.
    """
    marks = {
        r: job.crawl.mark(round_, f"fetch-{r}")
        for r in (job.crawl.mark(round_, "generate") or {}).get("regions", ())
    }
    done = {r: m for r, m in marks.items() if m is not None}
    if not done or job.crawl.mark(round_, "fetch") is not None:
        return
    missing = sorted(set(marks) - set(done))
    if missing and alive(job.crawl, round_):
        raise LockHeld(
            f"region {', '.join(missing)} of round {round_.id} is still fetching, or died a moment"
            f" ago: wait for its end or {job.cfg.lease.ttl_s + job.cfg.lease.margin_s:.0f} s"
        )
    total: Counts = {
        "stage": "fetch",
        "started": min(m["started"] for m in done.values()),
        "ended": max(m["ended"] for m in done.values()),
        "regions": sorted(done),
        "regions_missing": missing,
    }
    for m in done.values():
        for name, value in m.items():
            if isinstance(value, int | float) and name not in ("started", "ended"):
                total[name] = total.get(name, 0) + value
    job.crawl.set_mark(round_, "fetch", total)


def parts_of(job: Job, round_: Round, hosts_only: bool = False) -> "DataFrame":
    from crawlkit.stages.commit import read_parts

    keys = job.crawl.pin(round_, "commit", part_keys(job.crawl.objects, f"parts/{round_.id}/"))
    objects = job.crawl.objects

    def read(key: str) -> Iterable[tuple[int, int, object]]:
        part = read_part(objects, key)
        return ((part.attempt, part.n, r) for r in part.records)

    return read_parts(job.spark, keys, read, UrlPolicy.of(job.cfg.urls), hosts_only)


def commit(job: Job, round_: Round) -> Counts:
    """Parts -> captures and robots; exactly one outcome for each planned row."""
    from crawlkit.stages.commit import captures_of, robots_of

    _settle_regions(job, round_)
    planned = job.of_round("fetchlist", round_).select("url_key", "url", "kind", "host", "slot")
    parts = parts_of(job, round_).persist()
    where = {"round_id": [round_.id]}
    try:
        with job.crawl.lock:
            job.tables.replace("captures", captures_of(planned, parts, round_.id), where)
            job.tables.replace("robots", robots_of(parts, round_.id), where)
    finally:
        parts.unpersist()
    outcomes: dict[str, int] = {}
    for r in (
        job.of_round("captures", round_)
        .where("is_outcome")
        .groupBy("outcome", "reason")
        .count()
        .collect()
    ):
        outcomes[r.outcome + (f" ({r.reason})" if r.reason else "")] = r["count"]
    n = planned.count()
    if n != sum(outcomes.values()):
        raise StageError(
            f"commit of round {round_.id}: {n} planned, {sum(outcomes.values())} outcomes"
        )
    return {"rows_in": n, "rows_out": n, "outcomes": outcomes}


def parse(job: Job, round_: Round) -> Counts:
    """WARC records -> pages, links, found rows, rejects."""
    from functools import partial

    from crawlkit.adapters.warc.record_store import RecordReader
    from crawlkit.stages import parse as p
    from crawlkit.stages import parse_sitemap as s
    from crawlkit.stages import parse_write as w

    spark, where, log, rejects = (
        job.spark,
        {"round_id": [round_.id]},
        {"round_id": [round_.id], "writer": ["parse"]},
        {"round_id": [round_.id], "stage": ["parse"]},
    )
    fetchlist, sitemaps = (
        job.of_round("fetchlist", round_),
        (job.crawl.mark(round_, "generate") or {}).get("sitemaps", 0),
    )
    items = p.to_parse(
        job.of_round("captures", round_),
        fetchlist,
        job.read("host_ranks"),
        s.vouched(job.read("robots")) if sitemaps else None,
    )
    put = partial(
        w.written,
        writers={name: job.tables.writer(name) for name in w.TABLES},
        round_id=round_.id,
        schema=p.arrow_schema(spark, w.WRITTEN_SCHEMA),
    )
    rows = p.parsed(
        items,
        RecordReader(job.crawl.warc),
        job.cfg,
        round_.now,
        spark.sparkContext.defaultParallelism,
        put,
        w.WRITTEN_SCHEMA,
    ).persist()
    try:
        told = rows.where("found IS NULL").select("added", "counted").collect()
        found = rows.where("found IS NOT NULL").select("found.*")
        added = {
            name: [add_action(r.added.asDict()) for r in told if r.added and r.added.table == name]
            for name in w.TABLES
        }
        if job.cfg.frontier.sitemaps and job.tables.count("robots", where):
            named = s.named_by_robots(
                job.of_round("robots", round_),
                fetchlist,
                job.cfg,
                round_.now,
                p.arrow_schema(spark),
                p.PARSED_SCHEMA,
            )
            found = found.unionByName(p.found_in(named))
            added["rejects"] += job.tables.write("rejects", p.rejects_of(named, round_.id), rejects)
        with job.crawl.lock:
            job.tables.commit("pages", added["pages"], where)
            job.tables.commit("links", added["links"], where)
            job.tables.replace(
                "crawldb_log", p.found_of(found, round_.id, round_.no, round_.now), log
            )
            job.tables.commit("rejects", added["rejects"], rejects)
    finally:
        rows.unpersist()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for r in (r.counted for r in told if r.counted):
        counts[r.what][r.reason] += r.n
    pages, redirects, links, rows_in = (
        counts[what][""] for what in ("pages", "redirects", "links", "items")
    )
    return {
        "rows_in": rows_in,
        "rows_out": pages + redirects,
        "rejected": dict(counts["rejected"]),
        "pages": pages,
        "links": links,
        "entries_refused": dict(counts["refused"]),
    }


def dedup(job: Job, round_: Round) -> Counts:
    """The round's pages against everything known -> contents, sim_bands, similar, duplicates."""
    from crawlkit.stages import dedup as d

    where, others = {"round_id": [round_.id]}, f"round_id <> {quote(round_.id)}"
    pages = (
        job.of_round("pages", round_)
        .select("url_key", "url", "capture_id", "text_sha256", "simhash", "minhash")
        .persist()
    )
    try:
        n, texts = pages.count(), pages.where("text_sha256 IS NOT NULL").count()
        if n:
            with job.crawl.lock:
                job.tables.replace("contents", d.contents_of(pages, round_.id, round_.no), where)
                job.tables.commit(
                    "sim_bands",
                    job.tables.files(
                        d.new_bands(
                            pages,
                            job.read("sim_bands").where(others),
                            job.cfg.dedup,
                            round_.id,
                            job.tables.writer("sim_bands"),
                        )
                    ),
                    where,
                )
                pairs, blocks_cut = d.meetings(
                    job.of_round("sim_bands", round_),
                    job.read("sim_bands").where(others),
                    job.cfg.dedup,
                )
                rounds = sorted(
                    {r for side in ("a_round", "b_round") for r in pairs[side].to_pylist()}
                )
                bodies = job.read("pages", {"round_id": rounds}).select(
                    "capture_id", "text", "text_bytes"
                )
                alike = (
                    job.tables.files(
                        d.verified(
                            job.spark,
                            pairs,
                            bodies,
                            job.cfg.dedup,
                            round_.id,
                            job.tables.writer("similar"),
                        )
                    )
                    if rounds
                    else []
                )
                job.tables.commit("similar", alike, where)
                with job.compiled(job.tables.count("similar")):
                    job.tables.replace(
                        "duplicates",
                        d.clusters(
                            job.spark, job.read("contents"), job.read("similar"), job.read("ranks")
                        ),
                    )
        members = (
            job.read("duplicates")
            .selectExpr("count(*) AS members", "count(DISTINCT cluster_id) AS clusters")
            .first()
        )
    finally:
        pages.unpersist()
    return {
        "rows_in": n,
        "rows_out": n,
        "texts": texts,
        "clusters": members.clusters,
        "members": members.members,
        "blocks_cut": blocks_cut if n else 0,
    }


def update(job: Job, round_: Round, clock_now: float | None = None) -> Counts:
    """State rows, the fold into crawldb, hostdb, buckets."""
    from crawlkit.stages import update as u
    from crawlkit.stages.commit import host_states
    from crawlkit.stages.fold import (
        all_in,
        bucket_summary,
        log_summary,
        merge_summaries,
        reduce_rows,
    )

    clock_now = job.crawl.pin(round_, "update", time.time() if clock_now is None else clock_now)
    planned, captures = job.of_round("fetchlist", round_), job.of_round("captures", round_)
    states = host_states(parts_of(job, round_, hosts_only=True)).persist()
    with job.crawl.lock:
        if round_.buckets:
            rows = u.state_rows(
                planned,
                captures,
                job.of_round("pages", round_),
                states,
                round_.id,
                round_.no,
                round_.now,
                job.cfg,
            )
            job.tables.replace("crawldb_log", rows, {"round_id": [round_.id], "writer": ["update"]})
            hosts = job.read("hostdb", {"host_bucket": round_.buckets})
            job.tables.replace(
                "hostdb",
                u.host_rows(
                    hosts, planned, captures, states, round_.no, round_.now, clock_now, job.cfg
                ),
                {"host_bucket": round_.buckets},
            )
        low = all_in(round_.no, (r.no for r in job.crawl.open_rounds() if r.id != round_.id))
        live, few = job.live_log(
            again=round_.no
        )  # a parse run again after the fold may have found more
        known = {
            r["host_bucket"]: r for r in job.tables.rows("buckets", TABLES["buckets"].column_names)
        }
        seen = [r.asDict() for r in log_summary(live).collect()]
        fold = fold_choice(job, seen)
        if fold:
            mine = {"host_bucket": fold}
            job.tables.replace(
                "crawldb",
                reduce_rows(
                    job.read("crawldb", mine), live.where(in_list("host_bucket", fold)), few
                ),
                mine,
            )
            fresh = {
                r.host_bucket: r.asDict()
                for r in bucket_summary(job.read("crawldb", mine), low).collect()
            }
            known = merge_summaries(
                known,
                fresh,
                [r for r in seen if r["host_bucket"] not in fresh],
                low,
                again=round_.no,
            )
            job.tables.replace("buckets", list(known.values()))
    states.unpersist()
    outcomes = (job.crawl.mark(round_, "commit") or {}).get("outcomes", {})
    return {
        "known": sum(r["rows"] for r in known.values()),
        "not_deferred": sum(n for o, n in outcomes.items() if not o.startswith("deferred")),
        "folded_buckets": len(fold),
    }


def fold_choice(job: Job, log_rows: list[Any]) -> list[int]:
    """Which buckets to fold: all with log rows while the table is small, else the share 1/k with
    the most log rows (DESIGN decision 3).

    k = table bytes / (2 x log bytes): about 3 bytes written for each changed byte.
    """
    rows = sorted(log_rows, key=lambda r: (-r["log_rows"], r["host_bucket"]))
    if not rows:
        return []
    table, log = job.tables.bytes("crawldb"), job.tables.bytes("crawldb_log")
    k = max(1.0, table / (2.0 * log)) if log and table > SMALL_TABLE_BYTES else 1.0
    return sorted(r["host_bucket"] for r in rows[: max(1, round(len(rows) / k))])


SMALL_TABLE_BYTES = 64 * 1024 * 1024


def rank(job: Job, round_: Round) -> Counts:
    """In-links, host quality, proposals of parameter rules."""
    from crawlkit.stages.rank import host_ranks, page_ranks, param_rules

    links = job.read("links")
    with job.crawl.lock, job.compiled(job.tables.count("links")):
        job.tables.replace("ranks", page_ranks(links, round_.no))
        job.tables.replace(
            "host_ranks",
            host_ranks(
                links,
                job.read("captures"),
                job.read("duplicates"),
                job.read("hostdb"),
                job.read("domain_authority"),
                round_.no,
            ),
        )
        job.tables.replace("param_rules", param_rules(job.read("pages"), round_.no))
    return {"param_rules": job.tables.count("param_rules")}


def report(job: Job, round_: Round) -> Counts:
    """Rounds, stages and metrics tables; the HTML report and its JSON twin."""
    from crawlkit.observe.report import write_report

    return write_report(job, round_)


STAGES: dict[str, Callable[..., Counts]] = {
    "inject": inject,
    "generate": generate,
    "fetch": fetch,
    "commit": commit,
    "parse": parse,
    "dedup": dedup,
    "update": update,
    "rank": rank,
    "report": report,
}
ROUND = ("generate", "fetch", "commit", "parse", "dedup", "update", "rank", "report")


def make_job(data: Place, cfg: Config, **kw: Any) -> Job:
    """A job on a folder.

    Raises CrawlError if the folder is not usable, TableError if a table that once was written is
    gone.
    """
    crawl = Crawl(data, cfg)
    crawl.check()
    job = Job(crawl, **kw)
    _ = job.tables
    return job


def check_tables(crawl: Crawl, tables: Tables, may_lack: Collection[str] = ()) -> None:
    """Raises TableError if a table that once was written is gone."""
    for name in crawl.known_tables():
        if name not in may_lack and not tables.exists(name):
            raise TableError(
                f"table {name} is missing: {tables.path(name)} was written before and is gone;"
                " restore the folder from a copy"
                + (
                    "; or make it again from the other tables with `crawlkit rebuild`"
                    if name in REBUILT
                    else ""
                )
            )
