"""Charts are valid SVG, whatever the values."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.dashboard.charts import Bar, Point, Series, bar_chart, line_chart, ticks

numbers = st.floats(-1e6, 1e6)
points = st.builds(Point, numbers, numbers, st.none() | numbers, st.none() | numbers, st.text())


@given(st.lists(points, max_size=8), st.sampled_from(["line", "dashed", "marks"]), st.text())
def test_any_series_is_a_drawing(some, style, name):
    name = "".join(c for c in name if c.isprintable())
    some = [p._replace(note="".join(c for c in p.note if c.isprintable())) for p in some]
    drawing = line_chart([Series(name, 3, some, style=style)], label=name)
    root = ET.fromstring(drawing)
    assert root.get("aria-label") == name
    shapes = [v for part in root.iter() for k, v in part.items() if k != "aria-label"]
    assert not [value for value in shapes if "nan" in value]


@given(st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), max_size=60))
def test_any_bars_stay_inside_the_drawing(columns):
    bars = [Bar(str(i), parts) for i, parts in enumerate(columns)]
    root = ET.fromstring(bar_chart(bars, "abc", label="mix", x_label="step", reference=8))
    for rect in root.iter("rect"):
        assert float(rect.get("y")) >= 0
        assert float(rect.get("height")) >= 0


@given(st.floats(-1e5, 1e5), st.floats(1e-3, 1e5))
def test_ticks_are_few_and_inside(low, span):
    found = ticks(low, low + span)
    assert 1 <= len(found) <= 9
    slack = (abs(low) + span) * 1e-6
    assert all(low - slack <= value <= low + span + slack for value in found)


def test_a_band_needs_two_intervals_and_marks_have_whiskers():
    some = [Point(0, 0.5, 0.4, 0.6), Point(1, 0.6, 0.5, 0.7)]
    assert "polygon" in line_chart([Series("a", 0, some)], label="x")
    assert "polygon" not in line_chart([Series("a", 0, some[:1])], label="x")
    assert line_chart([Series("a", 0, some, style="marks")], label="x").count("whisker") == 2


@pytest.mark.parametrize("high", [1, 40])
def test_ticks_are_round(high):
    assert ticks(0, high) == [0, high / 4, high / 2, high * 3 / 4, high]
