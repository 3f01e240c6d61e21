"""The objectives against golden numbers and an independent float64 reference."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mintact_algorithm_grpo import advantages, corrections, objectives
from torch import Tensor

from mintact_platform.registry.names import Registry
from mintact_platform.training.loss import evaluate_advantages, evaluate_loss
from mintact_platform.training.objective import LossBatch, LossParts, RewardBatch, compose
from mintact_platform.training.rewards import reward_batch
from mintact_platform.training.trainer import RowRef

D = torch.float64
ELL = [[-1, -0.5, -2], [-1, -0.2, -3], [-0.7, -1.1, -0.4], [-0.3, -0.9, -1.5]]
PROX = [[-1.1, -1, -1.7], [-1.2, -1.5, -2.5], [-0.7, -1, -0.9], [-0.5, -0.5, -0.5]]
ROLL = [[-1, -2, -1.7], [-1.2, -1.6, -2], [-0.9, -1, -2.1], [-0.5, -0.5, -0.5]]
MASK = [[1, 1, 1], [1, 1, 0], [1, 1, 1], [0, 0, 0]]


@functools.cache
def registry() -> Registry:
    return Registry.discover()


def preset(name: str = "mintact", **section: Any) -> LossParts:
    return compose(registry(), {"preset": name, **section})


def loss_batch(ell: Any, prox: Any, roll: Any, advantage: Tensor, mask: Any) -> LossBatch:
    rows = len(mask)
    return LossBatch(
        logprobs=torch.as_tensor(ell, dtype=D).clone().requires_grad_(),
        proximal_logprobs=torch.as_tensor(prox, dtype=D),
        rollout_logprobs=torch.as_tensor(roll, dtype=D),
        advantages=advantage if advantage.dim() == 2 else advantage[:, None].expand(rows, -1),
        loss_mask=torch.as_tensor(mask, dtype=torch.bool),
        group=torch.zeros(rows, dtype=torch.long),
        trajectory=torch.arange(rows),
        domain=torch.zeros(rows, dtype=torch.long),
    )


def golden_rewards(failed: float = 1.0) -> RewardBatch:
    values = (1.0, 0.0, 0.0, failed)
    refs = [RowRef(str(i), "", "g", "web", r, live=i < 3) for i, r in enumerate(values)]
    return reward_batch(refs, [[0] * 3] * 4, group_size=4, length_cap=4)


def golden(mask: Any = MASK) -> LossBatch:
    advantage = evaluate_advantages(preset(), golden_rewards())
    return loss_batch(ELL, PROX, ROLL, advantage[:, None].expand(4, 3), mask)


def reference(ell: float, prox: float, roll: float, A: float) -> tuple[float, float]:
    """Loss and derivative of one token, written with scalars and case distinctions."""
    low, high, c, cap, kappa = 0.2, 0.28, 3.0, 2.0, 20.0
    d = max(-kappa, min(kappa, ell - prox))
    r = math.exp(d)
    slope = -A * r if abs(ell - prox) < kappa else 0.0
    value = -A * r
    if A > 0 and r > 1 + high:
        value, slope = -A * (1 + high), 0.0
    if A < 0 and r < 1 - low:
        value, slope = -A * (1 - low), 0.0
    if A < 0 and value > -c * A:
        value, slope = -c * A, 0.0
    w = min(math.exp(max(-kappa, min(kappa, prox - roll))), cap)
    return w * value, w * slope


def test_the_golden_vector() -> None:
    advantage = evaluate_advantages(preset(), golden_rewards())
    assert advantage.tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3, 0], abs=1e-15)
    batch = golden()
    loss = evaluate_loss(preset(), batch, 16.0).value
    loss.backward()
    assert loss.item() == pytest.approx(0.028311703929585, abs=1e-12)
    expected = [
        [-0.04166666666667, 0, -0.03086742586174],
        [0.02544589079500, 0, 0],
        [0.02544589079500, 0.01885077954242, 0.06869671961251],
        [0, 0, 0],
    ]
    assert batch.logprobs.grad is not None
    assert torch.allclose(batch.logprobs.grad, torch.tensor(expected, dtype=D), atol=1e-12, rtol=0)


def test_the_hole_filled_shows_the_low_clip() -> None:
    # the golden vector's low clip falls on the hole: row 2, token 3, r = e^-.5 < .8, Â < 0
    mask = [[1, 1, 1], [1, 1, 1], [1, 1, 1], [0, 0, 0]]
    batch = golden(mask)
    loss = evaluate_loss(preset(), batch, 16.0)
    loss.value.backward()
    weight = math.exp(-0.5)
    assert loss.value.item() == pytest.approx(0.028311703929585 + weight * 0.8 / 3 / 16, abs=1e-12)
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad[1, 2] == 0
    assert loss.tokens["clip_low"].sum() == 1
    assert loss.tokens["clip_dual"].sum() == 1
    assert loss.tokens["clip_high"].sum() == 1


def test_ratios_beyond_kappa_carry_no_gradient() -> None:
    batch = loss_batch([[-1.0]], [[-30.0]], [[-30.0]], torch.tensor([[1.0]], dtype=D), [[1]])
    objective = objectives.mintact(batch, clip_high=math.inf)[0]
    objective.sum().backward()
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.item() == 0.0


logs = st.floats(-25, 0, allow_nan=False)
tokens = st.tuples(logs, logs, logs, st.floats(-2, 2))


@settings(deadline=None)
@given(st.lists(tokens, min_size=1, max_size=30))
def test_mintact_equals_the_scalar_reference(rows: list[tuple[float, ...]]) -> None:
    ell, prox, roll, A = (torch.tensor([column], dtype=D) for column in zip(*rows, strict=True))
    batch = loss_batch(ell, prox, roll, A, torch.ones_like(ell))
    loss = evaluate_loss(preset(), batch, 7.0).value
    loss.backward()
    expected = [reference(*row) for row in rows]
    total = math.fsum(value for value, _ in expected) / 7
    assert loss.item() == pytest.approx(total, rel=1e-12, abs=1e-12)
    slopes = torch.tensor([[slope / 7 for _, slope in expected]], dtype=D)
    # on a border of a clip both one-sided derivatives are right
    near = torch.tensor([[_at_border(*row) for row in rows]])
    assert batch.logprobs.grad is not None
    assert torch.allclose(batch.logprobs.grad[~near], slopes[~near], rtol=1e-10, atol=1e-12)


def _at_border(ell: float, prox: float, roll: float, A: float) -> bool:
    d = ell - prox
    borders = (math.log(0.8), math.log(1.28), math.log(3), 20.0, -20.0)
    return any(abs(d - border) < 1e-9 for border in borders)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(0, 4), st.randoms())
def test_loss_and_gradient_do_not_depend_on_how_rows_are_fed(
    seed: int, size: int, padding: int, random: Any
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows, width = 6, 5
    ell, prox, roll = (-2 * torch.rand(rows, width, generator=generator, dtype=D) for _ in range(3))
    A = torch.randn(rows, 1, generator=generator, dtype=D).expand(rows, width)
    mask = torch.rand(rows, width, generator=generator) < 0.7
    whole = loss_batch(ell, prox, roll, A, mask)
    loss = evaluate_loss(preset(), whole, 12.0).value
    loss.backward()
    order = list(range(rows))
    random.shuffle(order)
    total, gradient = 0.0, torch.zeros_like(ell)
    for start in range(0, rows, size):
        chosen = order[start : start + size]
        wide = [
            torch.nn.functional.pad(x[chosen].to(D), (0, padding), value=-3.0)
            for x in (ell, prox, roll, A)
        ]
        part = loss_batch(*wide, torch.nn.functional.pad(mask[chosen], (0, padding)))
        share = evaluate_loss(preset(), part, 12.0).value
        share.backward()
        total += share.item()
        assert part.logprobs.grad is not None
        gradient[chosen] = part.logprobs.grad[:, :width]
    assert total == pytest.approx(loss.item(), abs=1e-12)
    assert torch.equal(gradient, whole.logprobs.grad)


@settings(max_examples=15, deadline=None)
@given(st.floats(-5, 5), st.lists(logs, min_size=3, max_size=3))
def test_a_failed_rollout_changes_nothing_for_the_others(reward: float, ell: list[float]) -> None:
    plain, other = golden(), golden()
    other = replace(
        other,
        logprobs=torch.cat([plain.logprobs.detach()[:3], torch.tensor([ell], dtype=D)])
        .clone()
        .requires_grad_(),
    )
    advantage = [evaluate_advantages(preset(), golden_rewards(r)) for r in (1.0, reward)]
    assert torch.equal(*advantage)
    losses = [evaluate_loss(preset(), b, 16.0).value for b in (plain, other)]
    assert losses[0].item() == losses[1].item()
    for loss in losses:
        loss.backward()
    assert torch.equal(plain.logprobs.grad, other.logprobs.grad)


def test_the_gradient_is_the_numeric_one() -> None:
    batch = golden()
    parts = preset()

    def loss(ell: Tensor) -> Tensor:
        return evaluate_loss(parts, replace(batch, logprobs=ell), 16.0).value

    assert torch.autograd.gradcheck(loss, (batch.logprobs,), eps=1e-6, atol=1e-7)


def test_ppo_is_the_general_case_with_equal_clips() -> None:
    batch = golden()
    A, r = batch.advantages, (batch.logprobs - batch.proximal_logprobs).exp()
    expected = torch.maximum(-A * r, -A * r.clamp(0.8, 1.2))
    assert torch.equal(objectives.ppo_clip(batch)[0], expected)


def test_grpo_divides_by_the_unbiased_deviation_of_live_members() -> None:
    refs = [
        RowRef("a", "", "g", "web", 1.0),
        RowRef("b", "", "g", "web", 0.0),
        RowRef("c", "", "g", "web", 0.5),
        RowRef("d", "", "g", "web", 9.0, live=False),
        RowRef("e", "", "alone", "web", 0.7),
    ]
    batch = reward_batch(refs, [[0]] * 5, group_size=4, length_cap=8)
    result = evaluate_advantages(preset("grpo"), batch)
    spread = torch.tensor([1.0, 0.0, 0.5], dtype=D).std() + 1e-6
    expected = [0.5 / spread, -0.5 / spread, 0.0, 0.0, 0.7 / (1 + 1e-6)]
    assert result.tolist() == pytest.approx([float(x) for x in expected], abs=1e-12)


def test_truncation_is_one_sided() -> None:
    prox, roll = torch.tensor([[0.0, -1.0, -50.0]]), torch.tensor([[-3.0, -0.5, 0.0]])
    weight = corrections.truncate(prox, roll, torch.ones(1, 3))
    assert weight[0].tolist() == pytest.approx([2.0, math.exp(-0.5), math.exp(-20)])
    assert corrections.none(prox, roll, torch.ones(1, 3)).tolist() == [[1.0] * 3]


def test_sft_is_the_negative_log_likelihood() -> None:
    batch = golden()
    parts = preset(objective={"name": "sft"}, correction={"name": "none"})
    value = evaluate_loss(parts, batch, 1.0).value
    assert value.item() == pytest.approx(-batch.logprobs[batch.loss_mask].sum().item())


def test_the_mean_baseline_is_not_divided() -> None:
    batch = golden_rewards()
    assert advantages.mintact(batch)[:3].tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3])
