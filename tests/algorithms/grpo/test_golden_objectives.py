"""Every objective against its formula, written again with scalars that carry their derivative.

`Number` is a float with its gradient by every ℓ of the batch; nothing here uses torch to compute.
The numbers are also kept in `golden.json`, for anyone to compare another implementation with;
`python tests/algorithms/grpo/test_golden_objectives.py` writes it anew.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mintact_platform.training.loss import evaluate_loss

FILE = Path(__file__).with_name("golden.json")
S = 16.0
CAP = 2.0


class Number:
    """A value and its gradient."""

    def __init__(self, value: float, gradient: Any = 0.0) -> None:
        self.value, self.gradient = float(value), gradient

    def __add__(self, other: Any) -> Number:
        other = lift(other)
        return Number(self.value + other.value, self.gradient + other.gradient)

    def __mul__(self, other: Any) -> Number:
        other = lift(other)
        slope = self.gradient * other.value + self.value * other.gradient
        return Number(self.value * other.value, slope)

    def __neg__(self) -> Number:
        return self * -1.0

    def __sub__(self, other: Any) -> Number:
        return self + -lift(other)

    def __rsub__(self, other: Any) -> Number:
        return -self + other

    __radd__, __rmul__ = __add__, __mul__


def lift(x: Any) -> Number:
    return x if isinstance(x, Number) else Number(x)


def sg(x: Any) -> Number:
    return Number(lift(x).value)


def exp(x: Any) -> Number:
    x = lift(x)
    return Number(math.exp(x.value), math.exp(x.value) * x.gradient)


def sigmoid(x: Number) -> Number:
    y = 1 / (1 + math.exp(-x.value))
    return Number(y, y * (1 - y) * x.gradient)


def larger(a: Number, b: Number) -> Number:
    return a if a.value >= b.value else b


def smaller(a: Number, b: Number) -> Number:
    return a if a.value <= b.value else b


def clip(x: Number, low: float, high: float) -> Number:
    return smaller(larger(x, Number(low)), Number(high))


def absolute(x: Number) -> Number:
    return np.sign(x.value) * x


def total(values: Sequence[Number]) -> Number:
    result = Number(0.0)
    for value in values:
        result = result + value
    return result


@dataclass(eq=False)
class Token:
    """What the formulas read of one token; `row` holds the tokens of its sequence."""

    ell: Number
    prox: float
    roll: float
    A: float
    R: float
    entropy: float
    ref: float
    row: list[Token]
    all: list[Token]

    @property
    def d(self) -> Number:
        return self.ell - self.prox


def mean_of_row(token: Token, value: Callable[[Token], Number]) -> Number:
    return total([value(other) for other in token.row]) * (1 / len(token.row))


def ppo(A: float, r: Number, low: float, high: float, c: float = math.inf) -> Number:
    value = larger(-A * r, -A * clip(r, 1 - low, 1 + high))
    return smaller(value, Number(-c * A)) if A < 0 else value


def plain(t: Token, low: float, high: float, c: float = math.inf) -> Number:
    return ppo(t.A, exp(clip(t.d, -20, 20)), low, high, c)


def opsm(t: Token, delta: float, old: str) -> Number:
    drift = mean_of_row(t, lambda o: getattr(o, old) - sg(o.ell)).value
    return Number(0.0) if t.A < 0 and drift > delta else plain(t, 0.2, 0.28, 3.0)


def gmpo(t: Token, low: float, high: float) -> Number:
    def held(o: Token) -> Number:
        return larger(o.d, Number(-low)) if o.A < 0 else smaller(o.d, Number(high))

    return -t.A * exp(mean_of_row(t, held))


def topr(t: Token, gap: Callable[[Token], float], good: float = 1.0, bad: float = 1.0) -> Number:
    weight = good if t.R > 0 else bad * math.exp(min(gap(t), 0.0))
    return -weight * t.A * t.ell


def dppo(t: Token, low: float, high: float, tau: float) -> Number:
    moved = math.exp(t.ell.value) - math.exp(t.roll)
    out = (t.A > 0 and moved > high) or (t.A < 0 and -moved > low)
    drift = t.ell - t.roll
    return (Number(0.0) if out else -t.A * exp(drift)) + tau * drift * drift


def cov(t: Token) -> float:
    n = len(t.all)
    A = math.fsum(o.A for o in t.all) / n
    ell = math.fsum(o.ell.value for o in t.all) / n
    return (t.A - A) * (t.ell.value - ell)


def clip_cov(t: Token, low: float, high: float) -> Number:
    r = math.exp(t.d.value)
    held = (t.A > 0 and r > 1.2) or (t.A < 0 and r < 0.8)
    return Number(0.0) if not held and low < cov(t) < high else plain(t, 0.2, 0.2)


def kl_cov(t: Token, ratio: float, beta: float) -> Number:
    count = max(1, int(ratio * len(t.all)))
    chosen = t in sorted(t.all, key=cov, reverse=True)[:count]
    return -t.A * exp(t.d) + (beta * absolute(t.d) if chosen else 0.0)


def k3(t: Token) -> Number:
    x = clip(t.ref - t.ell, -20, 20)
    return smaller(exp(x) - x - 1.0, Number(10.0))


def k3_straight(t: Token) -> Number:
    k2 = 0.5 * (t.ell - t.ref) * (t.ell - t.ref)
    return k2 + sg(k3(t) - k2)


CASES: dict[str, tuple[str, dict[str, Any], Callable[[Token], Number]]] = {
    "mintact": ("mintact", {}, lambda t: plain(t, 0.2, 0.28, 3.0)),
    "ppo_clip": ("ppo_clip", {}, lambda t: plain(t, 0.2, 0.2)),
    "ppo_clip 0.1": ("ppo_clip", {"clip": 0.1}, lambda t: plain(t, 0.1, 0.1)),
    "clip_higher": ("clip_higher", {}, lambda t: plain(t, 0.2, 0.28)),
    "dual_clip": ("dual_clip", {"clip_dual": 1.5}, lambda t: plain(t, 0.2, 0.2, 1.5)),
    "decoupled_ppo": (
        "decoupled_ppo",
        {},
        lambda t: math.exp(t.prox - t.roll) * plain(t, 0.2, 0.2),
    ),
    "decoupled_ppo 1.2": (
        "decoupled_ppo",
        {"cap": 1.2},
        lambda t: (
            (math.exp(t.prox - t.roll) <= 1.2) * math.exp(t.prox - t.roll) * plain(t, 0.2, 0.2)
        ),
    ),
    "gspo": (
        "gspo",
        {},
        lambda t: ppo(
            t.A, sg(exp(mean_of_row(t, lambda o: o.d))) * exp(t.ell - sg(t.ell)), 3e-4, 4e-4
        ),
    ),
    "gspo 0.1": (
        "gspo",
        {"clip_low": 0.1, "clip_high": 0.1},
        lambda t: ppo(
            t.A, sg(exp(mean_of_row(t, lambda o: o.d))) * exp(t.ell - sg(t.ell)), 0.1, 0.1
        ),
    ),
    "gspo_sequence": (
        "gspo_sequence",
        {"clip_low": 0.1, "clip_high": 0.1},
        lambda t: ppo(t.A, exp(mean_of_row(t, lambda o: o.d)), 0.1, 0.1),
    ),
    "gmpo": ("gmpo", {}, lambda t: gmpo(t, 0.4, 0.4)),
    "gmpo 0.1": ("gmpo", {"clip_low": 0.1, "clip_high": 0.2}, lambda t: gmpo(t, 0.1, 0.2)),
    "opsm": ("opsm", {}, lambda t: opsm(t, 1e-4, "prox")),
    "opsm rollout": (
        "opsm",
        {"delta": 0.1, "against": "rollout"},
        lambda t: opsm(t, 0.1, "roll"),
    ),
    "cispo": ("cispo", {}, lambda t: -sg(clip(exp(t.d), 0.0, 5.0)) * t.A * t.ell),
    "cispo both": (
        "cispo",
        {"clip_low": 0.2, "clip_high": 0.3},
        lambda t: -sg(clip(exp(t.d), 0.8, 1.3)) * t.A * t.ell,
    ),
    "cispo_bound": (
        "cispo_bound",
        {"bound": 1.3},
        lambda t: -sg(smaller(exp(t.d), Number(1.3))) * t.A * t.ell,
    ),
    "sapo": (
        "sapo",
        {},
        lambda t: (
            -(4 / (1.0 if t.A > 0 else 1.05))
            * t.A
            * sigmoid((1.0 if t.A > 0 else 1.05) * (exp(t.d) - 1.0))
        ),
    ),
    "topr": ("topr", {}, lambda t: topr(t, lambda o: o.ell.value - o.roll)),
    "topr sequence": (
        "topr",
        {"level": "sequence", "weight_positive": 0.5, "weight_negative": 2.0},
        lambda t: topr(t, lambda o: sum(x.ell.value - x.roll for x in o.row), 0.5, 2.0),
    ),
    "dppo_tv": ("dppo_tv", {}, lambda t: dppo(t, 0.2, 0.2, 0.0)),
    "dppo_tv 0.02": (
        "dppo_tv",
        {"delta_low": 0.02, "delta_high": 0.03, "tau": 1e-3},
        lambda t: dppo(t, 0.02, 0.03, 1e-3),
    ),
    "dro": ("dro", {"beta": 0.3}, lambda t: -t.A * t.ell + 0.15 * t.d * t.d),
    "kimi": ("kimi", {}, lambda t: -t.A * t.ell + 0.05 * t.d * t.d),
    "clip_cov": (
        "clip_cov",
        {"ratio": 1.0, "cov_low": 0.05, "cov_high": 0.5},
        lambda t: clip_cov(t, 0.05, 0.5),
    ),
    "kl_cov": ("kl_cov", {"ratio": 0.3, "coefficient": 0.7}, lambda t: kl_cov(t, 0.3, 0.7)),
    "reinforce": ("reinforce", {}, lambda t: -t.A * t.ell),
    "sft": ("sft", {}, lambda t: -t.ell),
    "kl_k1": ("kl_k1", {"coefficient": 0.1}, lambda t: 0.1 * (t.ell - t.ref)),
    "kl_k2": ("kl_k2", {"coefficient": 0.1}, lambda t: 0.05 * (t.ell - t.ref) * (t.ell - t.ref)),
    "kl_k3": ("kl_k3", {"coefficient": 0.1}, lambda t: 0.1 * k3(t)),
    "kl_k3 straight": (
        "kl_k3",
        {"coefficient": 0.1, "straight_through": True},
        lambda t: 0.1 * k3_straight(t),
    ),
    "entropy_bonus": ("entropy_bonus", {}, lambda t: Number(-1e-3 * t.entropy)),
}


def inputs() -> dict[str, Any]:
    """Two groups of four, five tokens, two decimals; holes, and one row that failed."""
    draws = random.Random(20)
    rows, width = 8, 5
    ell = [[round(-3 * draws.random() - 0.05, 2) for _ in range(width)] for _ in range(rows)]
    prox = [[round(min(x + draws.gauss(0, 0.5), -0.01), 2) for x in row] for row in ell]
    roll = [[round(min(x + draws.gauss(0, 0.5), -0.01), 2) for x in row] for row in prox]
    prox[5][1], ell[5][1] = -2.5, -0.5
    return {
        "logprobs": ell,
        "proximal_logprobs": prox,
        "rollout_logprobs": roll,
        "advantages": [0.75, -0.25, -0.25, -0.25, 0.5, -0.5, 0.0, 1.25],
        "rewards": [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.5, 1.0],
        "loss_mask": [
            [1, 1, 1, 1, 1],
            [1, 1, 0, 1, 1],
            [1, 1, 1, 0, 0],
            [0, 0, 0, 0, 0],
            [1, 1, 1, 1, 1],
            [1, 1, 1, 1, 0],
            [1, 0, 1, 0, 1],
            [1, 1, 1, 1, 1],
        ],
    }


def reference(case: str) -> tuple[float, list[list[float]]]:
    """Loss and gradient by every ℓ, from the formula."""
    name, _, formula = CASES[case]
    given = inputs()
    mask = np.array(given["loss_mask"], bool)
    everything: list[Token] = []
    places = []
    for i, row in enumerate(mask):
        own: list[Token] = []
        for t in np.flatnonzero(row):
            unit = np.zeros(mask.shape)
            unit[i, t] = 1.0
            ell = given["logprobs"][i][t]
            prox, roll = given["proximal_logprobs"][i][t], given["rollout_logprobs"][i][t]
            token = Token(
                Number(ell, unit),
                prox,
                roll,
                given["advantages"][i],
                given["rewards"][i],
                0.5 + abs(ell) / 3,
                (prox + roll) / 2 - 0.1,
                own,
                everything,
            )
            own.append(token)
            everything.append(token)
            places.append((i, t))
    own_weight = name in ("decoupled_ppo", "topr", "dppo_tv")
    loss = Number(0.0, np.zeros(mask.shape))
    for token in everything:
        weight = 1.0 if own_weight else min(math.exp(token.prox - token.roll), CAP)
        loss = loss + weight * formula(token) * (1 / S)
    return loss.value, loss.gradient.tolist()


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradient_are_those_of_the_formula(case, losses, batch_of):
    name, params, _ = CASES[case]
    parts = losses(name, params)
    if parts.habits.correction != "own":
        parts = losses(name, params, correction="truncate")
    given = inputs()
    batch = batch_of(*(given[key] for key in list(given)[:4]), given["loss_mask"], given["rewards"])
    loss = evaluate_loss(parts, batch, S).value
    loss.backward()
    gradient = batch.logprobs.grad if batch.logprobs.grad is not None else 0 * batch.logprobs
    value, slopes = reference(case)
    assert loss.item() == pytest.approx(value, rel=1e-12, abs=1e-14)
    np.testing.assert_allclose(gradient.detach().numpy(), slopes, rtol=1e-12, atol=1e-14)
    kept = json.loads(FILE.read_text())["cases"][case]
    assert value == pytest.approx(kept["loss"], rel=1e-13, abs=1e-15)
    np.testing.assert_allclose(slopes, kept["gradient"], rtol=1e-13, atol=1e-15)


def test_every_objective_of_ours_has_golden_numbers(names_of):
    assert {name for name, _, _ in CASES.values()} == set(names_of("objectives"))


@pytest.mark.parametrize("branch", ["clip_high", "clip_low", "clip_dual", "weight over the cap"])
def test_the_batch_shows_every_branch_of_the_paper_s_loss(branch, losses, batch_of):
    given = inputs()
    batch = batch_of(*(given[key] for key in list(given)[:4]), given["loss_mask"])
    tokens = evaluate_loss(losses("mintact", correction="truncate"), batch, S).tokens
    name = "importance_weight_truncated" if branch.startswith("weight") else branch
    assert 0 < tokens[name].sum() < len(tokens[name])


def test_the_entropy_bonus_pulls_on_the_entropy(losses, batch_of):
    given = inputs()
    batch = batch_of(*(given[key] for key in list(given)[:4]), given["loss_mask"])
    evaluate_loss(losses("entropy_bonus"), batch, S).value.backward()
    expected = -1e-3 / S * batch.loss_mask.double()
    assert batch.entropy.grad.numpy() == pytest.approx(expected.numpy(), abs=1e-18)


def test_terms_are_added_without_the_correction(losses, batch_of):
    given = inputs()
    batch = batch_of(*(given[key] for key in list(given)[:4]), given["loss_mask"])
    terms = [
        {"name": "kl_k3", "params": {"coefficient": 0.1}},
        {"name": "entropy_bonus", "params": {"coefficient": 0.2}},
    ]
    parts = losses("mintact", correction="truncate", terms=terms)
    assert parts.habits.needs == {"reference_logprobs", "entropy"}
    whole = evaluate_loss(parts, batch, S)
    plain = [
        losses("mintact", correction="truncate"),
        losses("kl_k3", {"coefficient": 0.1}),
        losses("entropy_bonus", {"coefficient": 0.2}),
    ]
    expected = sum(evaluate_loss(one, batch, S).value for one in plain)
    assert whole.value.item() == pytest.approx(expected.item(), rel=1e-14)
    assert {"kl_k3", "entropy_bonus"} <= set(whole.tokens)


if __name__ == "__main__":
    cases = {}
    for case, (name, params, _) in CASES.items():
        value, slopes = reference(case)
        cases[case] = {"objective": name, "params": params, "loss": value, "gradient": slopes}
    written = {
        "about": "loss and its gradient by logprobs, in float64; see test_golden_objectives.py",
        "S": S,
        "correction": "min(exp(proximal - rollout), 2) except decoupled_ppo, topr, dppo_tv",
        "reference_logprobs": "(proximal + rollout) / 2 - 0.1",
        "entropy": "0.5 + |logprobs| / 3",
        **inputs(),
        "cases": cases,
    }
    FILE.write_text(json.dumps(written, indent=1) + "\n")
