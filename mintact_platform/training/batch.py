"""From the rows of a step to optimiser updates and micro-batches. Pure planning, no torch.

Lengths are those of the expanded context, which only a backend knows; it hands them in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mintact_platform.errors import TrainerError
from mintact_platform.records.trajectory import Segment, Trajectory
from mintact_platform.training.trainer import RowRef

Choice = Literal["longest", "all"]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One segment to train on.

    Attributes:
        index: of its trajectory in the request.
        segment: collapsed tokens.
        temperature: of its generation.
        first: number of supervised tokens in earlier rows of the same trajectory.
        length: expanded tokens.
    """

    index: int
    segment: Segment
    temperature: float
    first: int
    length: int


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """One optimiser update.

    Attributes:
        members: indices into the request of all its trajectories, masked ones included.
        groups: number of its groups.
        micro_batches: live rows, each micro-batch within the token budget.
    """

    members: tuple[int, ...]
    groups: int
    micro_batches: tuple[tuple[Row, ...], ...]

    @property
    def rows(self) -> list[Row]:
        """All live rows, micro-batch after micro-batch."""
        return [row for batch in self.micro_batches for row in batch]


def choose_segments(trajectory: Trajectory, choice: Choice) -> tuple[Segment, ...]:
    """Segments to train on: the longest context (the later of equals), or all of them."""
    if choice == "all" or not trajectory.segments:
        return trajectory.segments
    return (max(reversed(trajectory.segments), key=lambda s: len(s.ids)),)


def read_rows(
    trajectories: Sequence[Trajectory | None],
    choice: Choice,
    length: Callable[[Segment], int],
) -> list[Row]:
    """One row a chosen segment that has supervised tokens.

    Args:
        trajectories: of the request in order; None for a masked one.
        choice: `choose_segments`.
        length: expanded tokens of a segment.

    Raises:
        TrainerError: a supervised first token, which nothing predicts.
    """
    rows = []
    for index, trajectory in enumerate(trajectories):
        if trajectory is None:
            continue
        first = 0
        for segment in choose_segments(trajectory, choice):
            if not segment.mask.any():
                continue
            if segment.mask[0]:
                raise TrainerError("first token is supervised", where=f"trajectory {trajectory.id}")
            rows.append(Row(index, segment, trajectory.temperature, first, length(segment)))
            first += int(segment.mask.sum())
    return rows


def turns_of_tokens(trajectory: Trajectory, segments: Sequence[Segment]) -> list[int]:
    """The turn of each supervised token of these segments, in order.

    A turn's sampled tokens stand together and turns are never adjacent, so the n-th run of a
    segment's mask is its n-th turn with a response; -1 where the two do not agree.
    """
    turns: list[int] = []
    for segment in segments:
        place = next(i for i, s in enumerate(trajectory.segments) if s is segment)
        own = [t.index for t in trajectory.turns if t.segment == place and t.response]
        starts = segment.mask & ~np.concatenate([[False], segment.mask[:-1]])
        runs = np.cumsum(starts)[segment.mask] - 1
        agree = int(starts.sum()) == len(own)
        turns += [own[run] if agree else -1 for run in runs.tolist()]
    return turns


def plan(
    refs: Sequence[RowRef], rows: Sequence[Row], *, updates: int, micro_batch_tokens: int
) -> list[Update]:
    """Split a step into updates by whole groups, and each update into micro-batches."""
    planned = []
    for members in split_updates([ref.group for ref in refs], updates):
        own = [row for row in rows if row.index in set(members)]
        batches = micro_batches([row.length for row in own], micro_batch_tokens)
        planned.append(
            Update(
                tuple(members),
                len({refs[i].group for i in members}),
                tuple(tuple(own[i] for i in batch) for batch in batches),
            )
        )
    return planned


def split_updates(groups: Sequence[str], updates: int) -> list[list[int]]:
    """Row indices of each update. Groups are dealt in turn, so that each update sees all domains.

    Args:
        groups: group of each row.
        updates: wanted; never more than there are groups.
    """
    order = list(dict.fromkeys(groups))
    count = max(1, min(updates, len(order)))
    dealt = {group: place % count for place, group in enumerate(order)}
    return [[i for i, group in enumerate(groups) if dealt[group] == u] for u in range(count)]


def micro_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Pack rows, longest first, so that rows × longest row stays within the budget.

    A row is never split; one that is longer than the budget stands alone.
    """
    batches: list[list[int]] = []
    width = 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if not batches or (len(batches[-1]) + 1) * width > budget:
            batches.append([])
            width = lengths[index]
        batches[-1].append(index)
    return batches
