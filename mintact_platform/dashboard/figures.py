"""From a run's history to the charts of its report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from mintact_platform.dashboard import charts
from mintact_platform.dashboard.charts import Bar, Point, Series
from mintact_platform.dashboard.history import History, Rollout, Sample, rate
from mintact_platform.evaluation.statistics import Interval, mean_of_rates, wilson

MEAN = "mean, held out"
BINS = 40
"""Most points a success curve has; steps are joined beyond."""


def success(history: History, domain: str, colour: int) -> str:
    """One domain's success: training rollouts with their Wilson band, evaluations as marks."""
    rollouts = [r for r in history.rollouts if r.domain == domain]
    held_out = [r for r in history.evaluations if r.domain == domain]
    series = [
        Series("training rollouts", colour, _by_step(rollouts, _width(history))),
        Series("held-out tasks", colour, _by_step(held_out, 1), style="marks"),
    ]
    return _shares(history, series, f"success of {domain} over trainer steps")


def all_success(history: History) -> str:
    """All domains in one chart: training dashed, held-out tasks as marks, their mean on top."""
    width, series, count = _width(history), [], len(history.domains)
    for colour, domain in enumerate(history.domains):
        rollouts = [r for r in history.rollouts if r.domain == domain]
        held_out = [r for r in history.evaluations if r.domain == domain]
        # marks of one step stand beside each other, else they hide one another
        aside = (colour - (count - 1) / 2) * _last(history) / 90
        marks = [p._replace(x=p.x + aside) for p in _by_step(held_out, 1)]
        series.append(Series(domain, colour, _by_step(rollouts, width), style="dashed"))
        series.append(Series(f"{domain}, held out", colour, marks, style="marks"))
    series.append(Series(MEAN, charts.COLOURS - 1, _mean_curve(history)))
    return _shares(history, series, "success over trainer steps")


def write_curve(run_path: Path) -> Path:
    """Write the success curves of all domains as `curve.svg` beside the report."""
    with History(run_path) as history:
        legend = [(domain, colour) for colour, domain in enumerate(history.domains)]
        legend.append((MEAN, charts.COLOURS - 1))
        title = f"{run_path.resolve().name}: success by trainer step"
        drawing = charts.standalone(all_success(history), title, legend)
    path = run_path / "curve.svg"
    path.write_text(drawing, encoding="utf-8")
    return path


def mix(history: History) -> str:
    """Groups of each batch by domain; the dotted line is the batch size asked for."""
    domains = history.domains
    bars = [Bar(str(s.step), [s.realised.get(d, 0) for d in domains]) for s in history.steps]
    size = history.config.batch_groups if history.config else None
    return charts.bar_chart(
        bars, domains, label="groups in each batch by domain", x_label="step", reference=size
    )


def ages(history: History) -> str:
    """Trained groups by their age in weight versions."""
    counts = history.ages()
    oldest = max((age for c in counts.values() for age in c), default=-1)
    bars = [
        Bar(str(age), [counts.get(d, Counter())[age] for d in history.domains])
        for age in range(oldest + 1)
    ]
    label = "trained groups by age"
    return charts.bar_chart(
        bars, history.domains, label=label, x_label="weight versions behind the deployed one"
    )


def staleness(history: History) -> str:
    """Mean age of each batch's groups, by domain."""
    return per_step(history, "staleness/mean", "mean age of a batch in weight versions")


def per_step(history: History, metric: str, label: str) -> str:
    """A metric of the steps: one line for the whole run, or one a domain."""
    by_domain: Mapping[str, list[Point]] = defaultdict(list)
    for step in history.steps:
        for domain, value in step.metrics.get(metric, {}).items():
            by_domain[domain].append(Point(step.step, value))
    series = [
        Series(domain or label, _colour(history, domain), points)
        for domain, points in sorted(by_domain.items())
    ]
    return charts.line_chart(series, label=label)


def idle(history: History) -> str:
    """Share of time that trainer and rollouter stood idle."""
    series = [
        Series("trainer", 1, _minutes(history.metric("idle/trainer"))),
        Series("rollouter", 0, _minutes(history.metric("idle/rollouter"))),
    ]
    return charts.line_chart(
        series, label="idle share over time", x_label="minutes", percent=True, y_range=(0, 1)
    )


def throughput(history: History) -> str:
    """Tokens a second."""
    series = [Series("tokens/s", 2, _minutes(history.metric("tokens/second")))]
    return charts.line_chart(series, label="tokens a second over time", x_label="minutes")


def supervised(history: History) -> str:
    """Loss of supervised steps, "" for a run without any."""
    samples = history.metric("sft/loss")
    points = [Point(step, sample.value) for step, sample in enumerate(samples, 1)]
    label = "supervised loss"
    return charts.line_chart([Series(label, 0, points)], label=label) if points else ""


def trainer_metrics(history: History) -> list[str]:
    """Names of the trainer's metrics besides loss and gradient norm, sorted."""
    names = {name for step in history.steps for name in step.metrics if name.startswith("train/")}
    return sorted(names - {"train/loss", "train/grad_norm"})


def _shares(history: History, series: Sequence[Series], label: str) -> str:
    last = _last(history)
    margin = last / 40
    return charts.line_chart(
        series, label=label, percent=True, x_range=(-margin, last + margin), y_range=(0, 1)
    )


def _by_step(rollouts: Sequence[Rollout], width: int) -> list[Point]:
    """Success with its interval, over bins of `width` steps, placed at each bin's mean."""
    bins: dict[int, list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        bins[rollout.step // width].append(rollout)
    points = []
    for _, inside in sorted(bins.items()):
        counts = rate(inside)
        if counts.n:
            middle = sum(rollout.step for rollout in inside) / len(inside)
            points.append(_point(middle, wilson(*counts[:2]), f"{counts.n} episodes"))
    return points


def _mean_curve(history: History) -> list[Point]:
    by_step: dict[int, dict[str, list[Rollout]]] = defaultdict(lambda: defaultdict(list))
    for rollout in history.evaluations:
        by_step[rollout.step][rollout.domain].append(rollout)
    full = max((len(domains) for domains in by_step.values()), default=0)
    return [
        _point(step, mean_of_rates([rate(r)[:2] for r in domains.values()]), "mean of domains")
        for step, domains in sorted(by_step.items())
        if len(domains) == full
    ]


def _point(x: float, interval: Interval, note: str) -> Point:
    return Point(x, *interval, note)


def _last(history: History) -> int:
    return max((r.step for r in (*history.rollouts, *history.evaluations)), default=0)


def _width(history: History) -> int:
    return -(-(_last(history) + 1) // BINS)


def _minutes(samples: Sequence[Sample]) -> list[Point]:
    return [Point(sample.seconds / 60, sample.value) for sample in samples]


def _colour(history: History, domain: str) -> int:
    return history.domains.index(domain) if domain in history.domains else charts.COLOURS - 1
