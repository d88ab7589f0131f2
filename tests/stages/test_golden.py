"""Golden cases of every stage: data/samples/golden/STAGE/CASE/ (README.md there).

The rows that are expected were worked out by hand from the rules that `why` in case.json names.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from crawlkit.config import Config
from crawlkit.model import Capture, Round
from crawlkit.parsing.schemas import ITEM_COLUMNS
from crawlkit.rules.url.policy import UrlPolicy
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

GOLDEN = Path(__file__).parents[2] / "data/samples/golden"
CASES = sorted(path.parent for path in GOLDEN.glob("*/*/case.json"))
KEYS = ("url_key", "url", "host", "kind", "capture_id")  # rows are compared in this order


@dataclasses.dataclass
class Case:
    """One folder. rows: of in.jsonl by their `in` (a table, or what the stage calls it)."""

    engine: Any
    settings: dict[str, Any]
    rows: dict[str, list[dict[str, Any]]]

    @property
    def cfg(self) -> Config:
        return Config.model_validate(self.settings.get("config", {}))

    @property
    def round(self) -> Round:
        now = self.settings.get("now", 0.0)
        return Round("r000002", 2, now, 7, "0" * 16, now, buckets=[0])

    def table(self, name: str, as_table: str | None = None):
        """The rows of a table as a frame; of binary columns the text is the bytes."""
        table = as_table or name
        binary = {c.name for c in TABLES[table].columns if c.type == "binary"}
        rows = [
            {k: v.encode() if k in binary and isinstance(v, str) else v for k, v in r.items()}
            for r in self.rows.get(name, [])
        ]
        return frame(self.engine, table, rows)


def run_inject(c: Case):
    seeds = inject.SeedList([r["line"] for r in c.rows["line"]])
    made = inject.inject(seeds, c.round, c.cfg)
    return [*made.found, *made.rejects]


def run_generate(c: Case):
    orders = generate.Orders(hosts=c.settings.get("stopped_hosts", []))
    given = [c.table(name) for name in ("crawldb", "hostdb", "host_ranks", "robots", "hostdb")]
    ranks = c.table("ranks") if c.cfg.frontier.scorer == "product" else None
    tables = generate.Tables(*given[:4], given[4].where("false"), ranks=ranks)
    with generate.generate(tables, orders, c.round, c.cfg, c.round.now) as plan:
        listed = plan.fetch_list.rows() if plan.fetch_list is not None else []
        return [*listed, {"url": "", "left_out": plan.left_out}]


def run_fetch(c: Case):
    return fetch.fetch_items(c.table("fetchlist")).rows()


def run_commit(c: Case):
    parts = {f"{n}": r for n, r in enumerate(c.rows["part"])}

    def read(key: str):
        part = parts[key]
        capture = Capture(**part["capture"] | {"url_key": part["capture"]["url_key"].encode()})
        return [(part["attempt"], part["n"], capture)]

    read_parts = commit.read_parts(c.engine, list(parts), read, UrlPolicy())
    return commit.commit(c.table("fetchlist"), read_parts, c.round.id).captures.rows()


class Bodies:
    """Records of a case by file name."""

    def __init__(self, bodies: dict[str, bytes]) -> None:
        self.bodies = bodies

    def __call__(self, file, offset, length):
        return [], self.bodies[file]


def run_parse(c: Case):
    read = Bodies({r["file"]: r["body"].encode() for r in c.rows["record"]})
    names = [column.split(" ", 1)[0] for column in ITEM_COLUMNS]
    items = c.engine.from_rows(
        ", ".join(ITEM_COLUMNS), [tuple(_item(r).get(n) for n in names) for r in c.rows["item"]]
    )
    out = []
    for r in parse.parse_rows(items, read, c.cfg, c.round.now).rows():
        page = {} if r["page"] is None else {k: r["page"][k] for k in ("title", "text")}
        found = sorted(f["url"] for f in r["found"])
        refused = {link["to_url"]: link["refused"] for link in r["links"] if link["refused"]}
        rejects = [x["reason"] for x in r["rejects"]]
        row = {"url": r["capture_id"], **page, "found": found}
        out.append(row | {"refused": refused, "rejects": rejects})
    return out


def _item(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"url_key": row["url"].encode(), "vouched": []}


def run_dedup(c: Case):
    return dedup.contents_of(c.table("pages"), c.table("captures"), c.round).rows()


def run_cluster(c: Case):
    given = map(c.table, ("contents", "similar", "ranks"))
    return cluster.cluster(*given).rows()


def run_update(c: Case):
    states = c.engine.from_rows("host string, state_json string", [])
    tables = map(c.table, ("fetchlist", "captures", "pages"))
    more = states, c.table("duplicates"), c.table("hostdb")
    return update.update(*tables, *more, c.round, c.cfg).rows()


def run_host_rows(c: Case):
    states = c.engine.from_rows("host string, state_json string", [])
    planned, captures, new, pages, ranks = map(
        c.table, ("fetchlist", "captures", "crawldb_log", "pages", "host_ranks")
    )
    given = host_rows.OfRound(planned, captures, states, new, pages, ranks)
    return host_rows.host_rows(c.table("hostdb"), given, c.round, c.round.now, c.cfg).rows()


def run_fold(c: Case):
    return fold.reduce_rows(c.table("crawldb"), c.table("crawldb_log")).rows()


def run_rank(c: Case):
    links = c.table("links")
    hosts = map(c.table, ("captures", "duplicates", "hostdb", "domain_authority"))
    ranks = rank.page_ranks(links, c.round.no).rows()
    return [*ranks, *rank.host_ranks(links, *hosts, c.round.no).rows()]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def plain(value: Any) -> Any:
    """A value as it is written in expect.jsonl: bytes as text, times as Unix s."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    return round(value, 9) if isinstance(value, float) else value


def order(row: dict[str, Any]) -> list[str]:
    return [str(row.get(k)) for k in KEYS]


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(
            path,
            id=f"{path.parent.name}-{path.name}",
            marks=[pytest.mark.waits] if path.parent.name == "parse" else [],
        )
        for path in CASES
    ],
)
def test_golden(engine, folder):
    settings = json.loads((folder / "case.json").read_text("utf-8"))
    rows: dict[str, list[dict[str, Any]]] = {}
    for r in read(folder / "in.jsonl"):
        rows.setdefault(r.pop("in"), []).append(r)
    expected = read(folder / "expect.jsonl")
    got = globals()[f"run_{folder.parent.name}"](Case(engine, settings, rows))
    made = [{k: plain(v) for k, v in r.items()} for r in got]
    names = {k for r in expected for k in r}
    shown = [{k: r.get(k) for k in names} for r in made]
    wanted = [{k: r.get(k) for k in names} for r in expected]
    assert sorted(shown, key=order) == sorted(wanted, key=order), settings["why"]


def test_every_stage_has_a_case():
    stages = {p.parent.name for p in CASES}
    wanted = {name.removeprefix("run_") for name in globals() if name.startswith("run_")}
    assert stages == wanted
