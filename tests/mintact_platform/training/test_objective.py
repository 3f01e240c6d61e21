from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from mintact_platform.errors import ConfigurationError, PluginError, PluginNotFound
from mintact_platform.registry.names import Registry
from mintact_platform.training.loss import (
    evaluate_advantages,
    evaluate_loss,
    evaluate_normaliser,
    summarise,
)
from mintact_platform.training.objective import (
    LossBatch,
    LossParts,
    RewardBatch,
    compose,
    fixed_normaliser,
    habits_of,
    objective,
)
from mintact_platform.training.rewards import reward_batch
from mintact_platform.training.trainer import RowRef


def batch(**changes: Any) -> LossBatch:
    generator = torch.Generator().manual_seed(0)
    draws = [-torch.rand(3, 4, generator=generator, dtype=torch.float64) for _ in range(3)]
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]], dtype=torch.bool)
    values = {
        "logprobs": draws[0].requires_grad_(),
        "proximal_logprobs": draws[1],
        "rollout_logprobs": draws[2],
        "advantages": torch.tensor([[0.5], [-1.0], [0.25]], dtype=torch.float64).expand(3, 4),
        "loss_mask": mask,
        "group": torch.tensor([0, 0, 1]),
        "trajectory": torch.arange(3),
        "domain": torch.tensor([0, 0, 1]),
        "domains": ("web", "tools"),
    }
    return LossBatch(**{**values, **changes})


def parts(function: Any, **changes: Any) -> LossParts:
    whole = LossParts(
        advantage=lambda b: b.rewards,
        objective=function,
        correction=lambda p, r, m: torch.ones_like(p),
        normaliser=fixed_normaliser,
        names={"objective": "acme/loss", "correction": "acme/weight", "advantage": "acme/adv"},
        habits=habits_of(function),
    )
    return replace(whole, **changes)


def rewards(live: tuple[bool, ...] = (True, True, True, False)) -> RewardBatch:
    refs = [RowRef(str(i), "", "g", "web", 1.0 + i, live=x) for i, x in enumerate(live)]
    return reward_batch(refs, [[0]] * len(refs), group_size=4, length_cap=8)


def test_declaring_a_loss_loads_no_torch() -> None:
    program = (
        "import sys; from mintact_platform import objective;"
        "import mintact_platform.training.batch;"
        "objective(needs={'entropy'})(lambda batch: 0); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_declaration_is_read_back_and_its_extras_are_known_ones() -> None:
    @objective(needs={"entropy"}, correction="own", micro_batch_invariant=False)
    def loss(batch: LossBatch) -> torch.Tensor:
        return -batch.logprobs

    habits = habits_of(loss)
    assert (habits.needs, habits.correction) == ({"entropy"}, "own")
    assert not habits.micro_batch_invariant
    with pytest.raises(ConfigurationError, match="did you mean 'entropy'"):
        objective(needs={"entropies"})


def test_a_misspelt_field_names_the_plugin_and_the_field() -> None:
    with pytest.raises(PluginError, match=r"'acme/loss'.*'logprob'; did you mean 'logprobs'\?"):
        evaluate_loss(parts(lambda b: -b.logprob), batch(), 1.0)


def test_an_undeclared_extra_says_how_to_declare_it() -> None:
    with pytest.raises(PluginError, match=r"'acme/loss': entropy is not computed; declare it"):
        evaluate_loss(parts(lambda b: -b.entropy), batch(), 1.0)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda b: b.logprobs.sum(1), r"'acme/loss': surrogate is \[3\] for a batch of \[3, 4\]"),
        (lambda b: 1.0, "'acme/loss': surrogate is a float"),
        (lambda b: (b.logprobs, {"kl": b.group}), r"metric 'kl' is \[3\]"),
        (lambda b: b.logprobs / 0, "surrogate is not finite at 9 of 9 places"),
        (lambda b: b.logprobs @ b.logprobs, "'acme/loss': RuntimeError"),
    ],
)
def test_a_wrong_result_is_one_line_naming_the_objective(function: Any, message: str) -> None:
    with pytest.raises(PluginError, match=message) as caught:
        evaluate_loss(parts(function), batch(), 1.0)
    assert "\n" not in str(caught.value)


def test_a_wrong_correction_advantage_or_normaliser_is_named() -> None:
    with pytest.raises(PluginError, match=r"'acme/weight': weight is \[3\]"):
        evaluate_loss(
            parts(lambda b: -b.logprobs, correction=lambda p, r, m: p.sum(1)), batch(), 1.0
        )
    with pytest.raises(PluginError, match=r"'acme/adv': returned \[1\] for 4 rows"):
        evaluate_advantages(parts(lambda b: b, advantage=lambda b: b.rewards[:1]), rewards())
    with pytest.raises(PluginError, match="S is a positive number"):
        evaluate_normaliser(parts(lambda b: b, normaliser=lambda b: 0.0), rewards())


def test_nothing_outside_the_mask_reaches_loss_or_gradient() -> None:
    def loss(b: LossBatch) -> torch.Tensor:
        return -b.advantages * (b.logprobs - b.proximal_logprobs).exp()

    clean = batch()
    hole = ~clean.loss_mask
    logprobs = clean.logprobs.detach().masked_fill(hole, torch.nan).requires_grad_()
    dirty = batch(
        logprobs=logprobs,
        proximal_logprobs=clean.proximal_logprobs.masked_fill(hole, -torch.inf),
        rollout_logprobs=clean.rollout_logprobs.masked_fill(hole, torch.nan),
    )
    a, b = (evaluate_loss(parts(loss), x, 3.0).value for x in (clean, dirty))
    assert a.item() == b.item()
    a.backward()
    b.backward()
    assert torch.equal(clean.logprobs.grad, logprobs.grad)
    assert (logprobs.grad[hole] == 0).all()


def test_the_weight_carries_no_gradient() -> None:
    data = batch()
    weighing = parts(lambda b: -b.logprobs, correction=lambda p, r, m: (data.logprobs - r).exp())
    evaluate_loss(weighing, data, 1.0).value.backward()
    expected = -(data.logprobs - data.rollout_logprobs).exp().detach()
    assert torch.allclose(data.logprobs.grad, expected.masked_fill(~data.loss_mask, 0.0))


def test_metrics_are_means_over_tokens_of_each_domain() -> None:
    function = parts(lambda b: (-b.logprobs, {"half": b.advantages > 0, "big_max": b.logprobs}))
    data = batch(versions=torch.tensor([[1], [0], [1]]).expand(3, 4), deployed=1)
    metrics = summarise([evaluate_loss(function, data, 1.0)])
    assert metrics["half"] == {"": 7 / 9, "web": 4 / 6, "tools": 1.0}
    web = data.logprobs.detach()[:2][data.loss_mask[:2]]
    assert metrics["big_max"]["web"] == pytest.approx(web.max().item())
    gap = (data.proximal_logprobs - data.rollout_logprobs).abs()
    assert metrics["engine_gap"]["web"] == pytest.approx(gap[0].mean().item())
    assert metrics["effective_sample_size"][""] == pytest.approx(1.0)


def test_group_means_leave_masked_rows_out() -> None:
    data = rewards()
    assert data.group_mean(data.rewards).tolist() == [2.0] * 4
    nobody = rewards((False,) * 4)
    assert nobody.group_mean(nobody.rewards).tolist() == [0.0] * 4


def test_the_fixed_normaliser_counts_planned_trajectories() -> None:
    assert fixed_normaliser(rewards()) == fixed_normaliser(rewards((False,) * 4)) == 32.0
    assert fixed_normaliser(rewards((True, True))) == 32.0


def test_turns_of_tokens_are_padded() -> None:
    refs = [RowRef("a", "", "g", "web", 1.0), RowRef("b", "", "g", "web", 0.0)]
    data = reward_batch(refs, [[0, 0, 1], [0]], group_size=2, length_cap=8)
    assert data.turn_of_token.tolist() == [[0, 0, 1], [0, -1, -1]]


def test_a_section_replaces_parts_of_its_preset() -> None:
    registry = Registry.discover()
    section = {
        "preset": "mintact",
        "params": {"clip_high": 0.5},
        "correction": {"name": "truncate", "params": {"cap": 5.0}},
        "advantage": None,
    }
    composed = compose(registry, section)
    assert composed.names == {
        "advantage": "mintact",
        "objective": "mintact",
        "correction": "truncate",
        "normaliser": "fixed",
    }
    weight = composed.correction(torch.tensor([[3.0]]), torch.tensor([[0.0]]), torch.ones(1, 1))
    assert weight.item() == 5.0


def test_a_wrong_section_is_refused_with_a_hint() -> None:
    registry = Registry.discover()
    with pytest.raises(PluginNotFound, match="did you mean 'mintact'"):
        compose(registry, {"preset": "mintakt"})
    with pytest.raises(ConfigurationError, match=r"unknown parameter 'clip_hi'.*clip_high"):
        compose(registry, {"params": {"clip_hi": 0.3}})


def test_a_loss_with_its_own_correction_admits_no_second(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry.discover()
    own = objective(correction="own")(lambda batch: -batch.logprobs)
    registry.tables["objectives"]["acme/own"] = {"acme": own}
    choice = {"objective": {"name": "acme/own"}}
    with pytest.raises(ConfigurationError, match="corrects for the rollout policy itself"):
        compose(registry, choice)
    assert compose(registry, {**choice, "correction": {"name": "none"}}).habits.correction == "own"
