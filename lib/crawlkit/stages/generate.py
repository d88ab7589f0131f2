"""generate: the most due rows of the most due unclaimed buckets -> the fetch list.

Contract: each selected URL is listed once; a registered domain (and domains whose hosts shared an
address) has one slot; one `robots` row for each origin comes before its pages; a host has at most
its cap. Each due row is listed or counted in `left_out` by its reason.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame, Window, functions as F

from crawlkit.config.whole import Config
from crawlkit.model import Round
from crawlkit.outcomes import Reason
from crawlkit.rules.frontier.priority import points_sql
from crawlkit.rules.frontier.slots import assign_in_regions
from crawlkit.rules.politeness.host_state import pages_left_sql

READS = (
    "buckets",
    "commands",
    "crawldb",
    "crawldb_log",
    "fetchlist",
    "host_ranks",
    "hostdb",
    "robots",
)
WRITES = ("commands", "crawldb_log", "fetchlist", "hostdb")

ORIGIN = r"^(https?://[^/?#]+)"


@dataclass(frozen=True)
class Orders:
    """What operators ask of a round.

    urgent: keys of URLs that are to be fetched in it. hosts, domains: names that are stopped.
    policies: quotas by host (adapters/store/stop_list.py).
    """

    urgent: Collection[bytes] = ()
    hosts: Collection[str] = ()
    domains: Collection[str] = ()
    policies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Tables:
    """Frames that generate reads; rows and hostdb are those of the chosen buckets.

    rows: crawldb as folded with its log.
    """

    rows: DataFrame
    hostdb: DataFrame
    host_ranks: DataFrame
    robots: DataFrame


@dataclass(frozen=True)
class Plan:
    """fetch_list: rows of `fetchlist`; None if nothing may be fetched.

    left_out: due URLs that are not listed, by reason.
    """

    fetch_list: DataFrame | None
    left_out: dict[str, int]


@contextlib.contextmanager
def generate(
    tables: Tables, orders: Orders, round_: Round, cfg: Config, clock_now: float
) -> Iterator[Plan]:
    """The round's plan, valid while the context is open.

    clock_now: real time (Unix s): a host that may not be asked within the round is left out.
    """
    rows = mark_orders(tables.rows, orders)
    due = select_due(
        rows,
        tables.hostdb,
        tables.host_ranks,
        cfg,
        round_.now,
        clock_now,
        round_.seed,
        orders.policies,
    ).persist()
    try:
        domains, left_out = _count_domains(due, tables.hostdb, cfg)
        if not domains:
            yield Plan(None, left_out)
            return
        slot_of, _ = assign_in_regions(domains, cfg)
        slots = rows.sparkSession.createDataFrame(
            [(domain, slot, region) for domain, (slot, region) in slot_of.items()],
            "domain string, slot int, region string",
        )
        pages = due.where("left_reason IS NULL")
        listed = with_robots_rows(pages, tables.robots, tables.hostdb, slots)
        yield Plan(listed.withColumn("round_id", F.lit(round_.id)), left_out)
    finally:
        due.unpersist()


def count_planned(fetch_list: DataFrame, buckets: int) -> dict[str, Any]:
    """The stage's counts of a written fetch list. buckets: how many were claimed."""
    kind = F.col("kind")
    region = F.when(F.col("region") != "", F.col("region"))
    aggregates = {
        "planned": F.count("*"),
        "pages": F.count(F.when(kind == "page", 1)),
        "sitemaps": F.count(F.when(kind == "sitemap", 1)),
        "feeds": F.count(F.when(kind == "feed", 1)),
        "hosts": F.countDistinct("host"),
        "top_slot": F.max("slot"),
        "regions": F.array_sort(F.collect_set(region)),
    }
    row = fetch_list.agg(*[c.alias(name) for name, c in aggregates.items()]).collect()[0].asDict()
    slots = (row.pop("top_slot") or 0) + 1
    n = row["planned"]
    return row | {"buckets": buckets, "slots": slots, "rows_in": n, "rows_out": n}


def mark_orders(rows: DataFrame, orders: Orders) -> DataFrame:
    """Rows with `urgent` (an operator wants it fetched in this round) and `stopped`."""
    spark = rows.sparkSession
    stopped = F.lit(False)
    for column, names in (("host", orders.hosts), ("domain", orders.domains)):
        if names:
            listed = spark.createDataFrame([(n,) for n in names], f"{column} string").withColumn(
                f"stopped_{column}", F.lit(True)
            )
            rows = rows.join(F.broadcast(listed), column, "left")
            stopped = stopped | F.coalesce(f"stopped_{column}", F.lit(False))
    rows = rows.withColumn("stopped", stopped).drop("stopped_host", "stopped_domain")
    keys = [(bytearray(k),) for k in dict.fromkeys(orders.urgent)]
    if not keys:
        return rows.withColumn("urgent", F.lit(False))
    asked = spark.createDataFrame(keys, "url_key binary").withColumn("asked", F.lit(True))
    return (
        rows.join(F.broadcast(asked), "url_key", "left")
        .withColumn("urgent", F.coalesce("asked", F.lit(False)))
        .drop("asked")
    )


def select_due(
    rows: DataFrame,
    hostdb: DataFrame,
    host_ranks: DataFrame,
    cfg: Config,
    now: float,
    clock_now: float,
    seed: int,
    policies: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> DataFrame:
    """crawldb rows of a round with score and explore: due, allowed, capped for each host, within
    the round's budget.

    Of a host of which rows are left out there is one row more, with `left_out` (how many) and
    `left_reason`; both are null in the rows that are chosen.

    Args:
        rows: `mark_orders`.
        now: nominal time (schedules). clock_now: real time (politeness).
        policies: the operator's quotas by host.
    """
    wanted = F.col("next_fetch") <= F.timestamp_micros(F.lit(round(now * 1e6)))
    news = F.col("host").isin(*cfg.schedule.news_hosts or ("",))
    hosts = hostdb.select(
        "host",
        F.coalesce("delay_ms", F.lit(0)).alias("host_delay_ms"),
        "next_allowed_at",
        F.coalesce("blacklisted", F.lit(False)).alias("barred"),
        *_USED,
    )
    due = (
        rows.where(wanted & ~F.col("state").isin("dead", "refused"))
        .join(F.broadcast(hosts), "host", "left")
        .join(F.broadcast(host_ranks.select("host", "quality")), "host", "left")
        .withColumns(
            {
                "quality": F.coalesce("quality", F.lit(0.5)),
                "class": F.when(news, "news").otherwise("generic"),
                "barred_reason": _barred_reason(clock_now + cfg.round.minutes * 60),
            }
        )
        .drop("stopped", "barred")
    )
    scored = _with_quotas(due.withColumn("score", F.expr(points_sql(now))), policies)
    capped = _cap_hosts(scored, cfg, clock_now)
    return _within_budget(capped, cfg.round.max_urls, cfg.frontier.explore, seed)


def _barred_reason(end: float) -> Column:
    """Why nothing of a row's host may be requested before `end` (Unix s); null: it may."""
    later = F.col("next_allowed_at").cast("double") >= end
    return (
        F.when(F.col("stopped"), F.lit(str(Reason.STOP_LIST)))
        .when(F.coalesce("barred", F.lit(False)), F.lit(str(Reason.HOST_BLOCKED)))
        .when(later, F.lit(str(Reason.RETRY_AFTER)))
    )


def _with_quotas(rows: DataFrame, policies: Mapping[str, Mapping[str, Any]]) -> DataFrame:
    """Rows with the operator's quotas of their host; null: as configured."""
    names = ("quota_max", "cycle_quota_max")
    quotas = [(host, *(p.get(name) for name in names)) for host, p in policies.items()]
    own = [q for q in quotas if any(v is not None for v in q[1:])]
    if not own:
        return rows.withColumns({name: F.lit(None).cast("bigint") for name in names})
    frame = rows.sparkSession.createDataFrame(
        own, "host string, quota_max bigint, cycle_quota_max bigint"
    )
    return rows.join(F.broadcast(frame), "host", "left")


_USED = ("quota_used", "quota_day", "cycle_used", "cycle_day")


def _cap_hosts(rows: DataFrame, cfg: Config, clock_now: float) -> DataFrame:
    """The first rows of each host: no more than its quotas and its delay let through in the round.

    One row more represents those left out.
    """
    budget_s = cfg.round.minutes * 60
    delay_s = F.greatest(
        F.coalesce("host_delay_ms", F.lit(0)) / 1000.0, F.lit(cfg.politeness.delay_s)
    )
    fits = F.when(delay_s > 0, F.floor(budget_s / delay_s) + 1)
    day, cycle = (
        F.expr(e) for e in pages_left_sql(cfg.politeness, clock_now, clock_now + budget_s)
    )
    caps = {
        Reason.HOST_DAY_QUOTA: day,
        Reason.HOST_CYCLE_QUOTA: cycle,
        Reason.HOST_ROUND_QUOTA: F.lit(cfg.round.urls_per_host),
        Reason.ROUND_TIME: fits,
    }
    barred = F.col("barred_reason")
    fits_all = F.least(*caps.values())
    cap = F.when(barred.isNotNull(), 0).otherwise(fits_all)
    reasons = [F.when(c == fits_all, F.lit(str(reason))) for reason, c in caps.items()]
    why = F.coalesce(barred, *reasons)
    host = Window.partitionBy("host")
    first = host.orderBy(F.desc("urgent"), "priority_class", F.desc("score"), "depth", "url_key")
    numbered = rows.withColumns(
        {"host_pos": F.row_number().over(first), "of_host": F.count("*").over(host), "cap": cap}
    ).where(F.col("host_pos") <= F.col("cap") + 1)
    over = F.col("host_pos") > F.col("cap")
    marked = numbered.withColumns(
        {
            "left_out": F.when(over, F.col("of_host") - F.col("cap")),
            "left_reason": F.when(over, why),
        }
    )
    return marked.drop("of_host", "cap", "barred_reason", "quota_max", "cycle_quota_max", *_USED)


def _within_budget(rows: DataFrame, max_urls: int, explore: float, seed: int) -> DataFrame:
    """The best by class and score, and a share by chance (of the seed) among the rest; rows that
    represent others stay, behind all.
    """
    best = int(max_urls * (1 - explore))
    represents = F.col("left_out").isNotNull()
    by_score = Window.orderBy(
        represents, F.desc("urgent"), "priority_class", F.desc("score"), "depth", "url_key"
    )
    by_chance = Window.orderBy(
        represents, F.when(F.col("pos") <= best, 0).otherwise(1), F.xxhash64(F.lit(seed), "url_key")
    )
    rows = rows.withColumn("pos", F.row_number().over(by_score))
    over = rows.withColumn("chance", F.row_number().over(by_chance)).where(
        represents | (F.col("chance") <= max_urls)
    )
    return over.withColumn("explore", F.col("pos") > max_urls).drop("pos", "chance")


def _count_domains(
    due: DataFrame, hostdb: DataFrame, cfg: Config
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Domains with rows that are chosen (domain, n, cost_s: polite time, ips), and what is left
    out by reason.
    """
    delay_s = F.greatest(
        F.coalesce("host_delay_ms", F.lit(0)) / 1000.0, F.lit(cfg.politeness.delay_s)
    )
    counted = (
        due.groupBy("domain", "left_reason")
        .agg(
            F.count("*").alias("n"),
            F.sum("left_out").alias("left_out"),
            F.sum(delay_s).alias("cost_s"),
        )
        .collect()
    )
    left_out: dict[str, int] = {}
    for r in counted:
        if r.left_reason is not None:
            left_out[r.left_reason] = left_out.get(r.left_reason, 0) + r.left_out
    chosen = [r for r in counted if r.left_reason is None]
    if not chosen:
        return [], left_out
    addresses = (
        hostdb.where("size(last_ips) > 0")
        .groupBy("domain")
        .agg(F.array_distinct(F.flatten(F.collect_list("last_ips"))).alias("ips"))
        .collect()
    )
    ips = {r.domain: r.ips for r in addresses}
    return [{**r.asDict(), "ips": ips.get(r.domain)} for r in chosen], left_out


def with_robots_rows(
    pages: DataFrame, robots: DataFrame, hostdb: DataFrame, slots: DataFrame
) -> DataFrame:
    """The fetch list: pages with their slot and region (slots: domain, slot, region), one robots
    row for each origin with the stored copy and the host's state, ranked.
    """
    pages = pages.join(F.broadcast(slots), "domain").withColumns(
        {
            "kind": F.coalesce("fetch_kind", F.lit("page")),
            "origin": F.regexp_extract("url", ORIGIN, 1),
        }
    )
    origins = pages.groupBy("origin", "host", "domain", "host_bucket", "slot", "region").agg(
        F.max("score").alias("score")
    )
    newest = Window.partitionBy("origin").orderBy(F.desc("fetched_at"))
    copies = (
        robots.join(F.broadcast(origins.select("origin")), "origin", "left_semi")
        .withColumn("n", F.row_number().over(newest))
        .where("n = 1")
        .select(
            "origin",
            F.col("status").alias("robots_status"),
            F.col("body").alias("robots_body"),
            F.col("fetched_at").alias("robots_fetched_at"),
            F.col("expires").alias("robots_expires"),
        )
    )
    url = F.concat("origin", F.lit("/robots.txt"))
    rows = (
        origins.join(copies, "origin", "left")
        .join(hostdb.select("host", F.col("state_json").alias("host_state")), "host", "left")
        .withColumns(
            {
                "kind": F.lit("robots"),
                "url": url,
                "url_key": F.unhex(F.substring(F.sha2(url, 256), 1, 32)),
                "host_pos": F.lit(0),
            }
        )
    )
    all_rows = pages.unionByName(rows, allowMissingColumns=True)
    rank = Window.partitionBy("slot").orderBy(
        F.when(F.col("kind") == "robots", 0).otherwise(1),
        "host_pos",
        F.desc("score"),
        "kind",
        "url_key",
    )
    return all_rows.withColumn("rank", F.row_number().over(rank))
