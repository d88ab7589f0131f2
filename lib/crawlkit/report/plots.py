"""Plots as inline SVG: bars, stacked columns and lines.

Positions along x are shares of the width, so that a plot takes the width that it is given and its
texts keep their size. Labels are measured for the narrowest page (`NARROW` px) by glyphs wider than
those of common fonts, cut where they would not fit, and told whole in a <title>. Colours come from
classes (data/report/report.css), which follow the reader's light or dark mode.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

NARROW = 300  # px that a plot has on a phone
INNER = 250  # of these beside the values of an axis
FONT = 12  # px
MOST_COLUMNS = 40
MOST_POINTS = 200
# what XML forbids, and what would turn the text around it
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_ROW, _BAR = 34, 8  # px of a bar with its label, of the bar alone
_HEIGHT, _TOP, _FOOT = 190, 14, 20  # px of a plot with axes

Rows = Sequence[dict[str, Any]]


def text_width(text: str) -> float:
    """Px that a text takes at most."""
    return FONT * sum(
        1.1 if unicodedata.east_asian_width(c) in "WF" else 0.95 if c in "mwMW@%" else 0.66
        for c in text
    )


def cut(text: str, px: float) -> str:
    """A text, or so much of its start as fits."""
    if text_width(text) <= px:
        return text
    while text and text_width(text + "…") > px:
        text = text[:-1]
    return text + "…"


def show_number(value: float | None) -> str:
    """A number for people: groups of three digits, at most three digits that count behind."""
    if value is None:
        return ""
    number = float(value)
    if not math.isfinite(number):
        return str(number)
    digits = 0 if number == int(number) or abs(number) >= 1000 else 1 if abs(number) >= 10 else 2
    return f"{number:,.{digits}f}".replace(",", "\u202f")


def short_number(value: float) -> str:
    """A round number in few characters: 20k, 1.5M."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def bars(rows: Rows, title: str) -> str:
    """Horizontal bars of rows {label, value}, the first on top; a row's `href` is its link."""
    most = max(*(float(r["value"] or 0) for r in rows), 0.0, 1e-9)
    out = []
    for i, row in enumerate(rows):
        label, value = clean(row["label"]), float(row["value"] or 0)
        number, y = show_number(value), i * _ROW
        shown = _text(cut(label, NARROW - text_width(number) - FONT), "0", y + 13)
        if row.get("href"):
            shown = f'<a href="{html.escape(row["href"])}">{shown}</a>'
        out.append(
            f"<g><title>{html.escape(f'{label}: {number}')}</title>{shown}"
            f"{_text(number, '100%', y + 13, 'end')}"
            f'<rect class="track" x="0" y="{y + 19}" width="100%" height="{_BAR}" rx="2"/>'
            f'<rect class="c0" x="0" y="{y + 19}" width="{max(100 * value / most, 0):.2f}%"'
            f' height="{_BAR}" rx="2"/></g>'
        )
    # what has links in it is no image
    role = "group" if any(r.get("href") for r in rows) else "img"
    return _svg(title, len(rows) * _ROW, out, role)


def columns(rows: Rows, title: str) -> str:
    """Stacked columns: `label` on the x axis, one colour for each other column of numbers.

    More than MOST_COLUMNS rows are added up in groups of neighbours, and the plot says so.
    """
    names = [k for k in rows[0] if k not in ("label", "upper_ms", "sum_ms")]
    size = math.ceil(len(rows) / MOST_COLUMNS)
    rows, note = _grouped(rows, names, size), ""
    if size > 1:
        note = f"<p class=note>Each column is the sum of {size} neighbours.</p>"
    sums = [sum(float(r[n] or 0) for n in names) for r in rows]
    ticks = nice_ticks(max(*sums, 0.0, 1e-9))
    step = 100 / max(len(rows), 4)  # one column alone is no wall
    out = _grid(ticks)
    for i, row in enumerate(rows):
        base, label = float(_HEIGHT - _FOOT), clean(row["label"])
        told = ", ".join(f"{n} {show_number(row[n])}" for n in names)
        parts = []
        for color, name in enumerate(names):
            height = float(row[name] or 0) / ticks[-1] * (_HEIGHT - _FOOT - _TOP)
            base -= height
            parts.append(
                f'<rect class="c{color % 5}" x="{(i + 0.12) * step:.3f}%" y="{base:.1f}"'
                f' width="{0.76 * step:.3f}%" height="{height:.1f}"/>'
            )
        out.append(f"<g><title>{html.escape(f'{label}: {told}')}</title>{''.join(parts)}</g>")
    out += _x_labels([(clean(r["label"]), (i + 0.5) * step) for i, r in enumerate(rows)])
    return _legend(names) + _framed(ticks, _svg(title, _HEIGHT, out)) + note


def lines(rows: Rows, title: str) -> str:
    """Lines over `x`: one for each other column, with its last value in the legend.

    Of more than MOST_POINTS points each so manieth is drawn, and the plot says so.
    """
    rows, note = sorted(rows, key=lambda r: r["x"]), ""
    names, step = [k for k in rows[0] if k != "x"], math.ceil(len(rows) / MOST_POINTS)
    if step > 1:
        last = rows[-1]
        rows = [*rows[:-1:step], last]
        note = f"<p class=note>One point in {step} is drawn.</p>"
    values = [float(r[n]) for r in rows for n in names if r[n] is not None]
    ticks = nice_ticks(max(*values, 0.0, 1e-9))
    first, span = float(rows[0]["x"]), float(rows[-1]["x"] - rows[0]["x"])
    at = [100 * (float(r["x"]) - first) / span if span else 50.0 for r in rows]
    drawn = []
    for color, name in enumerate(names):
        points = [
            f"{x:.2f},{100 * (1 - float(r[name]) / ticks[-1]):.2f}"
            for x, r in zip(at, rows, strict=True)
            if r[name] is not None
        ]
        if not points:
            continue
        # a line of one point is a dot: its ends are round
        dot = " dot" if len(points) == 1 else ""
        drawn.append(f'<path class="l{color % 5}{dot}" d="M{" L".join([*points, *points[-1:]])}"/>')
    out = [
        *_grid(ticks),
        f'<svg x="0" y="{_TOP}" width="100%" height="{_HEIGHT - _FOOT - _TOP}"'
        f' viewBox="0 0 100 100" preserveAspectRatio="none">{"".join(drawn)}</svg>',
        *_x_labels([(show_number(r["x"]), x) for x, r in zip(at, rows, strict=True)]),
    ]
    legend = [f"{n} (last {show_number(rows[-1][n])})" for n in names]
    return _legend(legend) + _framed(ticks, _svg(title, _HEIGHT, out)) + note


def nice_ticks(most: float) -> list[float]:
    """Ticks from 0 in steps of 1, 2 or 5 times a power of ten; the last is at least `most`."""
    rough = most / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= rough * (1 - 1e-9))
    return [i * step for i in range(math.ceil(most / step - 1e-9) + 1)]


def clean(value: Any) -> str:
    """A text without characters that XML forbids or that turn the text around them."""
    return _UNPRINTABLE.sub("\ufffd", str(value))


def _grouped(rows: Rows, names: list[str], size: int) -> Rows:
    """Sums of each `size` neighbours."""
    groups = [rows[i : i + size] for i in range(0, len(rows), size)]
    return [
        {
            "label": g[0]["label"] if len(g) == 1 else f"{g[0]['label']} to {g[-1]['label']}",
            **{n: sum(float(r[n] or 0) for r in g) for n in names},
        }
        for g in groups
    ]


def _grid(ticks: list[float]) -> list[str]:
    """Lines across at the values of an axis."""
    out = []
    for tick in ticks:
        y = _HEIGHT - _FOOT - tick / ticks[-1] * (_HEIGHT - _FOOT - _TOP)
        out.append(f'<line class="grid" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>')
    return out


def _framed(ticks: list[float], plot: str) -> str:
    """A plot with the values of its axis beside it."""
    width = max(text_width(short_number(t)) for t in ticks)
    values = [
        _text(
            short_number(tick),
            f"{width:.0f}",
            _HEIGHT - _FOOT - tick / ticks[-1] * (_HEIGHT - _FOOT - _TOP) + 4,
            "end",
            "tick",
        )
        for tick in ticks
    ]
    return (
        f'<div class=frame><svg class="axis" aria-hidden="true" width="{width + 6:.0f}"'
        f' height="{_HEIGHT}">{"".join(values)}</svg>{plot}</div>'
    )


def _x_labels(labels: list[tuple[str, float]]) -> list[str]:
    """Labels (text, % of the width) below a plot: as many as fit beside each other."""
    out, free = [], 0.0
    for text, at in labels:
        shown = cut(text, INNER / 3)
        width, middle = text_width(shown), at / 100 * INNER
        start = min(max(middle - width / 2, 0.0), INNER - width)
        if start < free:
            continue
        free = start + width + FONT
        x, anchor = f"{at:.2f}%", "middle"
        if middle < width / 2:
            x, anchor = "0", "start"
        elif middle > INNER - width / 2:
            x, anchor = "100%", "end"
        out.append(_text(shown, x, _HEIGHT - 5, anchor, "tick", text))
    return out


def _legend(names: list[str]) -> str:
    """The colours' names, above the plot and clear of it."""
    if len(names) < 2:
        return ""
    keys = "".join(f"<li class=k{i % 5}>{html.escape(clean(n))}" for i, n in enumerate(names))
    return f"<ul class=legend>{keys}</ul>"


def _text(
    text: str, x: str, y: float, anchor: str = "start", css: str = "label", whole: str = ""
) -> str:
    title = f"<title>{html.escape(whole)}</title>" if whole and whole != text else ""
    return (
        f'<text class="{css}" x="{x}" y="{y:.1f}" text-anchor="{anchor}">{title}'
        f"{html.escape(text)}</text>"
    )


def _svg(title: str, height: int, parts: list[str], role: str = "img") -> str:
    return (
        f'<svg class="plot" role="{role}" aria-label="{html.escape(clean(title))}" width="100%"'
        f' height="{height}" font-size="{FONT}">{"".join(parts)}</svg>'
    )
