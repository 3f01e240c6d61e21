"""Every way an objective or an advantage can be wrong is caught by the check that is about it."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from mintact_platform import objective
from mintact_platform.testing import ConformanceError, check_advantage, check_objective

count = itertools.count(1)


def caught(check, specimen, **options):
    with pytest.raises(ConformanceError) as failure:
        check(specimen, **options)
    return str(failure.value)


def cispo(batch, *, clip_high: float = 4.0):
    weight = (batch.logprobs - batch.proximal_logprobs).exp().detach().clamp(max=1 + clip_high)
    return -weight * batch.advantages * batch.logprobs


@objective(micro_batch_invariant=False)
def centred(batch):
    """Sees all rows: a token against the mean of the update."""
    mean = batch.logprobs.sum() / batch.loss_mask.sum()
    return -batch.advantages * (batch.logprobs - mean)


def gspo(batch):
    """One ratio a row."""
    lengths = batch.loss_mask.sum(1, keepdim=True).clamp(min=1)
    gap = (batch.logprobs - batch.proximal_logprobs).sum(1, keepdim=True) / lengths
    return -batch.advantages * gap.clamp(-20, 20).exp().expand(batch.logprobs.shape)


@objective(needs={"entropy", "reference_logprobs"})
def regular(batch):
    drift = (batch.logprobs - batch.reference_logprobs).square()
    return -batch.advantages * batch.logprobs + 0.1 * drift - 0.01 * batch.entropy


@pytest.mark.parametrize("loss", [cispo, centred, gspo, regular], ids=lambda f: f.__name__)
def test_nothing_is_wrong_with_these(loss):
    check_objective(loss)


def one_a_row(batch):
    return -(batch.advantages * batch.logprobs).sum(1)


def forgets(batch):
    pass


def wrong_metric(batch):
    return -batch.advantages * batch.logprobs, {"ratio": torch.ones(3)}


def misspelt(batch):
    return -batch.advantage * batch.logprobs


def undeclared(batch):
    return -batch.advantages * batch.logprobs - 0.01 * batch.entropy


def detached(batch):
    return -batch.advantages * batch.logprobs.detach()


def constant(batch):
    return batch.logprobs * 0.0 - batch.advantages


def spoils(batch):
    return -batch.advantages.mul_(2.0) * batch.logprobs


def dice(batch):
    return -batch.advantages * batch.logprobs * (1 + random.random())


def counts(batch):
    return -batch.advantages * batch.logprobs * next(count)


def mean_of_padding(batch):
    return -(batch.advantages - batch.advantages.mean()) * batch.logprobs


def rows_of_padding(batch):
    return -batch.advantages * batch.logprobs / len(batch.logprobs)


def by_place(batch):
    place = torch.arange(len(batch.logprobs))[:, None] + 1
    return -batch.advantages * batch.logprobs * place


def by_group(batch):
    """Centres on the group, and does not say so."""
    same = batch.group[:, None] == batch.group
    tokens = (same * batch.loss_mask.sum(1)).sum(1).clamp(min=1)
    mean = (same * batch.logprobs.sum(1)).sum(1) / tokens
    return -batch.advantages * (batch.logprobs - mean[:, None])


def unguarded(batch):
    return -batch.advantages * (batch.logprobs - batch.proximal_logprobs).exp()


def overflows(batch):
    ratio = (batch.logprobs - batch.proximal_logprobs).exp()
    return torch.maximum(-batch.advantages * ratio, -batch.advantages * ratio.clamp(0.8, 1.2))


def positional(batch, clip=0.2):
    return -batch.advantages * batch.logprobs


def needy(batch, *, clip):
    return -batch.advantages * batch.logprobs


SPECIMENS = {
    one_a_row: "seen: surrogate is [6] for a batch of [6, 5]",
    forgets: "seen: surrogate is a NoneType",
    wrong_metric: "seen: metric 'ratio' is [3]",
    misspelt: "LossBatch has no field 'advantage'; did you mean 'advantages'?",
    undeclared: "declare it: @objective(needs={'entropy'})",
    detached: "no gradient",
    constant: "it has a gradient",
    spoils: "seen: batch.advantages changed",
    dice: "the same batch gives the same loss",
    counts: "the same batch gives the same loss",
    mean_of_padding: "masked tokens contribute nothing",
    rows_of_padding: "masked rows contribute nothing",
    by_place: "the order of rows does not matter",
    by_group: "micro-batches add up to the whole update",
    unguarded: "loss and gradient are finite at extreme log-ratios",
    overflows: "loss and gradient are finite at extreme log-ratios",
    positional: "'clip' is positional: a run file could not set it",
    needy: "parameter 'clip': field required",
}


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda f: f.__name__)
def test_a_broken_objective_is_caught_by_the_check_that_is_about_it(specimen):
    assert SPECIMENS[specimen] in caught(check_objective, specimen)


def test_where_names_the_line_that_raised():
    line = misspelt.__code__.co_firstlineno + 1
    assert f"test_check_objective.py:{line}" in caught(check_objective, misspelt)


# ---- advantages ---------------------------------------------------------------------------------


def mean_baseline(batch, *, scale: float = 1.0):
    return scale * (batch.rewards - batch.group_mean(batch.rewards))


def per_token(batch):
    baseline = mean_baseline(batch)
    return baseline[:, None].expand(batch.turn_of_token.shape).clone()


@pytest.mark.parametrize("advantage", [mean_baseline, per_token], ids=lambda f: f.__name__)
def test_nothing_is_wrong_with_these_advantages(advantage):
    check_advantage(advantage)


def plain_mean(batch):
    return batch.rewards - batch.rewards.mean()


def divides(batch):
    centred = mean_baseline(batch)
    return centred / batch.group_mean(centred.square()).sqrt()


def of_the_whole(batch):
    return batch.rewards.mean()


def rewrites(batch):
    batch.rewards.sub_(0.5)
    return mean_baseline(batch)


def draws(batch):
    return mean_baseline(batch) * random.random()


def asks_for_turns(batch):
    return torch.tensor([row[-1] if live else 0.0 for row, live in
                         zip(batch.turn_rewards, batch.live, strict=True)])  # fmt: skip


ADVANTAGES = {
    plain_mean: "masked rollouts are part of no statistic",
    divides: "seen: advantages is not finite",
    of_the_whole: "seen: returned [] for 10 rows",
    rewrites: "seen: batch.rewards changed",
    draws: "the same rewards give the same advantages",
    asks_for_turns: "it takes a judge without turn rewards",
}


@pytest.mark.parametrize("specimen", ADVANTAGES, ids=lambda f: f.__name__)
def test_a_broken_advantage_is_caught_by_the_check_that_is_about_it(specimen):
    assert ADVANTAGES[specimen] in caught(check_advantage, specimen)
