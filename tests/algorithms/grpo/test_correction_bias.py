"""The truncated correction in exact expectation: all episodes of a small policy, none sampled.

Two actions and an end, at most three tokens: 15 episodes. π is what is trained, μ what sampled;
both are tables over prefixes. The expectation under μ of the gradient that the whole loss gives is
a finite sum, and so is what it should be.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from mintact_platform.registry.names import Registry
from mintact_platform.training.loss import evaluate_loss
from mintact_platform.training.objective import LossBatch, compose

D = torch.float64
END, ACTIONS, DEPTH = 2, 3, 3

Prefix = tuple[int, ...]


def _grow(prefix: Prefix = ()) -> list[Prefix]:
    if len(prefix) == DEPTH or END in prefix:
        return [prefix]
    return [episode for action in range(ACTIONS) for episode in _grow((*prefix, action))]


EPISODES = _grow()
PREFIXES = sorted({episode[:t] for episode in EPISODES for t in range(len(episode))})


class World(NamedTuple):
    """Logits `[prefixes, actions]` of π and μ, and a reward an episode."""

    trained: Tensor
    sampler: Tensor
    rewards: Tensor


@functools.cache
def world(spread: float) -> World:
    generator = torch.Generator().manual_seed(5)
    shape = (len(PREFIXES), ACTIONS)
    trained, noise = (torch.randn(*shape, generator=generator, dtype=D) for _ in range(2))
    rewards = torch.randn(len(EPISODES), generator=generator, dtype=D)
    return World(trained, trained + spread * noise, rewards)


def tokens(logits: Tensor) -> Tensor:
    """Log-probabilities `[episodes, tokens]`, 0 beyond an end."""
    table = logits.log_softmax(-1)
    rows = []
    for episode in EPISODES:
        row = [table[PREFIXES.index(episode[:t]), action] for t, action in enumerate(episode)]
        rows.append(torch.stack(row + [table.new_zeros(())] * (DEPTH - len(row))))
    return torch.stack(rows)


def expected(here: World, correction: dict[str, Any]) -> Tensor:
    """E_μ of the loss's negative gradient by π's logits, each episode weighed by μ of it."""
    parts = compose(
        Registry.discover(), {"objective": {"name": "mintact"}, "correction": correction}
    )
    theta = here.trained.clone().requires_grad_()
    ell, roll = tokens(theta), tokens(here.sampler)
    mask = torch.tensor([[t < len(episode) for t in range(DEPTH)] for episode in EPISODES])
    rows = len(EPISODES)
    batch = LossBatch(
        logprobs=ell,
        proximal_logprobs=ell.detach(),
        rollout_logprobs=roll,
        advantages=(roll.sum(1).exp() * here.rewards)[:, None].expand(mask.shape),
        loss_mask=mask,
        group=torch.zeros(rows, dtype=torch.long),
        trajectory=torch.arange(rows),
        domain=torch.zeros(rows, dtype=torch.long),
    )
    (gradient,) = torch.autograd.grad(-evaluate_loss(parts, batch, 1.0).value, theta)
    return gradient


def scores(here: World) -> Tensor:
    """∇ log π of every token, `[episodes, tokens, prefixes, actions]`; 0 beyond an end."""
    probabilities = here.trained.softmax(-1)
    result = torch.zeros(len(EPISODES), DEPTH, *here.trained.shape, dtype=D)
    for i, episode in enumerate(EPISODES):
        for t, action in enumerate(episode):
            state = PREFIXES.index(episode[:t])
            result[i, t, state] -= probabilities[state]
            result[i, t, state, action] += 1
    return result


def true_gradient(here: World) -> Tensor:
    """∇ E_π[R], by the product rule over episodes' probabilities."""
    theta = here.trained.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((tokens(theta).sum(1).exp() * here.rewards).sum(), theta)
    return gradient


def over_states(here: World, weigh: Any) -> Tensor:
    """Σ_s μ(s) Σ_a weigh(π(a|s), μ(a|s)) Q_μ(s, a) ∇ log π(a|s), state by state."""
    pi, mu = here.trained.softmax(-1), here.sampler.softmax(-1)
    result = torch.zeros_like(pi)

    def value(prefix: Prefix, reached: float) -> float:
        if prefix in EPISODES:
            return float(here.rewards[EPISODES.index(prefix)])
        state = PREFIXES.index(prefix)
        total = 0.0
        for action in range(ACTIONS):
            p, m = float(pi[state, action]), float(mu[state, action])
            q = value((*prefix, action), reached * m)
            score = -pi[state]
            score[action] += 1
            result[state].add_(score, alpha=reached * weigh(p, m) * q)
            total += m * q
        return total

    value((), 1.0)
    return result


def distance(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


@pytest.mark.parametrize("spread", [0.02, 0.3, 1.0])
def test_by_sequences_it_is_the_true_gradient_where_no_weight_exceeds_the_cap(spread):
    here = world(spread)
    largest = (tokens(here.trained) - tokens(here.sampler)).sum(1).exp().max()
    correction = {"name": "truncate_sequence", "params": {"cap": float(largest) * 1.001}}
    assert distance(expected(here, correction), true_gradient(here)) < 1e-10


@pytest.mark.parametrize("spread", [0.02, 0.3, 1.0])
def test_by_tokens_every_token_is_right_given_its_prefix_where_no_weight_exceeds_the_cap(spread):
    here = world(spread)
    largest = (here.trained.log_softmax(-1) - here.sampler.log_softmax(-1)).exp().max()
    correction = {"name": "truncate", "params": {"cap": float(largest) * 1.001}}
    assert distance(expected(here, correction), over_states(here, lambda p, m: p)) < 1e-10


@pytest.mark.parametrize(("spread", "cap"), [(0.3, 1.0), (0.3, 1.2), (1.0, 1.2), (1.0, 2.0)])
def test_by_sequences_its_bias_is_the_mass_beyond_the_cap(spread, cap):
    here = world(spread)
    pi, mu = tokens(here.trained).sum(1).exp(), tokens(here.sampler).sum(1).exp()
    beyond = torch.where(pi > cap * mu, pi - cap * mu, 0.0)
    closed = -torch.einsum("i,i,itsa->sa", beyond, here.rewards, scores(here))
    correction = {"name": "truncate_sequence", "params": {"cap": cap}}
    bias = expected(here, correction) - true_gradient(here)
    assert distance(bias, closed) < 1e-10
    assert beyond.any(), "the cap cuts something"
    # the part of the episodes within the cap is exact by itself
    within = World(here.trained, here.sampler, torch.where(beyond > 0, 0.0, here.rewards))
    assert distance(expected(within, correction), true_gradient(within)) < 1e-10


@pytest.mark.parametrize(("spread", "cap"), [(0.3, 1.0), (0.3, 1.2), (1.0, 1.2), (1.0, 2.0)])
def test_by_tokens_its_bias_is_the_mass_beyond_the_cap(spread, cap):
    here = world(spread)
    closed = over_states(here, lambda p, m: -max(0.0, p - cap * m))
    uncut = over_states(here, lambda p, m: p)
    correction = {"name": "truncate", "params": {"cap": cap}}
    assert distance(expected(here, correction) - uncut, closed) < 1e-10
    assert closed.any(), "the cap cuts something"


# the table of docs/objectives.md: largest |log π − log μ| of a token; then the bias in percent of
# the true gradient of no correction, of `truncate` (its bound alone, and in all), and of
# `truncate_sequence`, each at its default cap
REPORTED = {
    0.02: (0.04, 1.29, 0.00, 1.65, 0.00),
    0.1: (0.19, 6.61, 0.00, 8.51, 0.00),
    0.3: (0.56, 21.07, 0.00, 26.99, 0.00),
    1.0: (2.02, 74.23, 17.58, 79.11, 39.49),
}


def relative(a: Tensor, b: Tensor) -> float:
    return 100 * float((a - b).norm() / b.norm())


@pytest.mark.parametrize("spread", REPORTED)
def test_the_bias_that_the_manual_reports(spread):
    here = world(spread)
    gap = (here.trained.log_softmax(-1) - here.sampler.log_softmax(-1)).abs().max()
    true = true_gradient(here)
    by_tokens = expected(here, {"name": "truncate"})
    uncut = expected(here, {"name": "truncate", "params": {"cap": math.inf}})
    found = (
        float(gap),
        relative(expected(here, {"name": "none"}), true),
        100 * float((by_tokens - uncut).norm() / true.norm()),
        relative(by_tokens, true),
        relative(expected(here, {"name": "truncate_sequence"}), true),
    )
    assert found == pytest.approx(REPORTED[spread], abs=0.006)
