from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from mintact_plugin_torch.trainer import TorchTrainer

from mintact_platform.errors import PluginError, TrainerError
from mintact_platform.storage import trajectories
from mintact_platform.training.objective import LossBatch, habits_of, objective

Weights = Callable[[TorchTrainer], dict[str, Any]]


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def close(a: dict[str, Any], b: dict[str, Any], tolerance: float) -> bool:
    return all(torch.allclose(a[name], b[name], atol=tolerance, rtol=0) for name in a)


def test_a_step_moves_the_weights_and_reports_every_domain(run: Any, weights_of: Weights) -> None:
    trainer = run.started()
    before = weights_of(trainer)
    report = trainer.step(run.request(scorer=trainer))
    assert not same(before, weights_of(trainer))
    assert report.grad_norm > 0
    assert report.tokens > 0
    assert set(report.metrics["entropy"]) == {"", "mobile", "web"}
    for name in ("clip_low", "clip_high", "clip_dual", "importance_weight", "engine_gap"):
        assert name in report.metrics
    assert report.metrics["engine_gap"][""] == pytest.approx(0.25, abs=0.1)


def test_a_recorded_batch_repeats_bit_for_bit_from_a_checkpoint(
    run: Any, weights_of: Weights
) -> None:
    trainer = run.started()
    first, second = run.request(scorer=trainer), run.request(step=2, scorer=trainer)
    trainer.step(first)
    trainer.save("checkpoints/1", step=1)
    report, after = trainer.step(second), weights_of(trainer)
    assert trainer.load("checkpoints/1") == 1
    again = trainer.step(second)
    assert (again.loss, again.grad_norm) == (report.loss, report.grad_norm)
    assert again.metrics == report.metrics
    assert same(after, weights_of(trainer))


def test_the_micro_batch_budget_does_not_change_the_step(run: Any, weights_of: Weights) -> None:
    request = run.request(scorer=run.started())
    reports, weights = [], []
    for budget in (1, 100, 100_000):
        trainer = run.started({"micro_batch_tokens": budget})
        reports.append(trainer.step(request))
        weights.append(weights_of(trainer))
    for report in reports[1:]:
        assert report.loss == pytest.approx(reports[0].loss, abs=1e-5)
        assert report.grad_norm == pytest.approx(reports[0].grad_norm, abs=1e-5)
        assert report.tokens == reports[0].tokens
        assert report.metrics["clip_high"] == reports[0].metrics["clip_high"]


def test_the_gradient_does_not_depend_on_the_micro_batch_budget(run: Any) -> None:
    request = run.request(scorer=run.started())
    gradients = []
    for budget in (1, 100_000):
        trainer = run.started({"micro_batch_tokens": budget})
        gradients.append(gradient_of(trainer, request))
    assert close(*gradients, tolerance=1e-5)


def test_the_order_of_members_does_not_matter(run: Any) -> None:
    request = run.request(scorer=run.started())
    turned = replace(request, rows=tuple(reversed(request.rows)))
    reports = [run.started().step(r) for r in (request, turned)]
    assert reports[0].loss == pytest.approx(reports[1].loss, abs=1e-6)


def test_masked_members_are_never_read_and_do_not_change_the_loss(run: Any) -> None:
    request = run.request(scorer=run.started())
    rows = [
        replace(row, path="nowhere", reward=5.0) if not row.live else row for row in request.rows
    ]
    a, b = (run.started().step(r) for r in (request, replace(request, rows=tuple(rows))))
    assert (a.loss, a.grad_norm) == (b.loss, b.grad_norm)


def test_right_after_a_push_the_ratio_is_one(run: Any) -> None:
    trainer = run.started()
    report = trainer.step(run.request(scorer=trainer))
    assert report.metrics["ratio"][""] == report.metrics["ratio_max"][""] == 1.0


def test_the_proximal_policy_is_the_deployed_one_until_the_next_push(run: Any) -> None:
    trainer = run.started()
    one, two = run.request(scorer=trainer, noise=0.0), run.request(2, scorer=trainer, noise=0.0)
    trainer.step(one)
    report = trainer.step(two)
    # θ has moved, π_prox has not: rollout log-probabilities came from the very deployed weights
    assert report.metrics["ratio"][""] != 1.0
    assert report.metrics["rollout_gap_max"][""] < 1e-5
    trainer.export(1, "weights/1")
    trainer.confirm(1)
    with pytest.raises(TrainerError, match=r"asked for π_prox of version 0; version 1 is deployed"):
        trainer.step(run.request(3, scorer=trainer))
    report = trainer.step(run.request(3, scorer=trainer, prox_version=1))
    assert report.metrics["ratio_max"][""] == 1.0


def test_computing_the_proximal_policy_leaves_the_weights_alone(
    run: Any, weights_of: Weights
) -> None:
    trainer = run.started({"lr": 1e-3})
    trainer.step(run.request(scorer=trainer))
    before = weights_of(trainer)
    trainer.optimiser.step = lambda lr, betas=None: 0.0
    trainer.step(run.request(2, scorer=trainer))
    assert same(before, weights_of(trainer))


def test_prox_current_and_behaviour(run: Any) -> None:
    scorer = run.started()
    one, two = run.request(scorer=scorer), run.request(2, scorer=scorer)
    current, behaviour = run.started(prox="current"), run.started(prox="behaviour")
    for trainer in (current, behaviour):
        trainer.step(one)
    assert current.step(two).metrics["ratio_max"][""] == 1.0
    report = behaviour.step(two)
    assert report.metrics["rollout_gap_max"][""] == 0.0
    assert report.metrics["importance_weight"][""] == 1.0


def test_current_means_the_policy_the_step_began_with(run: Any) -> None:
    trainer = run.started({"updates": 3}, prox="current")
    report = trainer.step(run.request(scorer=trainer))
    assert report.metrics["ratio_max"][""] != 1.0


def test_updates_are_split_by_whole_groups(run: Any) -> None:
    trainer = run.started({"updates": 3})
    moved = []
    step = trainer.optimiser.step
    trainer.optimiser.step = lambda lr, betas=None: moved.append(lr) or step(lr, betas)
    trainer.step(run.request(scorer=trainer))
    assert len(moved) == 3


def test_a_group_without_live_members_makes_no_update(run: Any, weights_of: Weights) -> None:
    trainer = run.started()
    request = run.request(groups=1)
    rows = tuple(replace(row, live=False, path="") for row in request.rows)
    before = weights_of(trainer)
    report = trainer.step(replace(request, rows=rows))
    assert (report.loss, report.grad_norm, report.tokens) == (0.0, 0.0, 0)
    assert same(before, weights_of(trainer))


def test_a_step_is_never_trained_twice(run: Any) -> None:
    trainer = run.started()
    request = run.request(scorer=trainer)
    trainer.step(request)
    with pytest.raises(TrainerError, match="trained already"):
        trainer.step(request)


def test_the_learning_rate_warms_up(run: Any) -> None:
    trainer = run.started({"warmup": 4, "lr": 1e-3})
    rates = []
    trainer.optimiser.step = lambda lr, betas=None: rates.append(lr) or 1.0
    for step in (1, 2, 8):
        trainer.step(run.request(step, groups=1))
    assert rates == [pytest.approx(2.5e-4), pytest.approx(5e-4), 1e-3]


def test_a_gradient_that_is_not_finite_leaves_the_weights(run: Any, weights_of: Weights) -> None:
    trainer = run.started()
    before = weights_of(trainer)

    def broken(batch: LossBatch) -> torch.Tensor:
        return (batch.logprobs - batch.logprobs).sqrt()

    trainer.parts = replace(trainer.parts, objective=broken)
    with pytest.raises(TrainerError, match="gradient norm is nan"):
        trainer.step(run.request(scorer=trainer))
    assert same(before, weights_of(trainer))


def test_a_failure_between_two_updates_asks_for_a_checkpoint(run: Any) -> None:
    trainer = run.started({"updates": 2})
    trainer.save("checkpoints/0", step=0)
    calls = []

    def once(batch: LossBatch) -> torch.Tensor:
        calls.append(1)
        return -batch.logprobs if len(calls) == 1 else batch.nothing

    sound = trainer.parts
    trainer.parts = replace(sound, objective=once)
    request = run.request(scorer=trainer)
    with pytest.raises(PluginError, match="no field 'nothing'"):
        trainer.step(request)
    trainer.parts = sound
    with pytest.raises(TrainerError, match="failed between two updates; load a checkpoint"):
        trainer.step(request)
    trainer.load("checkpoints/0")
    trainer.step(request)


def gradient_of(trainer: TorchTrainer, request: Any) -> dict[str, Any]:
    held = {}

    def keep(lr: float, betas: Any = None) -> float:
        for name, parameter in trainer.policy.model.named_parameters():
            held[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        held.update({name: gradient.clone() for name, gradient in held.items()})
        return 1.0

    trainer.optimiser.step = keep
    trainer.step(request)
    return held


def test_a_loss_that_needs_the_whole_update_sees_it_whatever_the_budget(run: Any) -> None:
    @objective(needs={"entropy", "reference_logprobs"}, micro_batch_invariant=False)
    def loss(batch: LossBatch) -> torch.Tensor:
        mean = batch.logprobs.sum() / batch.loss_mask.sum()
        drift = batch.logprobs - batch.reference_logprobs
        return -batch.advantages * (batch.logprobs - mean) + drift.square() - batch.entropy * mean

    request = run.request(scorer=run.started())
    gradients = []
    for budget in (1, 100_000):
        trainer = run.started({"micro_batch_tokens": budget})
        trainer.parts = replace(trainer.parts, objective=loss, habits=habits_of(loss))
        trainer.reference = trainer.deployed
        gradients.append(gradient_of(trainer, request))
    assert close(*gradients, tolerance=1e-5)


def test_all_segments_are_trained_where_asked_and_s_counts_trajectories(run: Any) -> None:
    trainer = run.started()
    request = run.request(groups=1, scorer=trainer)
    for row in request.rows:
        if row.live:
            whole = trajectories.load(row.path)
            run.store.save(replace(whole, segments=whole.segments * 2))
    once, twice = (run.started(segments=s).step(request) for s in ("longest", "all"))
    assert twice.tokens == 2 * once.tokens
    assert twice.loss == pytest.approx(2 * once.loss, rel=1e-5)
