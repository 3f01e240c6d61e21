"""Every advantage against its formula, written again with plain Python over lists."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mintact_platform.errors import ConfigurationError, PluginError
from mintact_platform.registry.names import Registry
from mintact_platform.training.loss import evaluate_advantages
from mintact_platform.training.objective import LossParts, RewardBatch, compose
from mintact_platform.training.rewards import reward_batch
from mintact_platform.training.trainer import RowRef

REGISTRY = Registry.discover()


@dataclass(frozen=True)
class Rollout:
    """A rollout as the formulas read it."""

    group: str
    domain: str
    R: float
    turns: tuple[int, ...]
    live: bool = True
    parts: tuple[float, float] = (0.0, 0.0)
    turn_rewards: tuple[float, ...] = ()


ROLLOUTS = (
    Rollout("a", "web", 1.0, (0, 0, 1, 1, 2), True, (1.0, 0.2), (0.5, -0.25, 1.0)),
    Rollout("a", "web", 0.0, (0, 1), True, (0.0, 0.9), (0.1, 0.3)),
    Rollout("a", "web", 0.25, (0, 0, 0), True, (0.5, 0.4)),
    Rollout("a", "web", 0.0, (), False),
    Rollout("b", "tools", 0.0, (0, 0, 1, 2, 2, 2), True, (0.0, 0.1), (0.0, 1.0, -1.0)),
    Rollout("b", "tools", 1.0, (0,), True, (1.0, 0.7), (0.75,)),
    Rollout("b", "tools", 1.0, (0, 1, 1, 1), True, (1.0, 0.3), (0.25, 0.5)),
    Rollout("b", "tools", 0.0, (0, 0), True, (0.0, 0.8), (1.0,)),
    Rollout("c", "web", 0.6, (0, 0, 0, -1), True, (0.6, 0.6), (0.3,)),
    Rollout("c", "web", 0.0, (), False),
)
CAP = 6


def batch_of(rollouts: Any = ROLLOUTS) -> RewardBatch:
    refs = [
        RowRef(
            str(i),
            "",
            r.group,
            r.domain,
            r.R,
            live=r.live,
            reward_parts=dict(zip(("done", "tidy"), r.parts, strict=True)) if r.live else {},
            turn_rewards=r.turn_rewards or None,
        )
        for i, r in enumerate(rollouts)
    ]
    return reward_batch(refs, [r.turns for r in rollouts], group_size=4, length_cap=CAP)


def composed(name: str, **params: Any) -> LossParts:
    return compose(REGISTRY, {"advantage": {"name": name, "params": params}})


def live(group: str, rollouts: Any = ROLLOUTS) -> list[Rollout]:
    return [r for r in rollouts if r.live and r.group == group]


def mean(values: Any) -> float:
    values = list(values)
    return math.fsum(values) / len(values)


def normalised(x: float, values: list[float], epsilon: float = 1e-6) -> float:
    if len(values) == 1:
        return x / (1 + epsilon)
    return (x - mean(values)) / (statistics.stdev(values) + epsilon)


def whiten(x: float, population: list[float], epsilon: float = 1e-8) -> float:
    return (x - mean(population)) / math.sqrt(statistics.variance(population) + epsilon)


def rewards_of(r: Rollout) -> list[float]:
    return [other.R for other in live(r.group)]


def centred(r: Rollout) -> float:
    return r.R - mean(rewards_of(r))


def every() -> list[Rollout]:
    return [r for r in ROLLOUTS if r.live]


def rloo(r: Rollout) -> float:
    others = [o.R for o in live(r.group) if o is not r]
    return r.R - mean(others) if others else r.R


def opo(r: Rollout) -> float:
    own = live(r.group)
    return r.R - sum(len(o.turns) * o.R for o in own) / sum(len(o.turns) for o in own)


def shaped(r: Rollout, share: float = 0.2, penalty: float = 1.0) -> float:
    buffer = max(1.0, share * CAP)
    if len(r.turns) <= CAP - buffer:
        return r.R
    return r.R - penalty * min(1.0, (len(r.turns) - CAP + buffer) / buffer)


def returns(r: Rollout, gamma: float) -> list[float]:
    n = len(r.turns)
    return [gamma ** (n - 1 - t) * r.R for t in range(n)]


def over_tokens(value: Callable[[Rollout], float], rollouts: Any = None) -> list[float]:
    return [value(r) for r in (rollouts or every()) for _ in r.turns]


def gpg(r: Rollout, count: str) -> float:
    telling = [o for o in every() if (o.R if count == "rewards" else len(set(rewards_of(o))) > 1)]
    return len(every()) / len(telling) * centred(r) / 2.0


def gdpo(r: Rollout, weights: tuple[float, float] = (1.0, 1.0)) -> float:
    parts = zip(weights, r.parts, zip(*[o.parts for o in live(r.group)], strict=True), strict=True)
    return sum(w * normalised(x, list(values)) for w, x, values in parts)


def population(x: float, values: list[float]) -> float:
    return (x - mean(values)) / (statistics.pstdev(values) + 1e-6)


def pass_at_k(r: Rollout, k: int, threshold: float) -> float:
    """By listing every draw of k members."""
    own = live(r.group)
    draws = [any(o.R > threshold for o in some) for some in itertools.combinations(own, k)]
    if not draws:
        return 0.0
    P = mean(draws)
    mine = mean(
        [
            any(o.R > threshold for o in some)
            for some in itertools.combinations(own, k)
            if any(o is r for o in some)
        ]
    )
    return (mine - P) / (math.sqrt(P * (1 - P)) + 1e-6)


def best(r: Rollout) -> float:
    others = sorted(o.R for o in live(r.group) if o is not r)
    if not others or r.R <= others[-1]:
        return 0.0
    return (r.R - others[-1]) / (statistics.stdev(rewards_of(r)) + 1e-6)


def turn_weighted(r: Rollout, tau: float) -> list[float]:
    A = centred(r)
    sign = (A > 0) - (A < 0)
    known = [k for k in r.turns if 0 <= k < len(r.turn_rewards)]
    weights = [math.exp(sign * r.turn_rewards[k] / tau) for k in known]
    scale = len(known) / sum(weights) if known else 0.0
    return [
        A * scale * math.exp(sign * r.turn_rewards[k] / tau) if k in known else A for k in r.turns
    ]


def turn_level(r: Rollout, gamma: float, weight: float) -> list[float]:
    def ahead(o: Rollout, k: int) -> float:
        return sum(gamma ** (j - k) * o.turn_rewards[j] for j in range(k, len(o.turn_rewards)))

    def relative(k: int) -> float:
        if not 0 <= k < len(r.turn_rewards):
            return 0.0
        reached = [o for o in live(r.group) if k < len(o.turn_rewards)]
        return ahead(r, k) - mean(ahead(o, k) for o in reached)

    return [centred(r) + weight * relative(k) for k in r.turns]


def whitened_returns(r: Rollout, gamma: float) -> list[float]:
    everything = [x for o in every() for x in returns(o, gamma)]
    return [whiten(x, everything) for x in returns(r, gamma)]


CASES: dict[str, tuple[str, dict[str, Any], Callable[[Rollout], Any]]] = {
    "reward": ("reward", {}, lambda r: r.R),
    "mintact": ("mintact", {}, centred),
    "dr_grpo": ("dr_grpo", {}, centred),
    "grpo": ("grpo", {}, lambda r: normalised(r.R, rewards_of(r))),
    "rloo": ("rloo", {}, rloo),
    "opo": ("opo", {}, opo),
    "maxrl": ("maxrl", {}, lambda r: centred(r) / (mean(rewards_of(r)) + 1e-6)),
    "dapo": ("dapo", {}, lambda r: normalised(shaped(r), [shaped(o) for o in live(r.group)])),
    "dapo half": (
        "dapo",
        {"overlong_share": 0.5, "overlong_penalty": 0.7},
        lambda r: normalised(shaped(r, 0.5, 0.7), [shaped(o, 0.5, 0.7) for o in live(r.group)]),
    ),
    "reinforce_pp": ("reinforce_pp", {}, lambda r: whitened_returns(r, 1.0)),
    "reinforce_pp 0.9": ("reinforce_pp", {"gamma": 0.9}, lambda r: whitened_returns(r, 0.9)),
    "reinforce_pp_baseline": (
        "reinforce_pp_baseline",
        {},
        lambda r: whiten(centred(r), over_tokens(centred)),
    ),
    "task_normalised": (
        "task_normalised",
        {},
        lambda r: whiten(
            centred(r), over_tokens(centred, [o for o in every() if o.domain == r.domain])
        ),
    ),
    "gpg": ("gpg", {"f": 2.0}, lambda r: gpg(r, "rewards")),
    "gpg groups": ("gpg", {"f": 2.0, "count": "groups"}, lambda r: gpg(r, "groups")),
    "prpo": ("prpo", {}, lambda r: population(r.R, [o.R for o in every()])),
    "gdpo": ("gdpo", {}, gdpo),
    "gdpo weighted": ("gdpo", {"weights": {"tidy": 0.3}}, lambda r: gdpo(r, (1.0, 0.3))),
    "gdpo whitened": (
        "gdpo",
        {"whiten": True},
        lambda r: population(gdpo(r), [gdpo(o) for o in every()]),
    ),
    "pass_at_k": ("pass_at_k", {"k": 2}, lambda r: pass_at_k(r, 2, 0.0)),
    "pass_at_k 3": ("pass_at_k", {"k": 3, "threshold": 0.5}, lambda r: pass_at_k(r, 3, 0.5)),
    "grpo_passk": ("grpo_passk", {}, best),
    "rejection": ("rejection", {"threshold": 0.2}, lambda r: float(r.R > 0.2)),
    "rejection best": (
        "rejection",
        {"best_only": True},
        lambda r: float(r.R > 0 and max(rewards_of(r)) == r.R),
    ),
    "turn_weighted": ("turn_weighted", {"temperature": 0.5}, lambda r: turn_weighted(r, 0.5)),
    "turn_level": ("turn_level", {}, lambda r: turn_level(r, 1.0, 1.0)),
    "turn_level 0": (
        "turn_level",
        {"gamma": 0.0, "weight": 0.5},
        lambda r: turn_level(r, 0.0, 0.5),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_advantages_are_those_of_the_formula(case):
    name, params, formula = CASES[case]
    result = evaluate_advantages(composed(name, **params), batch_of())
    for rollout, row in zip(ROLLOUTS, result, strict=True):
        if not rollout.live:
            assert (row == 0).all()
            continue
        expected = formula(rollout)
        if row.dim():
            expected = expected if isinstance(expected, list) else [expected] * len(rollout.turns)
            row = row[: len(rollout.turns)]
        assert row.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_every_advantage_of_ours_has_golden_numbers(names_of):
    assert {name for name, _, _ in CASES.values()} == set(names_of("advantages"))


rollouts = st.builds(
    Rollout,
    group=st.sampled_from("ab"),
    domain=st.just("web"),
    R=st.floats(-2, 2).map(lambda x: round(x, 2)),
    turns=st.lists(st.integers(-1, 2), max_size=4).map(tuple),
    live=st.booleans(),
    parts=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    turn_rewards=st.lists(st.floats(-3, 3), max_size=3).map(tuple),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(rollouts, min_size=1, max_size=7), st.randoms(use_true_random=False))
def test_the_order_of_rollouts_does_not_matter(advantage_name, members, random):
    members = [m if m.live else replace(m, turns=()) for m in members]
    order = list(range(len(members)))
    random.shuffle(order)
    parts = composed(advantage_name)
    straight = evaluate_advantages(parts, batch_of(members))
    turned = evaluate_advantages(parts, batch_of([members[i] for i in order]))
    assert straight.isfinite().all()
    scale = max(1.0, float(straight.abs().max() if straight.numel() else 0))
    assert torch.allclose(turned, straight[order], rtol=0, atol=1e-9 * scale)


@settings(max_examples=15, deadline=None)
@given(st.lists(rollouts, min_size=1, max_size=6), st.floats(-9, 9))
def test_what_failed_is_no_part_of_any_statistic(advantage_name, members, reward):
    members = [m if m.live else replace(m, turns=()) for m in members]
    failed = Rollout("a", "web", reward, (), live=False)
    without = evaluate_advantages(composed(advantage_name), batch_of(members))
    with_it = evaluate_advantages(composed(advantage_name), batch_of([*members, failed]))
    assert torch.allclose(with_it[:-1], without, rtol=1e-12, atol=1e-12)
    assert (with_it[-1] == 0).all()


def test_turn_weights_share_out_the_advantage_and_add_nothing():
    plain = evaluate_advantages(composed("mintact"), batch_of())
    shared = evaluate_advantages(composed("turn_weighted", temperature=0.3), batch_of())
    for rollout, A, row in zip(ROLLOUTS, plain, shared, strict=True):
        n = len(rollout.turns)
        assert float(row[:n].sum()) == pytest.approx(n * float(A), abs=1e-12)


def test_a_good_turn_takes_more_of_a_gain_and_a_bad_one_more_of_a_blame():
    row, blamed = evaluate_advantages(composed("turn_weighted"), batch_of())[[0, 1]]
    assert row[4] > row[0] > row[2] > 0
    assert blamed[0] < blamed[1] < 0


def test_without_turn_rewards_every_token_keeps_the_advantage_of_its_trajectory():
    bare = [replace(r, turn_rewards=()) for r in ROLLOUTS]
    plain = evaluate_advantages(composed("mintact"), batch_of(bare))
    for name in ("turn_weighted", "turn_level"):
        result = evaluate_advantages(composed(name), batch_of(bare))
        assert torch.equal(result, plain[:, None].expand(result.shape))


def test_three_failures_of_sixteen_leave_the_mean_of_the_others():
    members = [Rollout("g", "web", i / 7, (0,) * (i % 4 + 1)) for i in range(16)]
    failed = [
        replace(m, live=False, R=9.0, turns=()) if i in (2, 7, 11) else m
        for i, m in enumerate(members)
    ]
    left = [m.R for m in failed if m.live]
    result = evaluate_advantages(composed("mintact"), batch_of(failed))
    expected = [m.R - mean(left) if m.live else 0.0 for m in failed]
    assert result.tolist() == pytest.approx(expected, abs=1e-14)
    alone = [m for m in failed if m.live]
    assert torch.equal(
        result[[m.live for m in failed]], evaluate_advantages(composed("mintact"), batch_of(alone))
    )


def test_errors_name_the_advantage_and_the_field():
    batch = batch_of([replace(r, parts=(0.0, 0.0)) for r in ROLLOUTS])
    with pytest.raises(PluginError, match="advantage 'gdpo': reward_parts is empty"):
        evaluate_advantages(composed("gdpo"), replace(batch, reward_parts={}))
    with pytest.raises(
        PluginError, match="'gdpo': weights names no part 'tidi'; did you mean 'tidy'"
    ):
        evaluate_advantages(composed("gdpo", weights={"tidi": 1.0}), batch)
    with pytest.raises(ConfigurationError, match="advantage 'rloo': unknown parameter 'eps'"):
        composed("rloo", eps=1.0)
    broken = replace(
        batch, rewards=batch.rewards.clone().index_fill_(0, torch.tensor([1]), torch.nan)
    )
    with pytest.raises(
        PluginError, match="advantage 'grpo': rewards is not finite at 1 of 8 places"
    ):
        evaluate_advantages(composed("grpo"), broken)
