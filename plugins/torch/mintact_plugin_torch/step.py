"""A recorded batch made ready: trajectories read, advantages taken, updates and S planned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from mintact_platform.records.trajectory import Trajectory
from mintact_platform.storage import trajectories
from mintact_platform.training import batch as planning
from mintact_platform.training.batch import Row
from mintact_platform.training.loss import evaluate_advantages, evaluate_normaliser
from mintact_platform.training.objective import LossParts
from mintact_platform.training.rewards import reward_batch
from mintact_platform.training.trainer import RowRef, StepRequest, TrainerSpec
from mintact_plugin_torch.forward import Forward
from mintact_plugin_torch.update import MicroBatch


class PlannedUpdate(NamedTuple):
    """One optimiser update.

    Attributes:
        batches: its micro-batches; none when all its members are masked.
        S: its normaliser: one number, or one for each trajectory of the request.
    """

    batches: list[MicroBatch]
    S: float | Tensor


class Names(NamedTuple):
    """Groups and domains of a step, in the order that gives them their numbers."""

    groups: tuple[str, ...]
    domains: tuple[str, ...]


def prepare(
    request: StepRequest, spec: TrainerSpec, parts: LossParts, forward: Forward
) -> tuple[list[PlannedUpdate], tuple[str, ...]]:
    """The updates of a step, and the domain names that its tensors index.

    Advantages are taken over the whole step, S over each update.
    """
    refs, section = request.rows, spec.objective
    run = Path(spec.run_directory)
    read = [trajectories.load(run / ref.path) if ref.live else None for ref in refs]
    rows = planning.read_rows(read, section["segments"], forward.length)
    turns = [_turns(trajectory, section["segments"]) for trajectory in read]
    sizes = {"group_size": spec.group_size, "length_cap": section["length_cap"]}
    advantages = evaluate_advantages(parts, reward_batch(refs, turns, **sizes))
    names = Names(
        tuple(dict.fromkeys(ref.group for ref in refs)),
        tuple(dict.fromkeys(ref.domain for ref in refs)),
    )
    planned = planning.plan(
        refs,
        rows,
        updates=spec.trainer["updates"],
        micro_batch_tokens=spec.trainer["micro_batch_tokens"],
    )
    updates = []
    for update in planned:
        members = [refs[i] for i in update.members]
        rewards = reward_batch(members, [turns[i] for i in update.members], **sizes)
        updates.append(
            PlannedUpdate(
                [_collate(forward, b, refs, advantages, names) for b in update.micro_batches],
                _by_trajectory(evaluate_normaliser(parts, rewards), update.members, len(refs)),
            )
        )
    return updates, names.domains


def _by_trajectory(S: float | Tensor, members: Sequence[int], count: int) -> float | Tensor:
    """S of the members, where it is one a trajectory, at their places in the request."""
    if not isinstance(S, Tensor):
        return S
    places = S.new_ones(count)
    places[list(members)] = S
    return places


def _collate(
    forward: Forward, rows: Sequence[Row], refs: Sequence[RowRef], advantages: Tensor, names: Names
) -> MicroBatch:
    tokens = forward.collate([row.segment for row in rows], [row.temperature for row in rows])
    spread = torch.zeros(tokens.mask.shape, dtype=torch.float32)
    for place, row in enumerate(rows):
        count = int(row.segment.mask.sum())
        own = advantages[row.index]
        spread[place, :count] = own if own.dim() == 0 else own[row.first : row.first + count]
    own_refs = [refs[row.index] for row in rows]
    device = tokens.mask.device
    return MicroBatch(
        tokens,
        spread.to(device),
        torch.tensor([ref.reward for ref in own_refs], device=device),
        torch.tensor([names.groups.index(ref.group) for ref in own_refs], device=device),
        torch.tensor([row.index for row in rows], device=device),
        torch.tensor([names.domains.index(ref.domain) for ref in own_refs], device=device),
    )


def _turns(trajectory: Trajectory | None, choice: planning.Choice) -> list[int]:
    if trajectory is None:
        return []
    return planning.turns_of_tokens(trajectory, planning.choose_segments(trajectory, choice))
