"""What a stage reports."""

from __future__ import annotations

from typing import Any

from crawlkit.model import Round

Counts = dict[str, Any]  # rows_in, rows_out, rejected (reason -> rows) and what else it counts


class StageError(RuntimeError):
    """A stage failed; the tables are as they were before it."""

    exit_code = 1


def check_sum(stage: str, round_: Round, counts: Counts) -> None:
    """Raises StageError unless rows in = rows out + rejected, where a stage counts them."""
    rejected = sum(counts.get("rejected", {}).values())
    if "rows_in" in counts and counts["rows_in"] != counts["rows_out"] + rejected:
        raise StageError(
            f"{stage} of round {round_.id} does not add up: {counts['rows_in']} rows in,"
            f" {counts['rows_out']} out, {rejected} rejected"
        )
