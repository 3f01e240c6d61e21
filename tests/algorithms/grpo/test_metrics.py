"""What every objective reports: clip fractions, weights, gaps, per domain."""

from __future__ import annotations

import torch

from mintact_platform.training.loss import evaluate_loss, summarise

ELL = [[-1.0, -0.5, -2.0], [-1.0, -0.2, -3.0]]
PROX = [[-1.1, -1.0, -1.7], [-1.2, -1.5, -2.5]]
ROLL = [[-1.0, -2.0, -1.7], [-1.2, -1.6, -2.0]]
A = [0.5, -0.5]
MASK = [[1, 1, 1], [1, 1, 1]]


def test_every_objective_reports_weights_gaps_and_domains(
    objective_name, corrected_loss, random_batch
):
    metrics = summarise([evaluate_loss(corrected_loss(objective_name), random_batch(2), 8.0)])
    for name in (
        "ratio",
        "importance_weight",
        "importance_weight_max",
        "importance_weight_truncated",
        "effective_sample_size",
        "rollout_gap",
        "surprise",
    ):
        assert set(metrics[name]) == {"", "web", "tools"}
        assert all(torch.tensor(list(metrics[name].values())).isfinite())


def test_clip_fractions_are_of_tokens_by_domain(losses, batch_of):
    batch = batch_of(ELL, PROX, ROLL, A, MASK)
    metrics = summarise([evaluate_loss(losses("mintact", correction="truncate"), batch, 8.0)])
    # r is 1.11, 1.65, 0.74 for Â > 0 and 1.22, 3.67, 0.61 for Â < 0
    assert metrics["clip_high"] == {"": 1 / 6, "web": 1 / 3, "tools": 0.0}
    assert metrics["clip_low"] == {"": 1 / 6, "web": 0.0, "tools": 1 / 3}
    assert metrics["clip_dual"] == {"": 1 / 6, "web": 0.0, "tools": 1 / 3}
    assert metrics["importance_weight_truncated"] == {"": 1 / 6, "web": 1 / 3, "tools": 0.0}
    assert metrics["importance_weight_max"][""] == 2.0


def test_a_weight_of_the_objective_s_own_is_the_one_reported(losses, batch_of):
    batch = batch_of(ELL, PROX, ROLL, A, MASK)
    loss = evaluate_loss(losses("decoupled_ppo", {"cap": 2.0}), batch, 8.0)
    expected = (batch.proximal_logprobs - batch.rollout_logprobs).exp().flatten()
    expected[expected > 2] = 0.0
    assert torch.allclose(loss.tokens["importance_weight"].double(), expected, atol=1e-7)
    assert loss.tokens["importance_weight_truncated"].tolist() == [0, 1, 0, 0, 0, 0]


def test_a_masked_sequence_is_reported_as_truncated(losses, batch_of):
    batch = batch_of(ELL, PROX, ROLL, A, MASK)
    loss = evaluate_loss(losses("mintact", correction="mask_geometric"), batch, 8.0)
    assert loss.tokens["importance_weight_truncated"].tolist() == [1.0] * 6
    assert loss.tokens["importance_weight"].tolist() == [0.0] * 6
