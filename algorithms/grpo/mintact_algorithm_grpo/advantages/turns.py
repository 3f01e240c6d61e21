"""Credit finer than a trajectory: turns weighted by what a judge gave them. `[rows, tokens]`.

A trajectory whose judge gives no turn rewards keeps its own advantage on all tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mintact_algorithm_grpo.advantages.group import mintact
from mintact_platform.training.objective import RewardBatch


def turn_weighted(batch: RewardBatch, *, temperature: float = 1.0) -> Tensor:
    """The trajectory's advantage, shared out over its segments by their turn rewards.

        Â_t = A ω_k,  ω_k ∝ exp(sign(A) ρ_k / τ),  A = R − mean_G R
        mean of ω over the row's tokens = 1

    ρ_k is the reward of the turn k that sampled token t, τ = `temperature`: good turns take more
    of a gain, bad ones more of a blame; the row's total stays that of `mintact`, its limit τ → ∞.

    Source: MintAct names coarse segment credit as its limit; this is the plainest refinement.
    """
    A = mintact(batch)[:, None]
    rewards = _of_tokens(batch, _turn_rewards(batch))
    known = ~rewards.isnan()
    score = (A.sign() * rewards / temperature).masked_fill(~known, -torch.inf)
    highest = score.amax(1, keepdim=True) if score.shape[1] else score.new_zeros(len(score), 1)
    share = (score - highest.nan_to_num(neginf=0.0)).exp()
    weight = share * known.sum(1, keepdim=True) / share.sum(1, keepdim=True).clamp(min=1e-300)
    return A * weight.where(known, 1.0)


def turn_level(batch: RewardBatch, *, gamma: float = 1.0, weight: float = 1.0) -> Tensor:
    """The trajectory's advantage plus that of each turn among the group's turns of its number.

        Â_t = (R − mean_G R) + λ (G_k − mean_G G_k),  G_k = Σ_{j ≥ k} γ^(j−k) ρ_j

    ρ_j is the reward of turn j, k the turn that sampled token t, γ = `gamma` (0: a turn answers
    for itself alone), λ = `weight`.

    Source: Zeng et al. 2025, turn-level credit, arXiv 2505.11821.
    Trap: a turn that no other member reached has no baseline and adds nothing.
    """
    rewards = _turn_rewards(batch)
    columns: list[Tensor] = []
    for reward in reversed(rewards.unbind(1)):
        later = columns[-1].nan_to_num() if columns else torch.zeros_like(reward)
        columns.append(reward + gamma * later)
    turns = [_among_members(batch, column) for column in reversed(columns)]
    relative = torch.stack(turns, 1) if turns else rewards
    return mintact(batch)[:, None] + weight * _of_tokens(batch, relative).nan_to_num()


def _among_members(batch: RewardBatch, values: Tensor) -> Tensor:
    """Values `[rows]` of one turn, less the mean over live members that reached it; NaN stays."""
    known = (~values.isnan()).double()
    mean = batch.group_sum(values.nan_to_num()) / batch.group_sum(known).clamp(min=1)
    return values - mean


def _turn_rewards(batch: RewardBatch) -> Tensor:
    """float64 `[rows, turns]`, NaN where there is none."""
    width = max((len(row) for row in batch.turn_rewards), default=0)
    padded = [[*row, *[torch.nan] * (width - len(row))] for row in batch.turn_rewards]
    return batch.rewards.new_tensor(padded).reshape(len(batch.rewards), width)


def _of_tokens(batch: RewardBatch, values: Tensor) -> Tensor:
    """For each token, the value `[rows, turns]` of the turn that sampled it; NaN without one."""
    turn = batch.turn_of_token
    if not values.shape[1]:
        return values.new_full(turn.shape, torch.nan)
    known = (turn >= 0) & (turn < values.shape[1])
    return values.gather(1, turn.where(known, 0)).masked_fill(~known, torch.nan)
