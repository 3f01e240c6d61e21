"""Batches for checks of objectives and advantages: ragged rows, several groups, masked rollouts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mintact_platform.training.objective import LossBatch, RewardBatch

LENGTHS = (5, 3, 4, 1, 5, 2)
"""Supervised tokens of each row."""
_EXTREME = 100.0
_PER_TOKEN = ("logprobs", "proximal_logprobs", "rollout_logprobs", "advantages", "loss_mask")
_PER_ROW = ("group", "trajectory", "domain")


def usual_batch(needs: Collection[str]) -> LossBatch:
    """Six ragged rows of three groups and two domains; one trajectory has two segments.

    Args:
        needs: the extra inputs to give, no others.
    """
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    logprobs = -torch.rand(mask.shape, generator=generator) * 2 - 0.05

    def near(spread: float) -> Tensor:
        return (logprobs + spread * torch.randn(mask.shape, generator=generator)).clamp(max=-1e-3)

    advantages = torch.tensor([1.0, -0.5, 0.7, -1.2, 0.3, -0.8])[:, None].expand(mask.shape)
    extras = {"entropy": -logprobs * 0.7, "reference_logprobs": near(0.3)}
    batch = LossBatch(
        logprobs=logprobs,
        proximal_logprobs=near(0.15),
        rollout_logprobs=near(0.2),
        advantages=advantages.clone(),
        loss_mask=mask,
        group=torch.tensor([0, 0, 1, 1, 2, 2]),
        trajectory=torch.tensor([0, 1, 2, 3, 4, 4]),
        domain=torch.tensor([0, 0, 1, 1, 0, 0]),
        domains=("mobile", "web"),
        rewards=torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 1.0]),
        versions=torch.full(mask.shape, 3),
        deployed=3,
        extras={name: extras[name] for name in extras if name in needs},
    )
    return _masked(batch)


def extreme_batch(needs: Collection[str]) -> LossBatch:
    """The policies disagree by a factor of e^±100, under advantages of either sign."""
    batch = usual_batch(needs)
    likely = torch.full(batch.logprobs.shape, -1e-4)
    unlikely = torch.full(batch.logprobs.shape, -_EXTREME)
    even = (torch.arange(batch.logprobs.shape[1]) % 2 == 0).expand(batch.logprobs.shape)
    return _masked(
        replace(
            batch,
            logprobs=likely.where(even, unlikely),
            proximal_logprobs=unlikely.where(even, likely),
            rollout_logprobs=unlikely.where(even, likely),
            advantages=batch.advantages * 10,
        )
    )


def pad(batch: LossBatch, *, rows: int = 0, columns: int = 0) -> LossBatch:
    """The batch with masked rows and columns added; their group and trajectory are new ones."""

    def grown(value: Tensor) -> Tensor:
        return torch.nn.functional.pad(value, (0, columns, 0, rows))

    def longer(value: Tensor) -> Tensor:
        return torch.cat([value, value.new_full((rows,), int(value.max()) + 1)])

    assert batch.rewards is not None
    assert batch.versions is not None
    tensors: dict[str, Any] = {name: grown(getattr(batch, name)) for name in _PER_TOKEN}
    return replace(
        batch,
        **tensors,
        group=longer(batch.group),
        trajectory=longer(batch.trajectory),
        domain=torch.cat([batch.domain, batch.domain.new_zeros(rows)]),
        rewards=torch.cat([batch.rewards, batch.rewards.new_zeros(rows)]),
        versions=grown(batch.versions),
        extras={name: grown(value) for name, value in batch.extras.items()},
    )


def rows_of(batch: LossBatch, index: Tensor) -> LossBatch:
    """The batch of these rows, in this order."""
    assert batch.rewards is not None
    assert batch.versions is not None
    tensors: dict[str, Any] = {
        name: getattr(batch, name)[index] for name in (*_PER_TOKEN, *_PER_ROW)
    }
    return replace(
        batch,
        **tensors,
        rewards=batch.rewards[index],
        versions=batch.versions[index],
        extras={name: value[index] for name, value in batch.extras.items()},
    )


def reward_rows(live: Collection[int] | None = None, *, masked_reward: float = 0.0) -> RewardBatch:
    """Ten rollouts of three groups, of which four are masked; one group has a single live one.

    Args:
        live: rows that are live; None takes the usual six.
        masked_reward: what stands where a rollout is masked; a run writes 0.
    """
    usual = (0, 1, 3, 4, 5, 8)
    chosen = usual if live is None else live
    rewards = torch.tensor([1.0, 0.0, 0.0, 0.5, 1.0, 1.0, 0.0, 0.0, 0.2, 0.0], dtype=torch.float64)
    mask = torch.tensor([row in chosen for row in range(len(rewards))])
    lengths = torch.tensor([4.0, 2, 0, 6, 2, 4, 0, 0, 2, 0], dtype=torch.float64)
    turns = [[k // 2 for k in range(int(n))] for n in lengths]
    turn_rewards = [tuple(0.1 * (t + 1) for t in sorted(set(row))) for row in turns]
    return RewardBatch(
        rewards=rewards.where(mask, masked_reward),
        group=torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2]),
        live=mask,
        lengths=lengths.where(mask, 0.0),
        domain=("mobile",) * 4 + ("web",) * 6,
        members=12,
        length_cap=8,
        reward_parts={"success": rewards.where(mask, masked_reward)},
        turn_rewards=tuple(
            row if alive else () for row, alive in zip(turn_rewards, mask.tolist(), strict=True)
        ),
        turns=tuple(
            tuple(row) if alive else () for row, alive in zip(turns, mask.tolist(), strict=True)
        ),
    )


def _masked(batch: LossBatch) -> LossBatch:
    """With 0 outside of the mask, as objectives get it."""
    outside = ~batch.loss_mask
    names = ("logprobs", "proximal_logprobs", "rollout_logprobs", "advantages")
    tensors: dict[str, Any] = {n: getattr(batch, n).masked_fill(outside, 0.0) for n in names}
    return replace(
        batch,
        **tensors,
        extras={name: value.masked_fill(outside, 0.0) for name, value in batch.extras.items()},
    )
