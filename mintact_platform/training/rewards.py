"""From the rows of an update to what advantages and normalisers read."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mintact_platform.training.objective import RewardBatch
from mintact_platform.training.trainer import RowRef


def reward_batch(
    refs: Sequence[RowRef],
    turns: Sequence[Sequence[int]],
    *,
    group_size: int,
    length_cap: int,
) -> RewardBatch:
    """Rewards of one update, or of a whole step.

    Args:
        refs: its trajectories, masked ones included.
        turns: for each, the turn of each supervised token; empty for masked ones.
        group_size: N. S counts N a group, whatever became of the members.
        length_cap: L_cap.
    """
    names = list(dict.fromkeys(ref.group for ref in refs))
    parts = sorted({part for ref in refs for part in ref.reward_parts})
    return RewardBatch(
        rewards=_column([ref.reward if ref.live else 0.0 for ref in refs]),
        group=torch.tensor([names.index(ref.group) for ref in refs], dtype=torch.int64),
        live=torch.tensor([ref.live for ref in refs], dtype=torch.bool),
        lengths=_column([len(row) for row in turns]),
        domain=tuple(ref.domain for ref in refs),
        members=len(names) * group_size,
        length_cap=length_cap,
        reward_parts={p: _column([ref.reward_parts.get(p, 0.0) for ref in refs]) for p in parts},
        turn_rewards=tuple(ref.turn_rewards or () for ref in refs),
        turns=tuple(tuple(row) for row in turns),
    )


def _column(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)
