"""A second loss beside the trainer's own: measured, never taken."""

from __future__ import annotations

import math

import pytest

from mintact_platform.config import ObjectiveSection
from mintact_platform.errors import ConfigurationError, PluginNotFound


def section(**values):
    return ObjectiveSection(length_cap=64, **values).model_dump(mode="json")


@pytest.mark.parametrize(
    "objective",
    [{}, {"preset": "gspo"}, {"preset": "mintact", "prox": "current"}],
    ids=["mintact", "gspo", "current"],
)
@pytest.mark.parametrize("updates", [1, 2])
def test_the_own_loss_compared_with_itself_has_cosine_one_and_the_same_bits(
    run, objective, updates
):
    trainer = run.started({"updates": updates}, **objective)
    request = run.request(scorer=trainer)
    compared = trainer.compare(request, section(**objective))
    assert compared.cosine == {"mobile": 1.0, "web": 1.0, "": 1.0}
    assert compared.own == compared.other
    assert compared.own.loss[""] == compared.report.loss
    assert compared.own.grad_norm[""] == pytest.approx(compared.report.grad_norm, rel=1e-4)
    assert compared.own.metrics == compared.report.metrics


def test_a_compared_step_moves_the_weights_as_the_step_alone_does(run, weights_of):
    alone, beside = run.started({"updates": 2}), run.started({"updates": 2})
    request = run.request(scorer=alone)
    report = alone.step(request)
    compared = beside.compare(request, section(preset="cispo", prox="current"))
    one, two = weights_of(alone), weights_of(beside)
    assert all((one[name] == two[name]).all() for name in one)
    assert (compared.report.loss, compared.report.grad_norm) == (report.loss, report.grad_norm)
    assert compared.report.metrics == report.metrics


@pytest.mark.parametrize("other", ["cispo", "gspo", "sapo", "reinforce_pp"])
def test_domains_add_up_to_the_whole(run, other):
    trainer = run.started()
    compared = trainer.compare(run.request(scorer=trainer), section(preset=other))
    for side in (compared.own, compared.other):
        domains = [side.loss["mobile"], side.loss["web"]]
        assert math.fsum(domains) == pytest.approx(side.loss[""], rel=1e-4, abs=1e-7)
    assert all(-1 <= value < 1 for value in compared.cosine.values())


def test_the_opposite_loss_has_the_opposite_gradient(run, monkeypatch, tmp_path):
    (tmp_path / "opposite_loss.py").write_text(
        "def opposite(batch):\n    return batch.advantages * batch.logprobs\n"
        "def plain(batch):\n    return -batch.advantages * batch.logprobs\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    trainer = run.started(objective={"name": "opposite_loss:plain"})
    request = run.request(scorer=trainer)
    compared = trainer.compare(request, section(objective={"name": "opposite_loss:opposite"}))
    assert compared.cosine[""] == pytest.approx(-1)
    assert compared.other.loss[""] == -compared.own.loss[""]


def test_a_loss_that_needs_the_first_weights_gets_them_after_steps_too(run):
    trainer = run.started()
    trainer.step(run.request(scorer=trainer))
    kl = section(terms=[{"name": "kl_k3", "params": {}}])
    compared = trainer.compare(run.request(2, scorer=trainer), kl)
    assert compared.other.metrics["kl_k3"][""] > 0
    assert trainer.compare(run.request(3, scorer=trainer), section()).cosine[""] == 1.0


def test_a_wrong_name_or_parameter_is_refused_before_anything_moves(run, weights_of):
    trainer = run.started()
    before, request = weights_of(trainer), run.request(scorer=trainer)
    with pytest.raises(PluginNotFound):
        trainer.compare(request, section(preset="gpso"))
    with pytest.raises(ConfigurationError):
        trainer.compare(request, section(params={"clip_hi": 1}))
    after = weights_of(trainer)
    assert all((before[name] == after[name]).all() for name in before)
