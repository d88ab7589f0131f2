"""generate: the most due rows of the most due unclaimed buckets -> the fetch list, each row with
slot and rank.

Contract: every selected URL stands once; a registered domain (and domains whose hosts shared an
address) has one slot; one `robots` row for each origin stands before its pages; a host has at most
its cap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from crawlkit.config import Config
from crawlkit.outcomes import Reason
from crawlkit.rules.frontier.priority import points_sql
from crawlkit.rules.frontier.regions import region_of, serving
from crawlkit.rules.politeness.host_state import pages_left_sql

ORIGIN = r"^(https?://[^/?#]+)"


def choose_buckets(
    rows: Iterable[Mapping[str, Any]], now: float, limit: int, taken: set[int]
) -> list[int]:
    """At most `limit` unclaimed buckets with something due: those with due class 0 first, then the
    longest overdue.
    """
    due = []
    for r in rows:
        times = [r[f"next_due_{c}"] for c in range(4)]
        first = min((t for t in times if t is not None), default=None)
        if first is not None and first <= now and r["host_bucket"] not in taken:
            urgent = times[0] is not None and times[0] <= now
            due.append((not urgent, first, r["host_bucket"]))
    return sorted(b for *_, b in sorted(due)[:limit])


def marked(
    rows: DataFrame, urgent: Iterable[bytes], hosts: Iterable[str], domains: Iterable[str]
) -> DataFrame:
    """Rows of hosts and domains that are not stopped, with `urgent`: an operator wants it fetched
    in this round.
    """
    spark = rows.sparkSession
    for column, names in (("host", list(hosts)), ("domain", list(domains))):
        if names:
            rows = rows.join(
                F.broadcast(spark.createDataFrame([(n,) for n in names], f"{column} string")),
                column,
                "left_anti",
            )
    keys = [(bytearray(k),) for k in dict.fromkeys(urgent)]
    if not keys:
        return rows.withColumn("urgent", F.lit(False))
    return (
        rows.join(
            F.broadcast(
                spark.createDataFrame(keys, "url_key binary").withColumn("asked", F.lit(True))
            ),
            "url_key",
            "left",
        )
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

    now: nominal time (schedules). clock_now: real time (politeness): a host that may not be asked
        within the round is left out.
    policies: the operator's quotas by host (adapters/store/stop_list.py). Of a host of which some rows were
        left out there is one row more, with `left_out`
    (how many) and `left_reason`; both are null in the rows that were chosen.
    """
    cls = F.when(F.col("host").isin(*cfg.schedule.news_hosts or ("",)), "news").otherwise("generic")
    budget_s = cfg.round.minutes * 60
    hosts = hostdb.select(
        "host",
        F.coalesce("delay_ms", F.lit(0)).alias("host_delay_ms"),
        "next_allowed_at",
        F.coalesce("blacklisted", F.lit(False)).alias("barred"),
        *_USED,
    )
    due = (
        rows.where(
            (F.col("next_fetch") <= F.timestamp_micros(F.lit(round(now * 1e6))))
            & ~F.col("state").isin("dead", "refused")
        )
        .join(F.broadcast(hosts), "host", "left")
        .where(~F.coalesce("barred", F.lit(False)))
        .where(
            F.col("next_allowed_at").isNull()
            | (F.col("next_allowed_at").cast("double") < clock_now + budget_s)
        )
        .join(F.broadcast(host_ranks.select("host", "quality")), "host", "left")
        .withColumns({"quality": F.coalesce("quality", F.lit(0.5)), "class": cls})
    )
    scored = due.withColumn("score", F.expr(points_sql(now)))
    own = [
        (h, p.get("quota_max"), p.get("cycle_quota_max"))
        for h, p in policies.items()
        if (p.get("quota_max"), p.get("cycle_quota_max")) != (None, None)
    ]
    if own:
        scored = scored.join(
            F.broadcast(
                rows.sparkSession.createDataFrame(
                    own, "host string, quota_max bigint, cycle_quota_max bigint"
                )
            ),
            "host",
            "left",
        )
    else:
        scored = scored.withColumns(
            {"quota_max": F.lit(None).cast("bigint"), "cycle_quota_max": F.lit(None).cast("bigint")}
        )
    return _within_budget(
        _capped(scored, cfg, clock_now), cfg.round.max_urls, cfg.frontier.explore, seed
    )


_USED = ("quota_used", "quota_day", "cycle_used", "cycle_day")


def _capped(rows: DataFrame, cfg: Config, clock_now: float) -> DataFrame:
    """The first rows of each host: no more than its quotas and its delay let through in the round.

    One row more stands for those left out.
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
    cap = F.least(*caps.values())
    why = F.coalesce(*(F.when(c == cap, F.lit(str(reason))) for reason, c in caps.items()))
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
    return marked.drop("of_host", "cap", "quota_max", "cycle_quota_max", *_USED)


def _within_budget(rows: DataFrame, max_urls: int, explore: float, seed: int) -> DataFrame:
    """The best by class and score, and a share by chance (of the seed) among the rest; rows that
    stand for others stay, behind all.
    """
    best = int(max_urls * (1 - explore))
    stands = F.col("left_out").isNotNull()
    by_score = Window.orderBy(
        stands, F.desc("urgent"), "priority_class", F.desc("score"), "depth", "url_key"
    )
    by_chance = Window.orderBy(
        stands, F.when(F.col("pos") <= best, 0).otherwise(1), F.xxhash64(F.lit(seed), "url_key")
    )
    rows = rows.withColumn("pos", F.row_number().over(by_score))
    over = rows.withColumn("chance", F.row_number().over(by_chance)).where(
        stands | (F.col("chance") <= max_urls)
    )
    return over.withColumn("explore", F.col("pos") > max_urls).drop("pos", "chance")


def assign_slots(
    domains: Iterable[Mapping[str, Any]], slots: int, hot_share: float, hot: Iterable[str] = ()
) -> tuple[dict[str, int], int]:
    """Slot of each domain and the number of slots.

    domains: rows of domain, n (planned URLs), cost_s (polite time), ips. Domains that share an
    address go together; a hot domain (named, or above `hot_share` of all rows when there are
    several) has a slot of its own; the others are spread by their polite time, longest first.
    """
    rows = {d["domain"]: d for d in domains}
    total = sum(r["n"] for r in rows.values())
    hot_names = set(hot)
    groups = address_groups(rows)
    out: dict[str, int] = {}
    load = [0.0] * slots
    extra = slots
    for g in groups:
        n = sum(rows[d]["n"] for d in g)
        if len(groups) > 1 and (hot_names & set(g) or (n > hot_share * total and n >= 1000)):
            slot, extra = extra, extra + 1
        else:
            slot = min(range(slots), key=lambda s: (load[s], s))
            load[slot] += sum(rows[d]["n"] for d in g)
        out |= dict.fromkeys(g, slot)
    used = sorted(set(out.values()))
    dense = {s: i for i, s in enumerate(used)}
    return {d: dense[s] for d, s in out.items()}, len(used)


def address_groups(rows: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Domains that share addresses, together; the group with the longest polite time first."""
    parent = {d: d for d in rows}

    def root(d: str) -> str:
        while parent[d] != d:
            parent[d] = parent[parent[d]]
            d = parent[d]
        return d

    at_ip: dict[str, str] = {}
    for d in sorted(rows):
        for ip in rows[d]["ips"] or ():
            parent[root(d)] = root(at_ip.setdefault(ip, d))
    groups: dict[str, list[str]] = defaultdict(list)
    for d in sorted(rows):
        groups[root(d)].append(d)
    return sorted(groups.values(), key=lambda g: (-max(rows[d]["cost_s"] for d in g), g[0]))


def assign_in_regions(
    domains: Iterable[Mapping[str, Any]], cfg: Config
) -> tuple[dict[str, tuple[int, str]], list[str]]:
    """(slot, region) of each domain, and the region of each slot.

    Domains that share an address have one region: that of the longest polite time.
    """
    rows = {d["domain"]: d for d in domains}
    region: dict[str, str] = {}
    for g in address_groups(rows):
        region |= dict.fromkeys(
            g,
            serving(region_of(max(g, key=lambda d: (rows[d]["cost_s"], d)), cfg.fetch), cfg.fetch),
        )
    out: dict[str, tuple[int, str]] = {}
    regions: list[str] = []
    for name in sorted(set(region.values())):
        slot_of, n = assign_slots(
            [r for d, r in rows.items() if region[d] == name],
            cfg.fetch.slots,
            cfg.frontier.hot_share,
            cfg.frontier.hot_hosts,
        )
        out |= {d: (len(regions) + slot, name) for d, slot in slot_of.items()}
        regions += [name] * n
    return out, regions


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
