"""The report's plots: matplotlib figures as inline SVG text, labels escaped by matplotlib, no
scripts.
"""

from __future__ import annotations

import io
import re
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend must be chosen first)

INK, GRID, COLORS = "#1d2b36", "#dde5ea", ("#2b7a9b", "#d1495b", "#edae49", "#66a182")
plt.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "crawlkit",
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.edgecolor": GRID,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
)
MAX_LABEL = 36


def _label(value: Any) -> str:
    text = re.sub(r"[^\x20-\x7e\u00a0-\ud7ff]", "\ufffd", str(value)).replace("$", r"\$")
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"


def _svg(fig: Any) -> str:
    out = io.StringIO()
    fig.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(fig)
    text = out.getvalue()
    return re.sub(
        r'(<svg[^>]*?) height="[^"]*"| width="[0-9.]+pt"',
        r"\1",
        text[text.index("<svg") :],
        count=2,
    )


def bars(rows: list[dict[str, Any]], title: str) -> str:
    """Horizontal bars of rows {label, value}, the first on top."""
    fig, ax = plt.subplots(figsize=(4.6, 0.5 + 0.3 * len(rows)))
    labels, values = [_label(r["label"]) for r in rows], [float(r["value"] or 0) for r in rows]
    drawn = ax.barh(range(len(rows)), values, color=COLORS[0])
    ax.set_yticks(range(len(rows)), labels)
    ax.bar_label(drawn, [f"{v:,.0f}" for v in values], padding=3)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.grid(axis="y", visible=False)
    return _svg(fig)


def columns(rows: list[dict[str, Any]], title: str) -> str:
    """Stacked columns: `label` on the x axis, one colour for each other column."""
    names = [k for k in rows[0] if k != "label"]
    rows = sorted(rows, key=lambda r: str(r["label"])) if title.endswith("round") else rows
    fig, ax = plt.subplots(figsize=(4.6, 2.8))
    base = [0.0] * len(rows)
    for name, color in zip(names, COLORS, strict=False):
        values = [float(r[name] or 0) for r in rows]
        ax.bar(range(len(rows)), values, bottom=base, color=color, label=name)
        base = [a + b for a, b in zip(base, values, strict=True)]
    labels = [_label(r["label"]) for r in rows]
    ax.set_xticks(range(len(rows)), labels, rotation=0 if sum(map(len, labels)) < 45 else 60)
    ax.set_xlim(-0.6, max(len(rows), 4) - 0.4)  # one column alone is no wall
    ax.grid(axis="x", visible=False)
    if len(names) > 1:
        ax.legend(frameon=False, fontsize=9)
    return _svg(fig)


def lines(rows: list[dict[str, Any]], title: str) -> str:
    """One line: x in Unix s, shown as seconds since the first."""
    start = min(r["x"] for r in rows)
    fig, ax = plt.subplots(figsize=(4.6, 2.8))
    ax.plot(
        [r["x"] - start for r in rows],
        [r["value"] for r in rows],
        color=COLORS[0],
        marker="o" if len(rows) < 40 else None,
        markersize=3,
    )
    ax.fill_between(
        [r["x"] - start for r in rows], [r["value"] for r in rows], color=COLORS[0], alpha=0.15
    )
    ax.set_xlabel("s since the round's first request")
    ax.set_ylim(bottom=0)
    ax.set_xlim(0, max(10, *(r["x"] - start for r in rows)))
    return _svg(fig)
