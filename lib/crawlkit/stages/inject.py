"""inject: seed lines -> found rows of crawldb_log, and rejects.

Contract: lines in = added + duplicates + refused + comments; nothing is dropped. The lines name the
writer, so the same file twice is one injection, and another file of the same round is added.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from crawlkit.config import Config, ScopeConfig
from crawlkit.engine.frame import Frame
from crawlkit.model import Round
from crawlkit.outcomes import Refused
from crawlkit.rules.frontier.lifecycle import found_row
from crawlkit.rules.url.canonical import host_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.scope import Scope, check_seed
from crawlkit.rules.url.seed_lists import FORMS, Parse
from crawlkit.rules.url.seeds import Seed, parse_seed

READS = ("buckets", "crawldb", "crawldb_log")
WRITES = ("crawldb_log", "rejects")

MAX_ITEM_CHARS = 2000
_EVERYTHING = Scope.of(ScopeConfig())
_PIECE = re.compile(r"([/?#\s'\"]+)")


@dataclass(frozen=True)
class SeedList:
    """Lines to inject.

    priority_class: of lines that name none. mode: keep, update or overwrite what is known of a URL.
    form: how a line is read (rules/url/seed_lists.py). first_line: its number, for messages.
    due_at: makes known URLs due (Unix s).
    """

    lines: Sequence[str]
    priority_class: int = 1
    source: str = "seed"
    mode: str = "keep"
    form: str = "urls"
    first_line: int = 1
    due_at: float | None = None

    @property
    def writer(self) -> str:
        """The name of these lines among the writers of a round."""
        form = [self.form] if self.form != "urls" else []
        text = "\n".join([self.mode, self.source, str(self.priority_class), *form, *self.lines])
        return f"inject-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


@dataclass(frozen=True)
class Injection:
    """found: rows of crawldb_log; rejects: rows of `rejects`; counts: as `read_lines` makes
    them.
    """

    found: list[dict[str, Any]]
    rejects: list[dict[str, Any]]
    counts: dict[str, int]

    @property
    def buckets(self) -> list[int]:
        """Host buckets of the found rows."""
        return sorted({r["host_bucket"] for r in self.found})

    def summarize(self, known: int) -> dict[str, Any]:
        """The stage's counts. known: found rows whose URL was known before."""
        duplicates = self.counts["duplicates"] + known
        reasons = Counter(r["reason"] for r in self.rejects)
        added = len(self.found) - known
        return {
            "rows_in": self.counts["lines"],
            "rows_out": added,
            "rejected": {
                "duplicates": duplicates,
                "comments": self.counts["comments"],
                **reasons,
            },
            "added": added,
            "duplicates": duplicates,
            "refused": self.counts["refused"],
            "examples": [f"{r['detail']}: {r['item'][:120]}" for r in self.rejects[:5]],
        }


def inject(seeds: SeedList, round_: Round, cfg: Config) -> Injection:
    """Found rows of crawldb_log and rejects of a round's seed lines."""
    rows, rejects, counts = read_lines(
        seeds.lines,
        now=round_.now,
        buckets=cfg.frontier.buckets,
        policy=UrlPolicy.of(cfg.urls),
        priority_class=seeds.priority_class,
        source=seeds.source,
        scope=Scope.of(cfg.scope, UrlPolicy.of(cfg.urls)),
        parse=FORMS[seeds.form],
        first_line=seeds.first_line,
    )
    row = {
        "updated_no": round_.no,
        "round_id": round_.id,
        "writer": seeds.writer,
        "kind": "found",
        "force": False,
        "mode": seeds.mode,
        "due_at": seeds.due_at,
    }
    return Injection(
        [r | row | {"seq": n} for n, r in enumerate(rows)],
        [r | {"round_id": round_.id, "stage": seeds.writer} for r in rejects],
        counts,
    )


def count_known(found: Frame, crawldb: Frame, log: Frame) -> int:
    """How many found rows have a URL that the base or the log of others has."""
    query = """
        SELECT f.url_key FROM {found} AS f
        SEMI JOIN (SELECT url_key FROM {crawldb} UNION SELECT url_key FROM {log}) AS known
        ON f.url_key = known.url_key
    """
    return found.engine.query(query, found=found, crawldb=crawldb, log=log).count()


def _mask(text: str) -> str:
    """Without what comes before an @: a refused line may hold a password, and no table
    keeps it.
    """
    pieces = _PIECE.split(text)
    return "".join("…@" + p.rpartition("@")[2] if "@" in p else p for p in pieces)


def read_lines(
    lines: Iterable[str],
    *,
    now: float,
    buckets: int,
    policy: UrlPolicy,
    priority_class: int = 1,
    source: str = "seed",
    scope: Scope = _EVERYTHING,
    parse: Parse = parse_seed,
    first_line: int = 1,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, int]]:
    """Found rows (distinct by url_key, first line wins), rejects and counts of the lines.

    parse: how a line is read (rules/url/seed_lists.py). first_line: number of the first line, for
        messages.
    counts: lines, comments, duplicates (within the lines), refused; the rows that remain are lines
        - the others.
    """
    rows: dict[bytes, dict[str, Any]] = {}
    rejects: list[dict[str, Any]] = []
    counts = {"lines": 0, "comments": 0, "duplicates": 0, "refused": 0}
    for n, line in enumerate(lines, first_line):
        counts["lines"] += 1
        try:
            seed = parse(line, priority_class, policy)
            if seed is not None:
                check_seed(seed.url, seed.depth, scope)
        except Refused as e:
            counts["refused"] += 1
            rejects.append(_reject(n, line, e))
            continue
        if seed is None:
            counts["comments"] += 1
            continue
        key = url_key(seed.url)
        if key in rows:
            counts["duplicates"] += 1
        else:
            rows[key] = _make_found(seed, key, source, now, buckets)
    return list(rows.values()), rejects, counts


def _reject(n: int, line: str, e: Refused) -> dict[str, Any]:
    return {
        "stage": "inject",
        "n": n,
        "item": _mask(line.strip())[:MAX_ITEM_CHARS],
        "reason": str(e.reason),
        "detail": f"line {n}: {_mask(e.detail)}",
    }


def _make_found(seed: Seed, key: bytes, source: str, now: float, buckets: int) -> dict[str, Any]:
    host = host_of(seed.url)
    domain = registered_domain(host)
    return found_row(
        seed.url,
        key,
        host,
        domain,
        host_bucket(domain, buckets),
        source=source,
        now=now,
        depth=seed.depth,
        priority_class=seed.priority_class,
        boost=seed.boost,
        fetch_kind=seed.fetch_kind,
        sent_url=seed.sent_url,
        metadata=seed.metadata,
    )
