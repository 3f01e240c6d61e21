"""What two losses wanted of the same batches: a table, and a page of curves.

Reads the lines of a replay's `steps.jsonl`, so that a page can be drawn again from the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from mintact_platform.dashboard import charts
from mintact_platform.dashboard.charts import Point, Series
from mintact_platform.dashboard.page import STYLE, card, document, grid, key, table, title
from mintact_platform.storage.files import write_aside

OWN, OTHER, FOLLOWED, ALL = 0, 1, 2, charts.COLOURS - 1
"""Colours of the run's own loss, of the other one, of the other one's own steps, of all domains."""
CLIPPED, CUT = "Clipped tokens, share", "Importance weights cut, share"
ALIKE = 8.0
"""Two curves share axes while their sizes differ by less than this factor."""
HEADERS = ("domain", "loss", "gradient", "cosine", "lowest", "clipped", "weight", "cut")
OFF_POLICY = (
    "The batches were sampled by the recorded run's policy: this compares updates, not results. "
    "Whether the other loss would have trained a better policy, it cannot say."
)

Line = Mapping[str, Any]


class Pair(NamedTuple):
    """A number of the run's own loss and of the other one; None where a loss has none."""

    own: float | None
    other: float | None

    def __str__(self) -> str:
        """`own → other`."""
        return f"{number(self.own)} → {number(self.other)}"


@dataclass(frozen=True, slots=True)
class Row:
    """Means over the replayed steps; domain "" is over all.

    Attributes:
        domain: name.
        loss: share of the loss.
        gradient: norm before clipping.
        cosine: between the gradients.
        lowest: the smallest cosine of a step.
        clipped: share of tokens beyond a clip bound.
        weight: mean importance weight.
        cut: share of tokens whose importance weight was cut.
    """

    domain: str
    loss: Pair
    gradient: Pair
    cosine: float | None
    lowest: float | None
    clipped: Pair
    weight: Pair
    cut: Pair

    def cells(self) -> tuple[str, ...]:
        """In the order of `HEADERS`."""
        pairs = (self.clipped, self.weight, self.cut)
        ends = (number(self.cosine), number(self.lowest))
        name = self.domain or "all"
        return (name, str(self.loss), str(self.gradient), *ends, *map(str, pairs))


def summary(lines: Sequence[Line]) -> list[Row]:
    """A row over all, then one a domain."""
    return [_row(lines, domain) for domain in ("", *domains_of(lines))]


def domains_of(lines: Sequence[Line]) -> list[str]:
    """In order of appearance."""
    return list(dict.fromkeys(d for line in lines for d in line["own"]["loss"] if d))


def clip_share(side: Mapping[str, Any], domain: str) -> float | None:
    """Share of tokens beyond the upper or the lower bound; None for a loss without bounds."""
    found = [side["metrics"].get(name, {}).get(domain) for name in ("clip_low", "clip_high")]
    known = [value for value in found if value is not None]
    return sum(known) if known else None


def cut_share(side: Mapping[str, Any], domain: str) -> float | None:
    """Share of tokens whose importance weight was cut; None for a loss that weighs nothing."""
    names = ("importance_weight", "importance_weight_max", "importance_weight_truncated")
    mean, most, cut = (side["metrics"].get(name, {}).get(domain) for name in names)
    return None if mean == most == 1 else cut


def number(value: float | None) -> str:
    """Three digits, a dash for None."""
    return "–" if value is None else f"{value:.3g}"


def write_comparison(
    path: Path, lines: Sequence[Line], *, run: str, own: str, other: str, checked: str
) -> Path:
    """Write the page.

    Args:
        path: of the file.
        lines: of `steps.jsonl`.
        run: name of the run.
        own: what the run's own loss is called.
        other: what the other one is called.
        checked: how far the replay repeated the run, for people.
    """
    names = {OWN: own, OTHER: f"{other} (other)" if other == own else other}
    if any(line["followed"] for line in lines):
        names[FOLLOWED] = f"{other}, its own steps"
    sections = (
        _header(run, own, other, checked, names),
        _whole(lines, names),
        *(_domain(lines, domain, names) for domain in domains_of(lines)),
    )
    write_aside(path, document(f"{run}: {own} and {other}", STYLE, sections).encode())
    return path


def _header(run: str, own: str, other: str, checked: str, names: Mapping[int, str]) -> str:
    legend = "".join(key(name, colour) for colour, name in names.items())
    return (
        f"<header><h1>{escape(run)}: {escape(own)} and {escape(other)}</h1>"
        f'<p class="note">{escape(OFF_POLICY)}</p><p class="note">{escape(checked)}</p>'
        f'<div class="legend">{legend}</div></header>'
    )


def _whole(lines: Sequence[Line], names: Mapping[int, str]) -> str:
    rows = [(row.domain == "", row.cells()) for row in summary(lines)]
    domains = domains_of(lines)
    angles = [
        Series(domain, index + 3, _points(lines, _cosine(domain)), style="dashed")
        for index, domain in enumerate(domains)
    ]
    angles.append(Series("all", ALL, _points(lines, _cosine(""))))
    legend = [(domain, index + 3) for index, domain in enumerate(domains)]
    angle = charts.line_chart(angles, label="cosine between the gradients")
    cards = [
        *_curves(lines, "", names),
        card("Cosine between the gradients", angle, legend=(*legend, ("all", ALL))),
    ]
    note = "Means over the steps, own → other. Clipped: tokens beyond a bound of the surrogate."
    boxed = f'<div class="card scroll">{table(HEADERS, rows)}</div>'
    return f"{title('All domains', note)}{boxed}<p></p>{grid(cards)}"


def _domain(lines: Sequence[Line], domain: str, names: Mapping[int, str]) -> str:
    angle = Series(domain, ALL, _points(lines, _cosine(domain)))
    chart = charts.line_chart([angle], label=f"cosine of {domain}")
    cards = [*_curves(lines, domain, names), card("Cosine between the gradients", chart)]
    return f"{title(domain)}{grid(cards)}"


def _curves(lines: Sequence[Line], domain: str, names: Mapping[int, str]) -> list[str]:
    def metric(name: str) -> Callable[[Mapping[str, Any]], float | None]:
        return lambda side: side["metrics"].get(name, {}).get(domain)

    def of_measure(name: str) -> Callable[[Mapping[str, Any]], float | None]:
        return lambda side: (
            side[name].get(domain)
            if isinstance(side[name], Mapping)
            else (None if domain else side[name])
        )

    shown = [
        *_chart(lines, "Loss", of_measure("loss"), names),
        *_chart(lines, "Gradient norm", of_measure("grad_norm"), names),
        *_chart(lines, CLIPPED, lambda side: clip_share(side, domain), names),
        *_chart(lines, "Importance weight, mean", metric("importance_weight"), names),
        *_chart(lines, CUT, lambda side: cut_share(side, domain), names),
    ]
    return shown


def _chart(
    lines: Sequence[Line],
    name: str,
    value: Callable[[Mapping[str, Any]], float | None],
    names: Mapping[int, str],
) -> Iterable[str]:
    """One chart of both losses, or one each where they are of different sizes."""
    series = []
    for colour, side in ((OWN, "own"), (OTHER, "other"), (FOLLOWED, "followed")):
        if colour in names and (points := _points(lines, _of(side, value))):
            style: Any = "dashed" if side == "followed" else "line"
            series.append(Series(names[colour], colour, points, style=style))
    if name in (CLIPPED, CUT) or _alike(series):
        yield card(name, charts.line_chart(series, label=name))
        return
    for one in series:
        yield card(f"{name}: {one.name}", charts.line_chart([one], label=f"{name} of {one.name}"))


def _of(
    side: str, value: Callable[[Mapping[str, Any]], float | None]
) -> Callable[[Line], float | None]:
    return lambda line: value(line[side]) if line[side] else None


def _alike(series: Sequence[Series]) -> bool:
    sizes = [max(abs(p.y) for p in one.points) for one in series]
    known = [size for size in sizes if size > 0]
    return not known or max(known) < ALIKE * min(known)


def _points(lines: Sequence[Line], value: Callable[[Line], float | None]) -> list[Point]:
    found = [(line["step"], value(line)) for line in lines]
    return [Point(x, y) for x, y in found if y is not None and math.isfinite(y)]


def _cosine(domain: str) -> Callable[[Line], float | None]:
    return lambda line: line["cosine"].get(domain)


def _row(lines: Sequence[Line], domain: str) -> Row:
    def pair(value: Callable[[Mapping[str, Any]], float | None]) -> Pair:
        return Pair(*(_mean(value(line[side]) for line in lines) for side in ("own", "other")))

    def metric(name: str) -> Pair:
        return pair(lambda side: side["metrics"].get(name, {}).get(domain))

    cosines = [c for line in lines if (c := line["cosine"].get(domain)) is not None]
    return Row(
        domain,
        pair(lambda side: side["loss"].get(domain)),
        pair(lambda side: side["grad_norm"].get(domain)),
        _mean(cosines),
        min(cosines, default=None),
        pair(lambda side: clip_share(side, domain)),
        metric("importance_weight"),
        pair(lambda side: cut_share(side, domain)),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
