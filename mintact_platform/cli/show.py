"""`mintact show`: where a run stands, or what happened in one of its trajectories."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from mintact_platform.cli.tables import print_renderable, print_table
from mintact_platform.config import RunConfig
from mintact_platform.dashboard.environments import HEADERS, environment_rows
from mintact_platform.dashboard.history import History, find_run, rate
from mintact_platform.dashboard.samples import words
from mintact_platform.dashboard.table import before_after, rich_table
from mintact_platform.dashboard.terminal import clock_time, percent
from mintact_platform.errors import ConfigurationError
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.storage.ledger import get_meta, ledger
from mintact_platform.storage.trajectories import load

EXAMPLES = """\
  mintact show quickstart                    a run under runs/, or the path of one
  mintact show quickstart 01HF7ZC24F         a trajectory, by id or its beginning
  mintact show quickstart --json | jq .steps
"""
RECENT = 10
"""Steps whose metrics the summary averages."""
SHOWN = {
    "train/loss": "loss",
    "train/grad_norm": "gradient norm",
    "train/entropy": "entropy",
    "train/engine_gap": "engine gap",
    "train/seconds": "seconds a step",
    "idle/trainer": "trainer idle",
    "sft/loss": "SFT loss",
}
"""Metrics of the summary line and what they are called there; `--json` has all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    parser.add_argument("run", metavar="RUN", help="a run's name or directory")
    parser.add_argument("id", nargs="?", metavar="ID", help="a trajectory")


def run(arguments: argparse.Namespace) -> int:
    """Print the summary or the trajectory."""
    with History(find_run(arguments.run, arguments.runs)) as history:
        if arguments.id:
            _show_trajectory(history, arguments.id, as_json=arguments.json)
        elif arguments.json:
            print(json.dumps(_summary(history), indent=2))
        else:
            _show_run(history)
    return 0


def _show_run(history: History) -> None:
    taken, progress = history.progress()
    length = clock_time(history.ended - history.began)
    print(f"{history.path}: step {progress}, weights v{history.version}, {length}")
    recent_metrics = _recent(history)
    metrics = ", ".join(f"{SHOWN[n]} {recent_metrics[n]:.4g}" for n in SHOWN if n in recent_metrics)
    if history.config and get_meta(history.database, "verb") in (None, "train"):
        print(f"objective: {_objective(history.config)}")
    if metrics:
        print(f"last {min(RECENT, taken)} steps: {metrics}")
    rows = []
    for domain in history.domains:
        rollouts = [r for r in history.rollouts if r.domain == domain]
        recent = rate([r for r in rollouts if r.step >= taken - RECENT])
        success = percent(recent.successes / recent.n if recent.n else None)
        masked = str(rate(rollouts).masked)
        rows.append((domain, _judge(history, domain), str(len(rollouts)), success, masked))
    print()
    print_table(("domain", "judge", "rollouts", "recent success", "masked"), rows)
    if environments := environment_rows(history):
        print()
        print_table(HEADERS, environments)
    if table := before_after(history):
        print()
        print_renderable(rich_table(table))
    if failures := history.failures():
        print("\nfailures (the first of each kind)")
        print_table(
            ("outcome", "phase", "domain", "count", "message", "trajectory"),
            [
                (f.outcome, f.phase, f.domain, str(f.count), f"{f.kind}: {f.message}", f.first)
                for f in failures
            ],
        )
    print()
    for domain, row in ledger(history.database).items():
        print(f"{domain}: {row}")


def _objective(config: RunConfig) -> str:
    """The preset, and what the run file puts in place of its parts."""
    chosen = config.objective
    parts = [chosen.advantage, chosen.objective, chosen.correction, chosen.normaliser]
    own = [part.name for part in parts if part is not None]
    return chosen.preset + (f" with {', '.join(own)}" if own else "")


def _judge(history: History, domain: str) -> str:
    section = history.config.domains.get(domain) if history.config else None
    return section.judge.name if section else "–"


def _summary(history: History) -> dict[str, Any]:
    return {
        "path": str(history.path),
        "steps": history.progress()[0],
        "version": history.version,
        "seconds": history.ended - history.began,
        "metrics": _recent(history),
        "success": {
            row.domain: {"before": row.first._asdict(), "after": row.last._asdict()}
            for row in before_after(history)
            if row.compared
        },
        "failures": [asdict(failure) for failure in history.failures()],
        "ledger": {domain: asdict(row) for domain, row in ledger(history.database).items()},
    }


def _recent(history: History) -> dict[str, float]:
    """Means over the last steps of what is measured over all domains."""
    values: dict[str, list[float]] = {}
    for step in [step for step in history.steps if step.metrics][-RECENT:]:
        for name, by_domain in step.metrics.items():
            if "" in by_domain:
                values.setdefault(name, []).append(by_domain[""])
    if losses := [sample.value for sample in history.metric("sft/loss")][-RECENT:]:
        values["sft/loss"] = losses
    return {name: sum(found) / len(found) for name, found in values.items()}


def _show_trajectory(history: History, id: str, *, as_json: bool) -> None:
    found = [r for r in (*history.rollouts, *history.evaluations) if r.id.startswith(id.upper())]
    if not found:
        raise ConfigurationError(
            f"no trajectory {id!r}",
            where=str(history.path),
            next=f"e.g. {history.rollouts[-1].id}" if history.rollouts else "none is recorded",
        )
    if len(found) > 1:
        raise ConfigurationError(
            f"{len(found)} trajectories begin with {id!r}",
            where=str(history.path),
            next=f"e.g. {found[0].id}",
        )
    rollout = found[0]
    trajectory = load(history.path / rollout.path)
    if as_json:
        verdict = rollout.verdict.to_json() if rollout.verdict else None
        values = {**trajectory.to_json(), "verdict": verdict, "step": rollout.step}
        print(json.dumps(values, ensure_ascii=False, indent=2))
        return
    print(f"{trajectory.id} · {trajectory.task.domain} · {trajectory.task.id}")
    print(f"goal: {trajectory.task.goal}")
    print(f"outcome: {rollout.outcome}, {len(trajectory.turns)} turns, {trajectory.tokens} tokens")
    if trajectory.chat is not None:
        print(f"used: {trajectory.chat.usage}")
    if rollout.verdict:
        print(f"judge: {rollout.verdict.label} ({rollout.verdict.reason or rollout.verdict.judge})")
    if failure := rollout.failure or trajectory.failure:
        print(f"failure: {failure.phase}: {failure.kind}: {failure.message}")
        print(failure.log_tail, end="\n" if failure.log_tail else "")
    print("\n".join(_turns(history, trajectory)))


def _turns(history: History, trajectory: Trajectory) -> Iterator[str]:
    for turn in trajectory.turns:
        yield f"\n── turn {turn.index + 1} "
        if turn.observation:
            yield f"sees:  {turn.observation}"
        yield from _images(history, trajectory, turn.images)
        yield f"says:  {turn.response}"
        for call in turn.pixel_calls:
            yield f"does:  {words(call)}"
        if turn.error:
            yield f"error: {turn.error}"
    if trajectory.final_observation or trajectory.final_images:
        yield "\n── at the end "
        if trajectory.final_observation:
            yield f"shows: {trajectory.final_observation}"
        yield from _images(history, trajectory, trajectory.final_images)


def _images(history: History, trajectory: Trajectory, digests: Iterable[str]) -> Iterator[str]:
    for digest in digests:
        extension = trajectory.image_extensions.get(digest, "png")
        yield f"image: {history.directory.images.path(digest, extension)}"
