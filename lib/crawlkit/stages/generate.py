"""generate: the most due rows of the most due unclaimed buckets -> the fetch list.

Contract: each selected URL is listed once; a registered domain (and domains whose hosts shared an
address, or of which one's robots.txt leads to the other) has one slot; one `robots` row for each
origin comes before its pages; a host has at most its cap. Each due row is listed or counted in
`left_out` by its reason.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from crawlkit.config.whole import Config
from crawlkit.engine.frame import Frame
from crawlkit.model import Round
from crawlkit.rules.frontier.due_rows import ROW, select_due_sql
from crawlkit.rules.frontier.overlap import buckets_beside
from crawlkit.rules.frontier.priority import score_sql, weight_sql
from crawlkit.rules.frontier.schedule import listed_classes
from crawlkit.rules.frontier.slots import PlacesOf, assign_in_regions
from crawlkit.rules.render.waiting_pages import DOCUMENTS, documents_sql, origins_sql, renders_sql
from crawlkit.rules.robots.planned import Lead, find_leads, join_leads, leads_sql, robots_rows_sql
from crawlkit.rules.url.domains import registered_domain

READS = (
    "buckets",
    "captures",
    "commands",
    "crawldb",
    "crawldb_log",
    "fetchlist",
    "host_ranks",
    "hostdb",
    "ranks",
    "robots",
)
WRITES = ("commands", "crawldb_log", "fetchlist", "hostdb", "rejects")


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

    rows: crawldb as folded with its log. other_hosts: hostdb of the buckets that nobody has
    claimed. taken: buckets that other rounds have claimed. captures: those of the rounds named.
    ranks: for the scorer product. places_of: where an address is, for regions.
    """

    rows: Frame
    hostdb: Frame
    host_ranks: Frame
    robots: Frame
    other_hosts: Frame
    taken: Collection[int] = ()
    captures: Callable[[Sequence[str]], Frame] | None = None
    ranks: Frame | None = None
    places_of: PlacesOf | None = None


@dataclass(frozen=True)
class Plan:
    """fetch_list: rows of `fetchlist`; None if nothing may be fetched.

    left_out: due URLs that are not listed, by reason. beside: buckets whose due URLs are left to a
    second round, at the same time as this one. led_to: buckets of hosts to which a robots.txt
    leads; they may be among the chosen ones.
    """

    fetch_list: Frame | None
    left_out: dict[str, int]
    beside: list[int] = field(default_factory=list)
    led_to: list[int] = field(default_factory=list)


@contextlib.contextmanager
def generate(
    tables: Tables,
    orders: Orders,
    round_: Round,
    cfg: Config,
    clock_now: float,
    split: bool = False,
) -> Iterator[Plan]:
    """The round's plan, valid while the context is open.

    Args:
        clock_now: real time (Unix s): a host that may not be asked within the round is left out.
        split: some buckets may be left to a second round (rules/frontier/overlap.py).
    """
    rows = mark_orders(tables.rows, orders)
    engine = rows.engine
    with engine.keep(_choose(rows, tables, orders, round_, cfg, clock_now)) as due:
        leads = _find_leads(due, tables, cfg, clock_now)
        hostdb = tables.hostdb.union(tables.other_hosts) if leads else tables.hostdb
        domains, left_out = _count_domains(due, hostdb, cfg, leads)
        if not domains:
            yield Plan(None, left_out)
            return
        beside = buckets_beside(domains) if split else []  # with those that lead to them
        if beside:
            due = due.where(f"host_bucket NOT IN ({', '.join(map(str, beside))})")
            leads = [lead for lead in leads if lead.host_bucket not in beside]
            domains, left_out = _count_domains(due, hostdb, cfg, leads)
        slot_of, _ = assign_in_regions(domains, cfg, tables.places_of)
        slots = engine.from_rows(
            "domain string, slot int, region string",
            [(domain, slot, region) for domain, (slot, region) in slot_of.items()],
        )
        pages = due.where("left_reason IS NULL")
        listed = with_robots_rows(pages, tables.robots, hostdb, slots, leads)
        led_to = sorted({lead.host_bucket for lead in leads})
        yield Plan(listed.select("*", f"'{round_.id}' AS round_id"), left_out, beside, led_to)


def _find_leads(due: Frame, tables: Tables, cfg: Config, clock_now: float) -> list[Lead]:
    """Where the robots.txt of the chosen rows lead that are asked in the round."""
    end = clock_now + cfg.round.minutes * 60
    rows = due.engine.query(leads_sql(end), due=due, robots=tables.robots).rows()
    if cfg.render.enabled:
        rows += due.engine.query(origins_sql(), due=due, hostdb=tables.hostdb).rows()
    return find_leads(rows, cfg.frontier.buckets, tables.taken)


def _choose(
    rows: Frame, tables: Tables, orders: Orders, round_: Round, cfg: Config, clock_now: float
) -> Frame:
    """Rows of `select_due`, and such rows of pages to be rendered."""
    at, named = (round_.now, clock_now), (tables.hostdb, tables.host_ranks)
    due = select_due(rows, *named, cfg, *at, round_.seed, orders.policies, tables.ranks)
    if not cfg.render.enabled:
        return due
    scores = score_sql(cfg, round_.now), weight_sql(cfg, "r.", "CAST(NULL AS double)")
    engine, sql = rows.engine, renders_sql(cfg, *at, *scores, ROW)
    wanted = engine.query(sql, rows=rows, hostdb=named[0], host_ranks=named[1])
    ids = [r["capture_id"] for r in wanted.select("capture_id").rows()]
    rounds = sorted({i.rsplit("-", 3)[0] for i in ids})
    captures = engine.from_rows(DOCUMENTS, [])
    if rounds and tables.captures is not None:
        captures = tables.captures(rounds)
    return due.union(engine.query(documents_sql(), wanted=wanted, captures=captures))


def count_planned(fetch_list: Frame, buckets: int) -> dict[str, Any]:
    """The stage's counts of a written fetch list. buckets: how many were claimed."""
    query = """
        SELECT count(*) AS planned,
            count(CASE WHEN kind <> 'robots' AND coalesce(n_fetch, 0) = 0 THEN 1 END) AS new,
            count(CASE WHEN kind <> 'robots' AND n_fetch > 0 THEN 1 END) AS again,
            count(CASE WHEN kind = 'page' THEN 1 END) AS pages,
            count(CASE WHEN kind = 'sitemap' THEN 1 END) AS sitemaps,
            count(CASE WHEN kind = 'feed' THEN 1 END) AS feeds,
            count(CASE WHEN kind = 'render' THEN 1 END) AS renders,
            count(CASE WHEN kind = 'requisite' THEN 1 END) AS requisites,
            count(DISTINCT host) AS hosts, max(slot) AS top_slot,
            array_sort(collect_set(CASE WHEN region <> '' THEN region END)) AS regions
        FROM {fetch_list}
    """
    row = fetch_list.engine.query(query, fetch_list=fetch_list).rows()[0]
    regions = [r for r in row.pop("regions") or () if r is not None]
    slots = (row.pop("top_slot") or 0) + 1
    n = row["planned"]
    more = {"regions": regions, "buckets": buckets, "slots": slots, "rows_in": n, "rows_out": n}
    return row | more


def mark_orders(rows: Frame, orders: Orders) -> Frame:
    """Rows with `urgent` (an operator wants it fetched in this round) and `stopped`."""
    engine = rows.engine
    query = """
        SELECT /*+ BROADCAST(h, d, u) */ r.*,
            h.stopped_host IS NOT NULL OR d.stopped_domain IS NOT NULL AS stopped,
            u.asked_key IS NOT NULL AS urgent
        FROM {rows} AS r
        LEFT JOIN {hosts} AS h ON r.host = h.stopped_host
        LEFT JOIN {domains} AS d ON r.domain = d.stopped_domain
        LEFT JOIN {urgent} AS u ON r.url_key = u.asked_key
    """
    return engine.query(
        query,
        rows=rows,
        hosts=engine.from_rows("stopped_host string", [(n,) for n in orders.hosts]),
        domains=engine.from_rows("stopped_domain string", [(n,) for n in orders.domains]),
        urgent=engine.from_rows(
            "asked_key binary", [(bytes(k),) for k in dict.fromkeys(orders.urgent)]
        ),
    )


def select_due(
    rows: Frame,
    hostdb: Frame,
    host_ranks: Frame,
    cfg: Config,
    now: float,
    clock_now: float,
    seed: int,
    policies: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ranks: Frame | None = None,
) -> Frame:
    """crawldb rows of a round with score and explore: due, allowed, capped for each host, within
    the round's budget.

    Of a host of which rows are left out there is one row more, with `left_out` (how many) and
    `left_reason`; both are null in the rows that are chosen.

    Args:
        rows: `mark_orders`.
        now: nominal time (schedules). clock_now: real time (politeness).
        policies: the operator's quotas by host.
        ranks: the table of this name, which the scorer product needs.
    """
    engine = rows.engine
    names = ("quota_max", "cycle_quota_max", "delay_s", "parallel", "weight")
    more = {} if ranks is None else {"ranks": ranks}
    quotas = [
        (host, registered_domain(host), *(p.get(name) for name in names))
        for host, p in policies.items()
    ]
    return engine.query(
        select_due_sql(cfg, now, clock_now, seed),
        rows=rows,
        hostdb=hostdb,
        host_ranks=host_ranks,
        quotas=engine.from_rows(_QUOTAS, quotas),
        classes=engine.from_rows(
            "host string, class string", sorted(listed_classes(cfg.schedule).items())
        ),
        **more,
    )


_QUOTAS = (
    "host string, domain string, quota_max bigint, cycle_quota_max bigint, delay_s double,"
    " parallel int, weight double"
)


def _count_domains(
    due: Frame, hostdb: Frame, cfg: Config, leads: Sequence[Lead]
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Domains with rows that are chosen (domain, host_bucket, n, cost_s: polite time, ips), and
    what is left out by reason.
    """
    query = """
        SELECT domain, host_bucket, left_reason, count(*) AS n,
            CAST(sum(left_out) AS bigint) AS left_out, sum(host_delay_ms) / 1e3 AS cost_s
        FROM {due} GROUP BY domain, host_bucket, left_reason
    """
    counted = due.engine.query(query, due=due).rows()
    left_out: dict[str, int] = {}
    for r in counted:
        if r["left_reason"] is not None:
            left_out[r["left_reason"]] = left_out.get(r["left_reason"], 0) + r["left_out"]
    chosen = [r for r in counted if r["left_reason"] is None]
    if not chosen:
        return [], left_out
    addresses = hostdb.where("size(last_ips) > 0").select("domain", "last_ips")
    if leads:  # hostdb has the hosts of buckets that are not chosen, too
        names = sorted({r["domain"] for r in chosen} | {lead.domain for lead in leads})
        asked = due.engine.from_rows("asked string", [(name,) for name in names])
        addresses = due.engine.query(
            "SELECT a.* FROM {addresses} AS a JOIN {asked} AS n ON a.domain = n.asked",
            addresses=addresses,
            asked=asked,
        )
    ips: dict[str, list[str]] = {}
    for r in addresses.rows():
        ips.setdefault(r["domain"], []).extend(r["last_ips"])
    return join_leads(chosen, ips, leads), left_out


def with_robots_rows(
    pages: Frame, robots: Frame, hostdb: Frame, slots: Frame, leads: Iterable[Lead] = ()
) -> Frame:
    """The fetch list: pages with their slot and region (slots: domain, slot, region), one robots
    row for each origin (and those to which they lead) with the stored copy and the host's state,
    ranked.
    """
    crawldb = ("url_key", "url", "host", "domain", "host_bucket", "fetch_kind")
    own = [c for c in pages.columns if c not in crawldb and c not in ("score", "host_pos")]
    targets = {(lead.origin, lead.host, lead.domain, lead.host_bucket) for lead in leads}
    schema = "origin string, host string, domain string, host_bucket int"
    led_to = pages.engine.from_rows(schema, sorted(targets))
    return pages.engine.query(
        robots_rows_sql(own), pages=pages, slots=slots, robots=robots, hostdb=hostdb, led_to=led_to
    )
