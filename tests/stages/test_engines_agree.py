"""Both engines make the same rows of drawn tables, stage by stage: few keys and values, so that
joins meet, order decides and nulls are everywhere.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from crawlkit.config import Config, Schedule
from crawlkit.engine.frame import Engine, Frame
from crawlkit.model import Round
from crawlkit.rules.frontier.schedule import next_fetch_sql
from crawlkit.rules.robots.planned import Lead, leads_sql
from crawlkit.stages import (
    cluster,
    commit,
    dedup,
    fetch,
    fold,
    generate,
    host_rows,
    inject,
    parse,
    rank,
    update,
)
from crawlkit.tables import TABLES

from tests.frames import frame

pytestmark = pytest.mark.spark
SEEDS = int(os.environ.get("CRAWLKIT_SEEDS", 2))
NOW = 1_767_225_600.0
CFG = Config.model_validate(
    {
        "politeness": {"delay_s": 20, "host_day_quota": 5},
        "round": {"minutes": 60, "urls_per_host": 7, "max_urls": 20},
        "frontier": {"explore": 0.25},
        "schedule": {"news_hosts": ["h1.example"]},
    }
)
ROUND = Round("r000002", 2, NOW, 7, "0" * 16, NOW, buckets=[0, 1])
HOSTS = [f"h{n}.example" for n in range(4)]
TEXTS = [f"{n:064x}" for n in range(12)]
# values of columns that a stage reads as more than a value of their type
VALUES: dict[str, Callable[[random.Random], Any]] = {
    "host": lambda r: r.choice(HOSTS),
    "to_host": lambda r: r.choice([None, *HOSTS]),
    "domain": lambda r: r.choice(HOSTS),
    "url": lambda r: f"http://{r.choice(HOSTS)}/{r.randrange(9)}{r.choice(['', '?a=1'])}",
    "from_url": lambda r: f"http://{r.choice(HOSTS)}:8080/{r.randrange(9)}",
    "host_bucket": lambda r: r.randrange(2),
    "state": lambda r: r.choice(["queued", "fetched", "retrying", "dead", "refused"]),
    "fetch_kind": lambda r: r.choice([None, "page", "page", "feed", "sitemap"]),
    "priority_class": lambda r: r.randrange(4),
    "mode": lambda r: r.choice(["keep", "update", "overwrite", None]),
    "writer": lambda r: r.choice(["parse", "update", "inject-1"]),
    "round_id": lambda r: r.choice(["r000001", "r000002"]),
    "outcome": lambda r: r.choice(["fetched", "http_error", "failed", "deferred", "redirected"]),
    "reason": lambda r: r.choice([None, "http_404", "read_timeout"]),
    "record_type": lambda r: r.choice([None, "response", "revisit"]),
    "capture_id": lambda r: f"c{r.randrange(30)}",
    "revisit_of": lambda r: r.choice([None, f"c{r.randrange(30)}"]),
    "text_sha256": lambda r: r.choice([None, *TEXTS]),
    "a_text": lambda r: r.choice(TEXTS),
    "b_text": lambda r: r.choice(TEXTS),
    "method": lambda r: r.choice(["exact", "minhash", "canonical"]),
    "slot": lambda r: r.randrange(2),
    "attempt": lambda r: r.randrange(3),
    "status": lambda r: r.choice([None, 200, 301, 404, 500]),
    "retries": lambda r: r.randrange(3),
    "n_fetch": lambda r: r.randrange(5),
    "n_change": lambda r: r.randrange(5),
    "history": lambda r: r.choice(["", "NC", "NN"]),
    "flags": lambda r: r.choice([[], ["noindex"], ["render"]]),
    "render_folders": lambda r: None,
    "depth": lambda r: r.randrange(5),
    "redirects": lambda r: r.randrange(3),
    "updated_no": lambda r: r.randrange(1, 5),
    "source": lambda r: r.choice(["link", "seed", "sitemap"]),
    "last_ips": lambda r: r.choice([None, [], ["192.0.2.1"], ["192.0.2.1", "192.0.2.2"]]),
    "state_json": lambda r: None,
    "sitemaps": lambda r: r.choice([None, [], ["http://h1.example/s.xml"]]),
    "quota_day": lambda r: r.choice([None, "20454", "20453"]),
    "minhash": lambda r: None,
}
BY_TYPE: dict[str, Callable[[random.Random], Any]] = {
    "string": lambda r: r.choice([None, "a", "b", "Zoë", "日"]),
    "binary": lambda r: bytes([r.randrange(12)]) * 16,
    "int": lambda r: r.choice([None, 0, 1, 2]),
    "bigint": lambda r: r.choice([None, 0, 1, 5]),
    "double": lambda r: r.choice([None, 0.0, 0.5, 1.0, 2.5]),
    "boolean": lambda r: r.choice([None, True, False]),
    "timestamp": lambda r: r.choice([None, NOW - 86_400, NOW - 1.5, NOW, NOW + 7200]),
    "array<string>": lambda r: r.choice([None, [], ["x"], ["y", "x"]]),
}


class Drawn:
    """Tables of a seed: the same rows on each engine."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine, self.seed = engine, seed

    def table(self, name: str, n: int = 60, key: tuple[str, ...] | None = None, **given: Any):
        """Drawn rows, one for each value of `key` (default: the table's)."""
        chance = random.Random(f"{self.seed} {name}")
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        for _ in range(n):
            row = {
                c.name: VALUES.get(c.name, BY_TYPE[c.type])(chance) for c in TABLES[name].columns
            } | given
            rows[tuple(row[c] for c in key or TABLES[name].key)] = row
        return frame(self.engine, name, list(rows.values()))

    def states(self) -> Frame:
        rows = [(h, f'{{"retry_after_until": {NOW + n}}}') for n, h in enumerate(HOSTS[:3])]
        return self.engine.from_rows("host string, state_json string", rows)


RECRAWL = Schedule(
    recrawl={
        "h1.example": "manual",
        "*.example": "hours",
        "*": "weeks",
        "http://h2.example/1": "minutes",
    }
)


def run_fold(d: Drawn):
    tables = d.table("crawldb"), d.table("crawldb_log", 200)
    yield fold.reduce_rows(*tables)
    yield fold.reduce_rows(*tables, due=next_fetch_sql(RECRAWL))
    live = fold.live_log(d.table("crawldb_log", 100), d.table("buckets", 2), again=3)
    yield live
    for hostdb in (None, d.table("hostdb")):
        yield fold.log_summary(live, hostdb)
        yield fold.bucket_summary(d.table("crawldb"), 4, hostdb)


def run_generate(d: Drawn):
    orders = generate.Orders(
        [bytes([3]) * 16], ["h3.example"], [], {"h2.example": {"quota_max": 3}}
    )
    rows = generate.mark_orders(d.table("crawldb", 80), orders)
    ranks, hostdb = d.table("host_ranks"), d.table("hostdb")
    due = generate.select_due(rows, hostdb, ranks, CFG, NOW, NOW, 7, orders.policies)
    yield due
    slots = d.engine.from_rows(
        "domain string, slot int, region string", [(h, n % 2, "") for n, h in enumerate(HOSTS)]
    )
    robots = d.table("robots")
    yield d.engine.query(leads_sql(NOW), due=due, robots=robots)
    leads = [Lead(HOSTS[0], "http://h9.example", HOSTS[1], HOSTS[1], 1)]
    listed = generate.with_robots_rows(
        due.where("left_reason IS NULL"), robots, hostdb, slots, leads
    )
    yield listed
    yield [generate.count_planned(listed, 2)]


def run_fetch(d: Drawn):
    yield fetch.fetch_items(d.table("fetchlist"))


def run_commit(d: Drawn):
    captures = d.table("captures", key=("capture_id",), is_outcome=True)
    yield [commit.count_outcomes(captures)]


def run_parse(d: Drawn):
    captures = d.table("captures", key=("url_key",), is_outcome=True, kind="page")
    fetchlist = d.table("fetchlist", key=("url_key",), kind="page")
    vouching = parse.vouching_origins(d.table("robots"))
    yield vouching
    yield parse.to_parse(captures, fetchlist, d.table("host_ranks"), vouching)
    chance = random.Random(d.seed)
    names = parse._FOUND_NAMES
    kinds = dict(parse.split_fields(parse.FOUND))
    flat = d.engine.from_rows(
        ", ".join(f"{n} {kinds[n]}" for n in names),
        [
            tuple(
                VALUES.get(n, BY_TYPE[kinds[n]])(chance) if n != "due_at" else None for n in names
            )
            for _ in range(80)
        ],
    )
    kept = parse.keep_found(flat, d.table("hostdb", key=("host",)), "r000002", 2, NOW)
    yield kept.select("url_key", "depth", "redirects", "parent_key", "fetch_kind", "due_at")


def run_dedup(d: Drawn):
    pages = d.table("pages", key=("capture_id",))
    captures = d.table("captures", key=("capture_id",), is_outcome=True, kind="page")
    yield dedup.contents_of(pages, captures, ROUND)
    old, new = d.table("duplicates", key=("url_key",)), d.table("duplicates", 8, key=("url_key",))
    yield dedup.flag_rows(old, d.table("crawldb_log", 3), new, ROUND, 8)


def run_cluster(d: Drawn):
    contents = d.table("contents", key=("url_key", "round_no"), round_id="r000001")
    yield cluster.find_hints(contents, d.table("similar", method="canonical_link"))
    yield cluster.cluster(contents, d.table("similar", merged=True), d.table("ranks"))


def run_update(d: Drawn):
    captures = d.table("captures", key=("url_key",), is_outcome=True, kind="page")
    fetchlist = d.table("fetchlist", key=("url_key",), kind="page")
    pages = d.table("pages", key=("capture_id",))
    more = d.states(), d.table("duplicates", key=("url_key",)), d.table("hostdb", key=("host",))
    yield update.update(fetchlist, captures, pages, *more, ROUND, CFG)
    renders = CFG.model_copy(update={"render": CFG.render.model_copy(update={"enabled": True})})
    yield update.update(fetchlist, captures, pages, *more, ROUND, renders)


def run_host_rows(d: Drawn):
    hostdb, planned, captures = map(d.table, ("hostdb", "fetchlist", "captures"))
    empty = d.engine.from_rows("host string, state_json string", [])
    new, pages = d.table("crawldb_log", key=("url_key",)), d.table("pages", key=("capture_id",))
    given = host_rows.OfRound(planned, captures, empty, new, pages, d.table("host_ranks"))
    yield host_rows.host_rows(hostdb, given, ROUND, NOW, CFG)


def run_inject(d: Drawn):
    found, base = d.table("crawldb_log"), d.table("crawldb", 8)
    yield [{"n": inject.count_known(found, base, d.table("crawldb_log", 5))}]


def run_rank(d: Drawn):
    links = d.table("links", 200)
    yield rank.page_ranks(links, 2)
    given = map(d.table, ("captures", "duplicates", "hostdb", "domain_authority"))
    yield rank.host_ranks(links, *given, 2)
    yield rank.param_rules(d.table("pages", 200, key=("capture_id", "url_key")), 2)


RUNS = {name.removeprefix("run_"): run for name, run in globals().items() if name[:4] == "run_"}


def plain(rows: Any) -> list[str]:
    """Rows in an order that does not depend on the engine; numbers by value, not by type."""
    given = rows.rows() if isinstance(rows, Frame) else rows
    return sorted(
        str(
            {
                k: round(v, 6) + 0.0 if isinstance(v, float) or type(v) is int else v
                for k, v in sorted(r.items())
            }
        )
        for r in given
    )


@pytest.mark.parametrize("stage", RUNS)
def test_both_engines_make_the_same_rows(spark, local_engine, stage):
    from crawlkit.engine.spark_engine import SparkEngine

    for seed in range(SEEDS):
        local = [plain(rows) for rows in RUNS[stage](Drawn(local_engine, seed))]
        there = [plain(rows) for rows in RUNS[stage](Drawn(SparkEngine(spark), seed))]
        assert local == there, (stage, seed)
        assert any(local), "nothing was compared"
