"""Corrections and normalisers against their formulas, written again with scalars."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch

from mintact_platform.registry.names import Registry
from mintact_platform.training.loss import evaluate_normaliser
from mintact_platform.training.objective import compose
from mintact_platform.training.rewards import reward_batch
from mintact_platform.training.trainer import RowRef

REGISTRY = Registry.discover()
MASK = [[1, 1, 1, 1], [1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]


def policies() -> tuple[list[list[float]], list[list[float]]]:
    draws = random.Random(3)
    prox = [[round(-2 * draws.random(), 2) for _ in row] for row in MASK]
    roll = [[round(x + draws.gauss(0, 0.8), 2) for x in row] for row in prox]
    prox[3][:2], roll[3][:2] = [-0.5, -1.0], [-0.6, -0.9]
    prox[4][0], roll[4][0] = -1.0, -40.0
    return prox, roll


def guarded(x: float) -> float:
    return math.exp(max(-20.0, min(20.0, x)))


def ratios(i: int, t: int) -> tuple[float, float, float]:
    """Of the token, of its sequence, and the geometric mean."""
    prox, roll = policies()
    own = [p - r for p, r, m in zip(prox[i], roll[i], MASK[i], strict=True) if m]
    return guarded(prox[i][t] - roll[i][t]), guarded(sum(own)), guarded(sum(own) / len(own))


CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "none": ("none", {}, lambda w, s, g: 1.0),
    "truncate": ("truncate", {}, lambda w, s, g: min(w, 2.0)),
    "truncate 1.2": ("truncate", {"cap": 1.2}, lambda w, s, g: min(w, 1.2)),
    "truncate by level": (
        "truncate",
        {"cap": 3.0, "level": "sequence"},
        lambda w, s, g: min(s, 3.0),
    ),
    "truncate_sequence": ("truncate_sequence", {}, lambda w, s, g: min(s, 5.0)),
    "mask": ("mask", {}, lambda w, s, g: w if 0.5 <= w <= 5 else 0.0),
    "mask_sequence": ("mask_sequence", {}, lambda w, s, g: s if 0.5 <= s <= 5 else 0.0),
    "mask_geometric": ("mask_geometric", {}, lambda w, s, g: w if 0.999 <= g <= 1.002 else 0.0),
    "mask_geometric wide": (
        "mask_geometric",
        {"low": 0.7, "high": 1.4},
        lambda w, s, g: w if 0.7 <= g <= 1.4 else 0.0,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_weights_are_those_of_the_formula(case):
    name, params, formula = CASES[case]
    correction = compose(REGISTRY, {"correction": {"name": name, "params": params}}).correction
    mask = torch.tensor(MASK, dtype=torch.bool)
    prox, roll = (torch.tensor(x, dtype=torch.float64) for x in policies())
    prox.requires_grad_()
    result = correction(prox, roll, mask)
    weight = result[0] if isinstance(result, tuple) else result
    assert not weight.requires_grad
    for i, row in enumerate(MASK):
        for t, used in enumerate(row):
            if used:
                assert float(weight[i, t]) == pytest.approx(formula(*ratios(i, t)), rel=1e-12)


def test_every_correction_of_ours_has_golden_numbers(names_of):
    assert {name for name, _, _ in CASES.values()} == set(names_of("corrections"))


LENGTHS = (3, 0, 5, 1, 4, 2)
LIVE = (True, False, True, True, True, False)


def rewards() -> Any:
    refs = [RowRef(str(i), "", "ab"[i // 3], "web", 1.0, live=x) for i, x in enumerate(LIVE)]
    turns = [[0] * (n if x else 0) for n, x in zip(LENGTHS, LIVE, strict=True)]
    return reward_batch(refs, turns, group_size=4, length_cap=10)


@pytest.mark.parametrize(
    ("name", "params", "expected"),
    [
        ("fixed", {}, 80.0),
        ("token_mean", {}, 13.0),
        ("seq_mean_token_sum", {}, 8.0),
        ("seq_mean_token_sum", {"count": "live"}, 4.0),
        ("seq_mean_token_mean", {}, [24.0, 8.0, 40.0, 8.0, 32.0, 8.0]),
        ("seq_mean_token_mean", {"count": "live"}, [12.0, 4.0, 20.0, 4.0, 16.0, 4.0]),
    ],
)
def test_normalisers_are_those_of_the_formula(name, params, expected):
    parts = compose(REGISTRY, {"normaliser": {"name": name, "params": params}})
    S = evaluate_normaliser(parts, rewards())
    assert (S.tolist() if isinstance(S, torch.Tensor) else S) == expected


@pytest.mark.parametrize("name", ["fixed", "token_mean", "seq_mean_token_sum"])
def test_an_update_without_live_rollouts_still_has_a_normaliser(name):
    refs = [RowRef("a", "", "g", "web", 0.0, live=False)]
    batch = reward_batch(refs, [[]], group_size=4, length_cap=10)
    assert evaluate_normaliser(compose(REGISTRY, {"normaliser": {"name": name}}), batch) > 0
