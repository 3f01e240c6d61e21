"""Recorded rollouts as demonstrations: what a teacher did, to be learned by a student.

A demonstration is words and screenshots, never tokens, and is encoded in the student's own chat
format. So the teacher may be any model behind any endpoint.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from mintact_platform.config import RunConfig, load
from mintact_platform.datasets.saved import Row, demonstration_of, rows_of_turns, succeeded
from mintact_platform.errors import ConfigurationError
from mintact_platform.models.chat import load_chat
from mintact_platform.records.demonstration import Demonstration
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.registry.names import Registry
from mintact_platform.storage import trajectories
from mintact_platform.storage.connections import read_once
from mintact_platform.storage.images import ImageStore

SPACE = "action space of "
"""Key in a run's `meta`, before a domain's name: the space that its responses are worded in."""

_RECORDED = (
    "SELECT t.id, g.domain, t.outcome, t.verdict_json, t.path"
    " FROM trajectories t JOIN groups g ON g.id = t.group_id"
    " UNION ALL SELECT id, domain, outcome, verdict_json, path FROM evaluations ORDER BY 1"
)


def _run(path: Path) -> Path:
    if not (path / "run.db").is_file():
        raise ValueError("no run there; collect one with `mintact rollout`")
    return path


def rollouts(
    *,
    seed: int,
    path: Annotated[Path, AfterValidator(_run)],
    verdict: Literal["success", "any"] = "success",
    domains: Sequence[str] | None = None,
) -> Iterator[Demonstration]:
    """Rollouts of a run in random order, over and over; error turns are left out.

    Args:
        seed: of the order.
        path: a run directory, of `mintact rollout` or any other.
        verdict: `success` takes only what a judge, or else the state check, calls one; `any` takes
            all that show the agent's own behaviour.
        domains: only these; None takes all.

    Raises:
        ValueError: no run there.
        ConfigurationError: none that may be used.
        StorageError: a trajectory's file is missing.
    """
    run = _Recorded(path)
    lines = [row for row in run.rows if Outcome(row["outcome"]).counts]
    if domains is not None:
        lines = [row for row in lines if row["domain"] in domains]
    order = random.Random(seed)
    while True:
        order.shuffle(lines)
        given = 0
        for line in lines:
            row = run.row(line, unless=None if verdict == "any" else succeeded)
            demonstration = None if row is None else demonstration_of(row, run.images)
            if demonstration is not None and demonstration.turns:
                given += 1
                yield demonstration
        if not given:
            raise ConfigurationError(
                f"none of {len(lines)} rollouts may be used",
                where=str(path),
                next="collect some that succeed, or set verdict = 'any'",
            )


@dataclass(frozen=True)
class _Recorded:
    """A run as a source of rows."""

    path: Path

    @cached_property
    def rows(self) -> list[Any]:
        return self._read[0]

    @cached_property
    def _read(self) -> list[list[Any]]:
        return read_once(self.path / "run.db", _RECORDED, "SELECT key, value FROM meta")

    @cached_property
    def config(self) -> RunConfig:
        return load(self.path / "config.toml")

    @property
    def images(self) -> ImageStore:
        return ImageStore(self.path / "images")

    def row(self, line: Any, *, unless: Callable[[Row], bool] | None) -> Row | None:
        """A rollout in the form of a saved episode; None where it is not wanted."""
        verdict = line["verdict_json"]
        judged: dict[str, Any] = {"verdict": json.loads(verdict) if verdict else None}
        if unless is not None and judged["verdict"] is not None and not unless(judged):
            return None
        found = trajectories.load(self.path / line["path"])
        judged["state_check"] = None if found.state_check is None else asdict(found.state_check)
        if unless is not None and not unless(judged):
            return None
        return {
            **judged,
            "id": found.id,
            "task": found.task.to_json(),
            "action_space": self._space(line["domain"]),
            "turns": [self._spoken(found, turn) for turn in rows_of_turns(found, tools_of(found))],
            "extra": {"by": "rollout", "run": self.path.name},
        }

    def _space(self, domain: str) -> str:
        said = {row["key"]: str(row["value"]) for row in self._read[1]}
        if SPACE + domain in said:
            return said[SPACE + domain]
        section = self.config.domains.get(domain)
        if section is None or section.action_space is None:
            raise ConfigurationError(
                f"says no action space of domain {domain!r}",
                where=str(self.path),
                next=f"add action_space to [domains.{domain}] of its config.toml",
            )
        return section.action_space.name

    def _spoken(self, found: Trajectory, turn: dict[str, Any]) -> dict[str, Any]:
        """The turn without the token its response ended with."""
        if found.chat is not None:
            return turn
        return {**turn, "response": turn["response"].removesuffix(self._end)}

    @cached_property
    def _end(self) -> str:
        model = self.config.model
        chat = load_chat(model.chat, Path(model.path), Registry.discover())
        return chat.decode([chat.end_id])


def tools_of(trajectory: Trajectory) -> list[tuple[Any, ...]]:
    """The tools in the prompt of each turn, which changes only where a segment begins."""
    shown: dict[int, tuple[Any, ...]] = {}
    for turn in trajectory.turns:
        known = trajectory.tool_sets[turn.tools] if trajectory.tool_sets else ()
        shown.setdefault(turn.segment, known)
    return [shown[turn.segment] for turn in trajectory.turns]
