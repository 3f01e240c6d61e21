"""What no objective may depend on: how its batch is cut, padded, ordered, or what is masked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mintact_platform.errors import ConfigurationError, PluginError
from mintact_platform.training.loss import evaluate_loss, evaluate_normaliser
from mintact_platform.training.objective import LossBatch, LossParts
from mintact_platform.training.rewards import reward_batch
from mintact_platform.training.trainer import RowRef

ROWS, WIDTH = 8, 5
FIELDS = ("logprobs", "proximal_logprobs", "rollout_logprobs", "advantages", "loss_mask")
quick = settings(max_examples=8, deadline=None)
seeds = st.integers(0, 10_000)


class Outcome(NamedTuple):
    loss: float
    gradient: Tensor


def outcome(parts: LossParts, batch: LossBatch, S: Any) -> Outcome:
    """Loss and gradient by logprobs and entropy, one over the other."""
    ell = batch.logprobs.detach().clone().requires_grad_()
    entropy = batch.entropy.detach().clone().requires_grad_()
    extras = {**batch.extras, "entropy": entropy}
    torch.manual_seed(0)
    value = evaluate_loss(parts, replace(batch, logprobs=ell, extras=extras), S).value
    value.backward()
    both = [x.grad if x.grad is not None else torch.zeros_like(x) for x in (ell, entropy)]
    return Outcome(float(value.detach()), torch.stack(both))


def rows_of(batch: LossBatch, chosen: Any, padding: int = 0) -> LossBatch:
    """Some rows in this order, with junk in new columns on the right."""
    chosen = torch.as_tensor(chosen)

    def cut(x: Tensor) -> Tensor:
        x = x[chosen]
        if x.dim() < 2:
            return x
        fill = False if x.dtype == torch.bool else -3.0
        return torch.nn.functional.pad(x, (0, padding), value=fill)

    fields = {name: cut(getattr(batch, name)) for name in FIELDS}
    per_row = {
        name: cut(getattr(batch, name)) for name in ("group", "trajectory", "domain", "rewards")
    }
    extras = {name: cut(x.detach()) for name, x in batch.extras.items()}
    return replace(batch, **fields, **per_row, extras=extras)


def per_row(seed: int) -> Tensor:
    return 5 + torch.rand(ROWS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(a: Outcome, b: Outcome) -> None:
    assert a.loss == pytest.approx(b.loss, rel=1e-9, abs=1e-9)
    assert torch.allclose(a.gradient, b.gradient, rtol=1e-9, atol=1e-12)


def cut_into(parts: LossParts, batch: LossBatch, S: Any, shares: list[list[int]]) -> Outcome:
    loss, gradient = 0.0, torch.zeros(2, ROWS, WIDTH, dtype=torch.float64)
    for share in shares:
        own = S[torch.tensor(share)] if isinstance(S, Tensor) else S
        part = outcome(parts, rows_of(batch, share), own)
        loss += part.loss
        gradient[:, share] = part.gradient
    return Outcome(loss, gradient)


@quick
@given(seeds, st.integers(1, ROWS), st.booleans())
def test_micro_batches_do_not_matter(
    objective_name, corrected_loss, random_batch, seed, size, one_a_row
):
    parts = corrected_loss(objective_name)
    if not parts.habits.micro_batch_invariant:
        pytest.skip("sees the whole update at once, as it declares")
    batch, S = random_batch(seed), per_row(seed) if one_a_row else 12.0
    shares = [list(range(i, min(i + size, ROWS))) for i in range(0, ROWS, size)]
    close(cut_into(parts, batch, S, shares), outcome(parts, batch, S))


@quick
@given(seeds, st.lists(st.integers(0, 2), min_size=ROWS, max_size=ROWS))
def test_data_parallel_ranks_do_not_matter(
    objective_name, corrected_loss, random_batch, seed, rank_of
):
    parts = corrected_loss(objective_name)
    if not parts.habits.micro_batch_invariant:
        pytest.skip("sees the whole update at once, as it declares")
    batch = random_batch(seed)
    shares = [[i for i, r in enumerate(rank_of) if r == rank] for rank in range(3)]
    whole = outcome(parts, batch, 12.0)
    close(cut_into(parts, batch, 12.0, [share for share in shares if share]), whole)


@quick
@given(seeds, st.integers(1, 40))
def test_padding_does_not_matter(objective_name, corrected_loss, random_batch, seed, padding):
    parts, batch = corrected_loss(objective_name), random_batch(seed)
    wide = outcome(parts, rows_of(batch, range(ROWS), padding), 12.0)
    assert (wide.gradient[:, :, WIDTH:] == 0).all()
    close(wide._replace(gradient=wide.gradient[:, :, :WIDTH]), outcome(parts, batch, 12.0))


@quick
@given(seeds, st.permutations(range(ROWS)))
def test_the_order_of_rows_does_not_matter(
    objective_name, corrected_loss, random_batch, seed, order
):
    parts, batch = corrected_loss(objective_name), random_batch(seed)
    if objective_name == "clip_cov":
        pytest.skip("draws its tokens; which ones depends on their order")
    turned = outcome(parts, rows_of(batch, order), 12.0)
    whole = outcome(parts, batch, 12.0)
    close(turned, whole._replace(gradient=whole.gradient[:, order]))


@quick
@given(seeds, st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -7.0]))
def test_masked_tokens_contribute_exactly_nothing(
    objective_name, corrected_loss, random_batch, seed, junk
):
    parts, clean = corrected_loss(objective_name), random_batch(seed)
    hole = ~clean.loss_mask
    fields = {name: getattr(clean, name).detach().masked_fill(hole, junk) for name in FIELDS[:4]}
    extras = {name: x.detach().masked_fill(hole, junk) for name, x in clean.extras.items()}
    dirty = outcome(parts, replace(clean, **fields, extras=extras), 12.0)
    whole = outcome(parts, clean, 12.0)
    assert dirty.loss == whole.loss
    assert torch.equal(dirty.gradient, whole.gradient)
    assert (dirty.gradient[:, hole] == 0).all()


@quick
@given(seeds, st.sampled_from([30.0, 1e3, 1e5]))
def test_extreme_ratios_have_finite_losses_and_gradients(
    objective_name, corrected_loss, random_batch, seed, scale
):
    generator = torch.Generator().manual_seed(seed)

    def far() -> Tensor:
        return -scale * torch.rand(ROWS, WIDTH, generator=generator, dtype=torch.float64)

    batch = replace(
        random_batch(seed),
        logprobs=far(),
        proximal_logprobs=far(),
        rollout_logprobs=far(),
    )
    result = outcome(corrected_loss(objective_name), batch, 12.0)
    assert math.isfinite(result.loss)
    assert result.gradient.isfinite().all()


@quick
@given(seeds, st.sampled_from([0.5, 30.0, 1e4]))
def test_corrections_are_of_a_row_and_finite(correction_name, losses, random_batch, seed, scale):
    parts, batch = losses("mintact", correction=correction_name), random_batch(seed)
    batch = replace(batch, rollout_logprobs=batch.rollout_logprobs * scale)
    whole = outcome(parts, batch, 12.0)
    assert whole.gradient.isfinite().all()
    close(cut_into(parts, batch, 12.0, [[0, 1, 2], [3], [4, 5, 6, 7]]), whole)
    turned = outcome(parts, rows_of(batch, range(ROWS), 9), 12.0)
    close(turned._replace(gradient=turned.gradient[:, :, :WIDTH]), whole)


STOPPED = {"cispo", "cispo_bound", "gspo", "topr"}
"""A stop-gradient is part of the formula: numeric differences see what it hides. The golden
numbers hold their gradients."""


def test_the_gradient_is_the_numeric_one(objective_name, corrected_loss, random_batch):
    if objective_name in STOPPED:
        pytest.skip("stops a gradient by design")
    parts, batch = corrected_loss(objective_name), random_batch(11, 3, 3)

    def loss(ell: Tensor, entropy: Tensor) -> Tensor:
        torch.manual_seed(0)
        extras = {**batch.extras, "entropy": entropy}
        return evaluate_loss(parts, replace(batch, logprobs=ell, extras=extras), 12.0).value

    assert torch.autograd.gradcheck(loss, (batch.logprobs, batch.entropy), eps=1e-7, atol=1e-6)


FAILED = (2, 7, 11)


def test_three_failures_of_sixteen_leave_the_others_bit_for_bit(
    objective_name, corrected_loss, random_batch
):
    parts = corrected_loss(objective_name)
    if not parts.habits.micro_batch_invariant:
        pytest.skip("sees the whole update at once, as it declares")
    whole = random_batch(5, 16)
    mask = whole.loss_mask.clone()
    mask[list(FAILED)] = False
    rest = replace(whole, loss_mask=mask)
    refs = [RowRef(str(i), "", str(i // 8), "web", 1.0) for i in range(16)]
    failed = [replace(ref, live=i not in FAILED) for i, ref in enumerate(refs)]
    S = [
        evaluate_normaliser(parts, reward_batch(rows, [[0]] * 16, group_size=8, length_cap=64))
        for rows in (refs, failed)
    ]
    assert S[0] == S[1] == 16 * 64
    left = torch.tensor([i not in FAILED for i in range(16)])
    a, b = (outcome(parts, batch, S[0]).gradient for batch in (whole, rest))
    assert torch.equal(a[:, left], b[:, left])
    assert (b[:, ~left] == 0).all()
    tokens = [surrogate(parts, batch)[left] for batch in (whole, rest)]
    assert torch.equal(*tokens)


def surrogate(parts: LossParts, batch: LossBatch) -> Tensor:
    """The loss of each token: corrected, masked, over S."""
    result = parts.objective(batch)
    value = result[0] if isinstance(result, tuple) else result
    weight = parts.correction(batch.proximal_logprobs, batch.rollout_logprobs, batch.loss_mask)
    return (value * weight).masked_fill(~batch.loss_mask, 0.0) / (16 * 64)


def test_a_wrong_shape_names_the_objective_and_the_field(objective_name, losses, random_batch):
    batch = random_batch(1)
    wrong = replace(batch, proximal_logprobs=batch.proximal_logprobs[:, :4])
    message = (
        rf"^objective '{objective_name}': proximal_logprobs is \[8, 4\] for a batch of \[8, 5\]"
    )
    with pytest.raises(PluginError, match=message) as caught:
        evaluate_loss(losses(objective_name), wrong, 1.0)
    assert "\n" not in str(caught.value)


def test_an_input_that_is_not_finite_names_the_objective_and_the_field(
    objective_name, losses, random_batch
):
    batch = random_batch(1)
    row, token = batch.loss_mask.nonzero()[3].tolist()
    roll = batch.rollout_logprobs.clone()
    roll[row, token] = math.nan
    count = int(batch.loss_mask.sum())
    message = (
        rf"^objective '{objective_name}': rollout_logprobs is not finite at 1 of {count} places"
    )
    with pytest.raises(PluginError, match=message):
        evaluate_loss(losses(objective_name), replace(batch, rollout_logprobs=roll), 1.0)


def test_an_unknown_parameter_names_the_objective(objective_name, losses):
    with pytest.raises(
        ConfigurationError,
        match=f"^objective.objective: objective '{objective_name}': unknown parameter 'clip_hgih'",
    ):
        losses(objective_name, {"clip_hgih": 1.0})


def test_an_objective_with_its_own_weight_refuses_a_second(losses):
    for name in ("decoupled_ppo", "topr", "dppo_tv"):
        with pytest.raises(ConfigurationError, match="corrects for the rollout policy itself"):
            losses(name, correction="truncate")


def test_a_term_named_twice_is_refused(losses):
    with pytest.raises(ConfigurationError, match="'kl_k3' is named twice"):
        losses("mintact", terms=[{"name": "kl_k3"}, {"name": "kl_k3"}])


def test_every_preset_is_complete_and_gives_a_gradient(preset_name, random_batch):
    from mintact_platform.registry.names import Registry
    from mintact_platform.training.objective import compose

    parts = compose(Registry.discover(), {"preset": preset_name})
    assert outcome(parts, random_batch(3), per_row(3)).gradient.abs().sum() > 0
