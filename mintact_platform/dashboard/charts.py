"""Small SVG charts for the report: lines with bands, marks with whiskers, stacked bars.

Colours are CSS classes (`c0` … `c7`), so that one style sheet serves light and dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal, NamedTuple, TypeGuard

WIDTH, HEIGHT = 480, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 36
CAPTION = 18
COLOURS = 8

STYLE = """
:root { --ink:#1c2430; --faint:#6b7686; --rule:#e3e7ec; --c0:#2563c9; --c1:#d9622b; --c2:#13876a;
  --c3:#9a4bb5; --c4:#b58900; --c5:#c2366b; --c6:#4d7f17; --c7:#5d6b7a; }
@media (prefers-color-scheme: dark) { :root { --ink:#e6eaf0; --faint:#94a1b2; --rule:#2c3542;
  --c0:#6ea8fe; --c1:#f59b6c; --c2:#4cc9a4; --c3:#cf94e6; --c4:#e0bf4f; --c5:#f283a9;
  --c6:#9ccb63; --c7:#a4b1c0; } }
svg.chart text { font: 11px system-ui, sans-serif; fill: var(--faint); }
@media (max-width: 30rem) { svg.chart text { font-size: 14px; } }
svg.chart .rule { stroke: var(--rule); }
svg.chart .line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
svg.chart .dashed { stroke-dasharray: 5 4; stroke-width: 1.5;
  opacity: .75; }
svg.chart .band { fill: var(--c); opacity: .16; }
svg.chart .mark { fill: var(--c); stroke: var(--page, none); stroke-width: 1.5; }
svg.chart .whisker { stroke: var(--c); stroke-width: 1.5; }
svg.chart .bar { fill: var(--c); }
svg.chart .reference { stroke: var(--ink); stroke-dasharray: 2 3; }
""" + "\n".join(f".c{i} {{ --c: var(--c{i}); }}" for i in range(COLOURS))


class Point(NamedTuple):
    """A value with, where known, its interval and a note for the tooltip."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """What one colour shows.

    Attributes:
        name: for the legend and the tooltip.
        colour: index of the CSS class.
        points: in order of x.
        style: `line` (a band where intervals are known), `dashed`, or `marks` with whiskers.
    """

    name: str
    colour: int
    points: Sequence[Point]
    style: Literal["line", "dashed", "marks"] = "line"


class Bar(NamedTuple):
    """One column: its label and the parts stacked in it, by colour index."""

    label: str
    parts: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps values to the drawing area."""

    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, value: float) -> float:
        span = (self.x1 - self.x0) or 1
        return LEFT + (value - self.x0) / span * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        span = (self.y1 - self.y0) or 1
        clipped = min(max(value, self.y0), self.y1)
        return HEIGHT - BOTTOM - (clipped - self.y0) / span * (HEIGHT - TOP - BOTTOM)


def line_chart(
    series: Sequence[Series],
    *,
    label: str,
    x_label: str = "step",
    percent: bool = False,
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
) -> str:
    """Lines and marks over a common x axis.

    Args:
        series: what to draw, later ones on top.
        label: what the chart shows, read aloud by screen readers.
        x_label: under the axis.
        percent: whether y values are shares.
        x_range: None fits the values.
        y_range: None fits the values.
    """
    points = [p for s in series for p in s.points if math.isfinite(p.y)]
    if not points:
        return empty(label)
    low, high = y_range or _range([v for p in points for v in (p.y, p.low, p.high) if _number(v)])
    left, right = x_range or (min(p.x for p in points), max(p.x for p in points))
    scale = _Scale(left, right, low, high)
    body = [_y_axis(scale, percent), _x_axis(scale, x_label)]
    body += [_draw(s, scale, percent) for s in series]
    return _svg(body, label)


def bar_chart(
    bars: Sequence[Bar],
    names: Sequence[str],
    *,
    label: str,
    x_label: str,
    reference: float | None = None,
) -> str:
    """Stacked columns, part i of each in colour i.

    Args:
        bars: from left to right.
        names: of the parts, for tooltips.
        label: what the chart shows.
        x_label: under the axis.
        reference: a height to compare with, drawn as a dotted line.
    """
    if not bars:
        return empty(label)
    top = max([sum(bar.parts) for bar in bars] + [reference or 0]) or 1
    scale = _Scale(0, len(bars), 0, _nice_ceiling(top))
    body = [_y_axis(scale, percent=False)]
    body += [_column(bar, index, names, scale) for index, bar in enumerate(bars)]
    every = math.ceil(len(bars) / 8)
    for index, bar in enumerate(bars):
        if index % every == 0:
            body.append(_text(scale.x(index + 0.5), HEIGHT - BOTTOM + 15, bar.label, "middle"))
    body.append(_text((WIDTH + LEFT - RIGHT) / 2, HEIGHT - 5, x_label, "middle"))
    if reference is not None:
        y = _f(scale.y(reference))
        body.append(f'<line class="reference" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
    return _svg(body, label)


def standalone(svg: str, title: str, legend: Sequence[tuple[str, int]]) -> str:
    """A chart as a file of its own: with a title, a legend, its style sheet and a background."""
    size = f'xmlns="http://www.w3.org/2000/svg" width="{WIDTH * 2}"'
    opening, _, rest = svg.partition(">")
    opening = opening.replace(f"0 0 {WIDTH} {HEIGHT}", f"0 -54 {WIDTH} {HEIGHT + 54}")
    return f"{opening} {size}>{_head(title, legend)}{rest}\n"


def stacked(parts: Sequence[tuple[str, str]], title: str, legend: Sequence[tuple[str, int]]) -> str:
    """Charts under one another as one file.

    Args:
        parts: caption and chart.
        title: of the whole.
        legend: names and colours, the same for all.
    """
    body = []
    for number, (caption, chart) in enumerate(parts):
        top = number * (HEIGHT + CAPTION)
        inside = chart.removeprefix('<svg class="chart"')
        place = f'x="0" y="{top + CAPTION}" width="{WIDTH}" height="{HEIGHT}"'
        body.append(_text(14, top + CAPTION - 4, caption, "start"))
        body.append(f'<svg class="chart" {place}{inside}')
    height = 54 + len(parts) * (HEIGHT + CAPTION)
    opening = (
        f'<svg class="chart" viewBox="0 -54 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg" width="{WIDTH * 2}">'
    )
    return f"{opening}{_head(title, legend)}{''.join(body)}</svg>\n"


def _head(title: str, legend: Sequence[tuple[str, int]]) -> str:
    style = f"{STYLE} svg {{ background: #fff; --page:#fff }} svg.chart .title {{ font-size: 14px; "
    style += "fill: var(--ink); font-weight: 600 } @media (prefers-color-scheme: dark) { svg { "
    style += "background: #12161c; --page:#12161c } }"
    head = [f'<text class="title" x="14" y="-32">{escape(title)}</text>']
    x = 14.0
    for name, colour in legend:
        square = f'<rect class="bar c{colour % COLOURS}" x="{_f(x)}" y="-21" width="9" height="9"/>'
        head.append(square + _text(x + 13, -12.5, name, "start"))
        x += 26 + 6.2 * len(name)
    return f"<style>{style}</style>{''.join(head)}"


def empty(label: str) -> str:
    """The place of a chart that has nothing to show yet."""
    return _svg([_text(WIDTH / 2, HEIGHT / 2, "nothing recorded yet", "middle")], label)


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round values between low and high, about `count` of them.

    Example:
        >>> ticks(0, 40)
        [0.0, 10.0, 20.0, 30.0, 40.0]
    """
    raw = (high - low) / count or 1
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def _draw(series: Series, scale: _Scale, percent: bool) -> str:
    points = [p for p in series.points if math.isfinite(p.y)]
    parts = []
    if series.style != "marks":
        if series.style == "line":
            parts.append(_band(points, scale))
        path = " ".join(f"{_f(scale.x(p.x))},{_f(scale.y(p.y))}" for p in points)
        parts.append(f'<polyline class="line {series.style}" points="{path}"/>')
    radius = 4 if series.style == "marks" or len(points) == 1 else 0
    for p in points:
        x, y, tip = _f(scale.x(p.x)), _f(scale.y(p.y)), _tip(series.name, p, percent)
        if series.style == "marks" and _number(p.low) and _number(p.high):
            ends = f'y1="{_f(scale.y(p.low))}" y2="{_f(scale.y(p.high))}"'
            parts.append(f'<line class="whisker" x1="{x}" x2="{x}" {ends}/>')
        shown = 'class="mark"' if radius else 'fill="transparent"'
        parts.append(f'<circle {shown} cx="{x}" cy="{y}" r="{radius or 6}">{tip}</circle>')
    return f'<g class="c{series.colour % COLOURS}">{"".join(parts)}</g>'


def _band(points: Sequence[Point], scale: _Scale) -> str:
    known = [(p.x, p.low, p.high) for p in points if _number(p.low) and _number(p.high)]
    if len(known) < 2:
        return ""
    upper = [f"{_f(scale.x(x))},{_f(scale.y(high))}" for x, _, high in known]
    lower = [f"{_f(scale.x(x))},{_f(scale.y(low))}" for x, low, _ in reversed(known)]
    return f'<polygon class="band" points="{" ".join(upper + lower)}"/>'


def _column(bar: Bar, index: int, names: Sequence[str], scale: _Scale) -> str:
    left, right = scale.x(index), scale.x(index + 1)
    gap = min(3.0, (right - left) * 0.15)
    parts, base = [], 0.0
    for colour, (value, name) in enumerate(zip(bar.parts, names, strict=True)):
        top, bottom = scale.y(base + value), scale.y(base)
        base += value
        if value:
            tip = f"<title>{escape(bar.label)}: {escape(name)} {value:g}</title>"
            place = f'x="{_f(left + gap / 2)}" width="{_f(right - left - gap)}"'
            size = f'y="{_f(top)}" height="{_f(bottom - top)}"'
            parts.append(f'<rect class="bar c{colour % COLOURS}" {place} {size}>{tip}</rect>')
    return "".join(parts)


def _y_axis(scale: _Scale, percent: bool) -> str:
    parts = []
    for value in ticks(scale.y0, scale.y1):
        y = scale.y(value)
        ends = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_f(y)}" y2="{_f(y)}"'
        parts.append(f'<line class="rule" {ends}/>')
        parts.append(_text(LEFT - 6, y + 4, _number_text(value, percent), "end"))
    return "".join(parts)


def _x_axis(scale: _Scale, label: str) -> str:
    parts = [
        _text(scale.x(value), HEIGHT - BOTTOM + 15, f"{value:g}", "middle")
        for value in ticks(scale.x0, scale.x1, 6)
    ]
    return "".join(parts) + _text((WIDTH + LEFT - RIGHT) / 2, HEIGHT - 5, label, "middle")


def _svg(body: Sequence[str], label: str) -> str:
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f'<svg class="chart" {box} role="img" aria-label="{escape(label)}">{"".join(body)}</svg>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{_f(x)}" y="{_f(y)}" text-anchor="{anchor}">{escape(text)}</text>'


def _tip(name: str, p: Point, percent: bool) -> str:
    value = _number_text(p.y, percent)
    if _number(p.low) and _number(p.high):
        value += f" [{_number_text(p.low, percent)}, {_number_text(p.high, percent)}]"
    note = f" · {p.note}" if p.note else ""
    return f"<title>{escape(f'{name} at {p.x:g}: {value}{note}')}</title>"


def _number_text(value: float, percent: bool) -> str:
    return f"{100 * value:.0f} %" if percent else f"{value:.4g}"


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    if low >= 0 and low < high * 0.5:
        low = 0.0
    margin = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    return (low if low == 0 else low - margin), high + margin


def _nice_ceiling(value: float) -> float:
    step = ticks(0, value)
    width = step[1] - step[0] if len(step) > 1 else value
    return math.ceil(value / width - 1e-9) * width


def _number(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _f(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
