"""Objectives in a real training step: terms, whole updates, a third party's by its name."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from mintact_platform import processes
from mintact_platform.training.process import TrainerProcess

THIRD_PARTY = Path(__file__).parents[3] / "third_party"
TERMS = [
    {"name": "kl_k3", "params": {"coefficient": 0.1}},
    {"name": "entropy_bonus", "params": {"coefficient": 0.1}},
]


def gradient_of(trainer: Any, request: Any) -> dict[str, Any]:
    held = {}

    def keep(lr: float, betas: Any = None) -> float:
        for name, parameter in trainer.policy.model.named_parameters():
            held[name] = parameter.grad.clone() if parameter.grad is not None else None
        return 1.0

    trainer.optimiser.step = keep
    trainer.step(request)
    return {name: gradient for name, gradient in held.items() if gradient is not None}


@pytest.mark.parametrize(
    "section",
    [
        {"preset": "gspo"},
        {"preset": "dapo", "terms": TERMS},
        {"objective": "clip_cov", "params": {"cov_low": -9.0, "cov_high": 9.0, "ratio": 1.0}},
        {"advantage": "turn_weighted", "normaliser": "seq_mean_token_mean"},
    ],
    ids=["gspo", "dapo with terms", "clip_cov", "turns"],
)
def test_the_micro_batch_budget_does_not_change_the_gradient(run: Any, section: Any) -> None:
    request = run.request(scorer=run.started())
    one, many = (
        gradient_of(run.started({"micro_batch_tokens": budget}, **section), request)
        for budget in (100_000, 1)
    )
    assert one.keys() == many.keys()
    for name, gradient in one.items():
        assert torch.allclose(gradient, many[name], atol=1e-5, rtol=0), name


def test_a_normaliser_of_each_trajectory_weighs_responses_the_same(run: Any) -> None:
    trainer = run.started(preset="grpo", objective="sft")
    request = run.request(groups=2, scorer=trainer)
    report = trainer.step(request)
    means = []
    for row in request.rows:
        if row.live:
            scores = trainer.score(row.path, temperature=0.7)["logprobs"]
            means.append(-sum(scores[0]) / len(scores[0]))
    assert report.loss == pytest.approx(sum(means) / len(request.rows), rel=1e-4)


@pytest.fixture
def acme_cispo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The third party's package on the path, with the metadata that its wheel would have."""
    info = tmp_path / "acme_cispo-0.4.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-cispo\nVersion: 0.4.0\n")
    (info / "entry_points.txt").write_text("[mintact]\ncispo = acme_cispo\n")
    (tmp_path / "acme_cispo").symlink_to(THIRD_PARTY / "acme_cispo" / "acme_cispo")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    importlib.invalidate_caches()
    return "acme/cispo"


async def test_a_third_party_loss_runs_by_name_in_the_trainer_s_own_process(
    run: Any, acme_cispo: str, tmp_path: Path
) -> None:
    request = run.request(scorer=run.started())
    mark = f"acme-{os.getpid()}"
    trainer = await TrainerProcess.start(
        "torch",
        {},
        run.spec(objective={"name": acme_cispo, "params": {"bound": 1.0}}),
        log=tmp_path / "trainer.log",
        mark=mark,
        deadline=120,
    )
    try:
        report = await trainer.step(request, 120)
    finally:
        await trainer.close()
    assert report.grad_norm > 0
    assert set(report.metrics["acme_bounded"]) == {"", "mobile", "web"}
    assert processes.marked(mark) == []
