"""Our objectives under verl's signature of a policy loss, with torch only."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from mintact_plugin_verl.losses import PolicyLoss, VerlBatch

from mintact_platform.errors import ConfigurationError, PluginError
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind
from mintact_platform.training.loss import evaluate_loss
from mintact_platform.training.objective import LossBatch, LossParts

NORM = "seq-mean-token-sum-norm"


class Config(dict):
    """A section as verl has it: a mapping with the counts of the whole update besides."""

    global_batch_info: dict


def actor(params=None, **counted):
    config = Config(policy_loss={"loss_mode": "mintact_mintact", "mintact": params or {}})
    config.global_batch_info = counted
    return config


@pytest.fixture(scope="module")
def registry():
    return Registry.discover()


@pytest.fixture
def loss(registry, aggregate):
    return lambda name: PolicyLoss(name, registry.get("objectives", name), aggregate)


def ours(registry, name, old, new, advantages, mask, weights=None, S=1.0, **params):
    """The same by the platform's own `evaluate_loss`."""
    rows = torch.arange(len(mask))
    batch = LossBatch(new, old, old, advantages, mask, rows, rows, torch.zeros_like(rows))
    parts = LossParts(
        advantage=lambda batch: batch.rewards,
        objective=bind(registry.get("objectives", name), params, where=name),
        correction=lambda prox, roll, mask: torch.ones_like(prox) if weights is None else weights,
        normaliser=lambda batch: S,
    )
    return evaluate_loss(parts, batch, S)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["mintact", "ppo_clip", "sft"])
def test_value_and_gradient_are_those_of_the_platform(registry, loss, batch, name, seed):
    old, new, advantages, mask = batch(seed)
    config = actor(dp_size=1, batch_num_tokens=None, global_batch_size=6, loss_scale_factor=9)
    value, _ = loss(name)(old, new, advantages, mask, NORM, config)
    (gradient,) = torch.autograd.grad(value, new)
    expected = ours(registry, name, old, new, advantages, mask, S=6 * 9).value
    (expected_gradient,) = torch.autograd.grad(expected, new)
    torch.testing.assert_close(value, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=1e-12)


def test_verls_correction_multiplies_the_surrogate_and_carries_no_gradient(registry, loss, batch):
    old, new, advantages, mask = batch(7)
    weights = torch.linspace(0, 2, mask.numel(), dtype=torch.float64).reshape(mask.shape)
    weights = weights.requires_grad_()
    value, _ = loss("mintact")(
        old, new, advantages, mask, "token-mean", actor(), rollout_is_weights=weights
    )
    expected = ours(
        registry, "mintact", old, new, advantages, mask, weights, S=float(mask.sum())
    ).value
    torch.testing.assert_close(value, expected)
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(value, weights)


def test_parameters_come_from_verls_section(registry, loss, batch):
    old, new, advantages, mask = batch(1)
    call = loss("mintact")
    plain, _ = call(old, new, advantages, mask, "token-mean", actor())
    tight, _ = call(old, new, advantages, mask, "token-mean", actor({"clip_high": 0.01}))
    expected = ours(
        registry, "mintact", old, new, advantages, mask, S=float(mask.sum()), clip_high=0.01
    ).value
    assert plain != tight
    torch.testing.assert_close(tight, expected)


def test_a_wrong_parameter_is_named(loss, batch):
    with pytest.raises(ConfigurationError) as caught:
        loss("mintact")(*batch(1), "token-mean", actor({"clip_hi": 0.1}))
    assert str(caught.value) == (
        "objective 'mintact' in verl: unknown parameter 'clip_hi'; did you mean 'clip_high'?"
    )


def test_metrics_are_plain_numbers_under_verls_names(loss, batch):
    _, metrics = loss("mintact")(*batch(2), "token-mean", actor())
    assert set(metrics) == {
        "actor/clip_high",
        "actor/clip_low",
        "actor/clip_dual",
        "actor/ppo_kl",
    }
    assert all(type(value) is float for value in metrics.values())
    assert 0 < metrics["actor/clip_high"] < 1


def test_a_micro_batch_without_a_token_has_finite_metrics(loss, batch):
    old, new, advantages, mask = batch(2)
    config = actor(global_batch_size=6, loss_scale_factor=9)
    value, metrics = loss("mintact")(old, new, advantages, mask & False, NORM, config)
    assert value == 0
    assert set(metrics.values()) == {0.0}


def test_low_precision_is_computed_in_float32(loss, batch):
    old, new, advantages, mask = batch(3, dtype=torch.float32)
    half = new.detach().to(torch.bfloat16).requires_grad_()
    value, _ = loss("mintact")(old, half, advantages, mask.long(), "token-mean", actor())
    value.backward()
    assert value.dtype == torch.float32
    assert half.grad.dtype == torch.bfloat16
    assert half.grad.isfinite().all()


def test_without_a_configuration_the_defaults_hold(loss, batch):
    old, new, advantages, mask = batch(4)
    bare, _ = loss("mintact")(old, new, advantages, mask)
    configured, _ = loss("mintact")(old, new, advantages, mask, "token-mean", actor())
    assert bare == configured
    attributes = SimpleNamespace(get=lambda name, default=None: None)
    assert loss("mintact")(old, new, advantages, mask, "token-mean", attributes)[0] == bare


@pytest.mark.parametrize(
    ("objective", "line"),
    [
        (lambda batch: batch.logprobs.sum(), r"surrogate is \[\] for a batch of \[6, 9\]"),
        (lambda batch: batch.logprobs / 0, r"surrogate is not finite at \d+ of \d+ tokens"),
        (lambda batch: (batch.logprobs, {"m": 3}), "metric 'actor/m' is a int"),
        (lambda batch: batch.logprob, "LossBatch|VerlBatch.* has no field 'logprob'"),
        (lambda batch: batch.rollout_logprobs, "does not tell a policy loss the rollout policy's"),
        (lambda batch: batch.group, "does not tell a policy loss which rows form a group"),
        (lambda batch: batch.entropy, "entropy is not computed"),
    ],
)
def test_a_broken_objective_is_one_line_that_names_it(aggregate, batch, objective, line):
    with pytest.raises((PluginError, ConfigurationError), match=line) as caught:
        PolicyLoss("acme/new", objective, aggregate)(*batch(0), "token-mean", actor())
    assert str(caught.value).startswith("objective 'acme/new' in verl: ")
    assert "\n" not in str(caught.value)


def test_what_is_outside_of_the_mask_reaches_no_objective(batch):
    old, new, advantages, mask = batch(5)
    seen = VerlBatch.of(new, old, advantages, mask)
    for tensor in (seen.logprobs, seen.proximal_logprobs, seen.advantages):
        assert (tensor[~mask] == 0).all()
    assert not seen.proximal_logprobs.requires_grad
