"""Rows as text."""

from __future__ import annotations

from typing import Any

MAX_CELL_CHARS = 120


def rows_text(rows: list[dict[str, Any]]) -> str:
    """Rows as a plain text table."""
    if not rows:
        return "(no rows)"
    names = list(rows[0])
    cells = [[_cell(r[n])[:MAX_CELL_CHARS] for n in names] for r in rows]
    width = [max(len(n), *(len(c[i]) for c in cells)) for i, n in enumerate(names)]
    lines = [names, ["-" * w for w in width], *cells]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, width, strict=True)).rstrip() for line in lines
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)
