"""The fields of the forms: JSON Schema that Airflow checks before a run exists (a value that does
not fit is answered with its field's name).
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import Param

# What may be left empty is of type null too: else the page asks for it.
HOME = Path(
    os.environ.get("CRAWLKIT_HOME") or Path(__file__).resolve().parents[1]
)  # the checkout: .venv, jobs, dist/crawlkit.zip
DATA = os.environ.get("CRAWLKIT_DATA") or str(HOME / "crawl-data")
CONFIG = os.environ.get("CRAWLKIT_CONFIG") or None
ROUND = r"^[A-Za-z0-9_.-]{1,80}$"
PRIORITIES = ["critical", "high", "normal", "low"]


def crawl_fields() -> dict[str, Param]:
    """Which crawl, and by which settings: of every form."""
    return {
        "data": Param(
            DATA,
            type="string",
            pattern=r"^(/|s3a?://)[^\x00-\x1f]+$",
            title="Place of the crawl",
            description=(
                "Absolute path of a folder, or s3://bucket/prefix; tables, WARC files and report"
                " stand below it (--data)."
            ),
        ),
        "config": Param(
            CONFIG,
            type=["null", "string"],
            pattern=r"^/[^\x00-\x1f]*$",
            title="Settings file",
            description="Absolute path of a YAML file; conf/default.yaml has every key (--config).",
        ),
        "set": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "pattern": r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+=[^\x00-\x1f]*$"},
            title="Single settings",
            description="One section.key=value a line, for example politeness.delay_s=2 (--set).",
        ),
    }


def urls_field(text: str) -> Param:
    return Param(
        None,
        type=["null", "array"],
        items={"type": "string", "pattern": r"^https?://[^\s]{1,8000}$"},
        maxItems=10_000,
        title="URLs",
        description=f"{text} One a line, with http:// or https://.",
    )


def budget_fields(
    most_minutes: float, minutes: float | None = None, max_urls: int | None = None
) -> dict[str, Param]:
    """The budget of one round; empty: as configured.

    most_minutes: what the DAG's deadline leaves room for.
    """
    return {
        "minutes": Param(
            minutes,
            type=["null", "number"],
            exclusiveMinimum=0,
            maximum=most_minutes,
            title="Minutes of fetching",
            description="What does not fit is deferred to the next round (round.minutes).",
        ),
        "max_urls": Param(
            max_urls,
            type=["null", "integer"],
            minimum=1,
            maximum=100_000_000,
            title="Most URLs",
            description="Of the round (round.max_urls).",
        ),
    }
