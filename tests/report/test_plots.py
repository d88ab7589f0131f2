"""Plots: right places and sizes by hand, hostile labels, nothing over each other, caps told."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from crawlkit.report import plots
from crawlkit.report.plots import (
    INNER,
    NARROW,
    cut,
    nice_ticks,
    short_number,
    show_number,
    text_width,
)

SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> list[ET.Element]:
    """The plots of a text as XML, which they are too."""
    found = re.findall(r'<svg class="plot".*</svg>', text, re.S)
    return [ET.fromstring(svg) for svg in found]


def px(at: str, width: float) -> float:
    return float(at.removesuffix("%")) / 100 * width if at.endswith("%") else float(at)


def spans(svg: ET.Element, css: str, y: str | None = None, width: float = NARROW):
    """(start, end) in px of each text on one line, at a width of the plot."""
    out = []
    for t in svg.iter("text"):
        if t.get("class") != css or (y is not None and t.get("y") != y):
            continue
        shown = "".join(t.itertext()) if t.find("title") is None else t.find("title").tail
        at, size = px(t.get("x"), width), text_width(shown)
        shift = {"start": 0.0, "middle": size / 2, "end": size}[t.get("text-anchor")]
        out.append((at - shift, at - shift + size))
    return sorted(out)


def test_numbers_for_people():
    shown = [show_number(v) for v in (None, 0, 7, 1234567, 0.125, 12.34, 1234.5)]
    assert shown == ["", "0", "7", "1\u202f234\u202f567", "0.12", "12.3", "1\u202f234"]


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (4, [0, 1, 2, 3, 4]),
        (7, [0, 2, 4, 6, 8]),
        (100, [0, 50, 100]),
        (0.3, [0, 0.1, 0.2, 0.3]),
    ],
)
def test_ticks_are_round_numbers(most, ticks):
    assert nice_ticks(most) == pytest.approx(ticks)


def test_values_of_an_axis_are_short():
    assert [short_number(v) for v in (0, 0.5, 900, 20_000, 1.5e6)] == [
        *("0", "0.5", "900", "20k", "1.5M")
    ]


def test_the_axis_has_room_of_its_own():
    text = plots.columns([{"label": "r1", "n": 12_000}], "t")
    axis = ET.fromstring(re.search(r'<svg class="axis".*?</svg>', text, re.S)[0])
    values = [t.text for t in axis.iter("text")]
    assert values == ["0", "5k", "10k", "15k"]
    room = float(axis.get("width"))
    assert all(px(t.get("x"), room) < room for t in axis.iter("text"))
    assert room + INNER <= NARROW


def test_bars_are_as_long_as_their_values():
    (svg,) = parsed(plots.bars([{"label": "a", "value": 8}, {"label": "b", "value": 2}], "t"))
    widths = [r.get("width") for r in svg.iter("rect") if r.get("class") == "c0"]
    assert widths == ["100.00%", "25.00%"]
    assert svg.get("height") == "68"  # two rows of 34 px
    assert svg.get("aria-label") == "t"


def test_bars_of_nothing_are_drawn():
    (svg,) = parsed(plots.bars([{"label": "a", "value": None}], "t"))
    assert [r.get("width") for r in svg.iter("rect")] == ["100%", "0.00%"]


@pytest.mark.parametrize(
    "label",
    ["</script><b>", "\" onload='x", "]]>&amp;", "a\x00b\u202e", "日本語" * 40, "m" * 300],
)
def test_hostile_labels_stay_text_and_fit(label):
    rows = [{"label": label, "value": 123456789.0}]
    (svg,) = parsed(plots.bars(rows, label))
    assert {e.tag for e in svg.iter()} == {"svg", "g", "title", "text", "rect"}
    (name, number) = spans(svg, "label")
    assert name[1] < number[0] and number[1] <= NARROW
    assert label[:1] != "a" or "\ufffd" in svg.find("g/title").text
    for drawn in (plots.columns([{"label": label, "n": 1}], "t"), plots.bars(rows, label)):
        assert "<b>" not in drawn and "<script" not in drawn


def test_a_cut_text_says_so():
    assert cut("abc", 100) == "abc"
    assert cut("abcdefghij", 50).endswith("…") and text_width(cut("abcdefghij", 50)) <= 50


def test_columns_are_stacked_to_their_sums():
    rows = [{"label": "r1", "a": 3, "b": 1}, {"label": "r2", "a": 2, "b": 0}]
    text = plots.columns(rows, "t")
    (svg,) = parsed(text)
    # 156 px for 4: 39 px for each
    heights = [(r.get("class"), r.get("height")) for r in svg.iter("rect")]
    assert heights == [("c0", "117.0"), ("c1", "39.0"), ("c0", "78.0"), ("c1", "0.0")]
    bottoms = [float(r.get("y")) + float(r.get("height")) for r in svg.iter("rect")]
    assert bottoms == [170.0, 53.0, 170.0, 92.0]
    assert text.index("<ul class=legend>") < text.index("<svg")


@pytest.mark.parametrize("n", [1, 2, 5, 37, 400])
@pytest.mark.parametrize("width", [INNER, 560])
def test_labels_of_columns_do_not_overlap(n, width):
    rows = [{"label": f"r{i:06d}", "fetched": i} for i in range(n)]
    (svg,) = parsed(plots.columns(rows, "t"))
    found = spans(svg, "tick", "185.0", width)
    assert found and found[0][0] >= 0 and found[-1][1] <= width
    assert all(a[1] <= b[0] for a, b in zip(found, found[1:], strict=False))


def test_many_columns_are_added_up_and_it_is_said():
    text = plots.columns([{"label": f"r{i:03d}", "n": 1} for i in range(400)], "t")
    (svg,) = parsed(text)
    titles = [g.find("title").text for g in svg.iter("g")]
    assert len(titles) == 40
    assert titles[0] == "r000 to r009: n 10"
    assert "Each column is the sum of 10 neighbours." in text


def test_lines_go_through_their_points():
    rows = [{"x": 2, "known": 10, "waiting": 0}, {"x": 1, "known": 5, "waiting": None}]
    text = plots.lines(rows, "t")
    (svg,) = parsed(text)
    paths = [(p.get("class"), p.get("d")) for p in svg.iter("path")]
    assert paths == [
        ("l0", "M0.00,50.00 L100.00,0.00 L100.00,0.00"),
        ("l1 dot", "M100.00,100.00 L100.00,100.00"),
    ]
    assert "known (last 10)" in text and "waiting (last 0)" in text


def test_many_points_are_thinned_and_it_is_said():
    text = plots.lines([{"x": i, "n": i} for i in range(1000)], "t")
    (svg,) = parsed(text)
    assert len(next(svg.iter("path")).get("d").split("L")) <= 203
    assert "One point in 5 is drawn." in text and "100.00,0.10" in text
