"""What each stage reads and writes, as documentation and as data.

`python -m crawlkit.round.contracts` prints docs/tables.md; with `json`, the stages' tables for the
Airflow DAGs, whose environment has no crawlkit (airflow_dags/contracts.json).
"""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from crawlkit.round.job import STAGES
from crawlkit.tables import TABLES
from crawlkit.tables.schema import Table


class Users(NamedTuple):
    """The stages that write a table, and those that read it."""

    writers: list[str]
    readers: list[str]


def users_of(table: str) -> Users:
    """The stages that name a table in their WRITES and READS."""
    return Users(
        [name for name, stage in STAGES.items() if table in stage.writes],
        [name for name, stage in STAGES.items() if table in stage.reads],
    )


def to_json() -> str:
    """The tables that each stage reads and writes."""
    stages = {
        name: {"reads": sorted(stage.reads), "writes": sorted(stage.writes)}
        for name, stage in STAGES.items()
    }
    return json.dumps(stages, indent=1) + "\n"


def to_markdown() -> str:
    """docs/tables.md."""
    lines = [
        "# Tables",
        "",
        "Generated from `lib/crawlkit/tables/` and the stages' READS and WRITES by `make docs`. All"
        " are Delta tables below `tables/`; SQL users may read each of them.",
        "",
    ]
    for table in TABLES.values():
        lines += _describe(table)
    return "\n".join(lines)


def _describe(table: Table) -> list[str]:
    writers, readers = users_of(table.name)
    uses = [
        f"Written by the stages {', '.join(writers)}." if writers else "",
        f"Read by the stages {', '.join(readers)}." if readers else "",
        table.also,
    ]
    partition = ", ".join(table.partition_by) or "nothing"
    return [
        f"## {table.name}",
        "",
        table.role,
        "",
        f"Key: `{', '.join(table.key)}`. Partitioned by: {partition}.",
        " ".join(filter(None, uses)),
        "",
        "| column | type | meaning |",
        "|---|---|---|",
        *(f"| {c.name} | {c.type} | {c.comment} |" for c in table.columns),
        "",
    ]


if __name__ == "__main__":
    print(to_json() if sys.argv[1:] == ["json"] else to_markdown(), end="")
