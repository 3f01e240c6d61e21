"""Runs inside an interpreter that has verl: our losses in verl's own registries, as JSON.

Everything of ours is found by verl's entry points, configured by verl's own configuration files
and looked up in verl's registries.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import torch
import verl
from hydra import compose, initialize_config_dir
from mintact_plugin_verl.command import rows
from mintact_plugin_verl.presets import overrides
from verl.trainer.ppo import core_algos, rollout_corr_helper
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.metric import AggregationType, Metric

from mintact_platform.registry.names import Registry
from mintact_platform.training.loss import (
    evaluate_advantages,
    evaluate_loss,
    evaluate_normaliser,
)
from mintact_platform.training.objective import LossBatch, RewardBatch
from mintact_platform.training.objective import compose as parts_of

torch.set_num_threads(1)
ROWS, TOKENS = 12, 17
L_CAP = TOKENS
"""What an advantage is told is verl's response length."""


def batch(seed):
    """Log-probabilities of three policies, rewards of groups of four, holes, one failed rollout."""
    random = torch.Generator().manual_seed(seed)

    def draw():
        return torch.rand(ROWS, TOKENS, generator=random, dtype=torch.float64)

    rollout = -3 * draw()
    old = rollout + 2.0 * (draw() - 0.5)
    new = old + 1.5 * (draw() - 0.5)
    mask = draw() < 0.7
    mask[-1] = False
    rewards = torch.zeros(ROWS, TOKENS, dtype=torch.float64)
    rewards[:, -1] = (draw()[:, 0] < 0.5).double()
    return rollout, old, new.requires_grad_(), mask, rewards


def configured(overrides):
    """verl's own configuration with the preset's arguments, and the actor's section of it."""
    folder = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        config = compose("ppo_trainer", [*overrides, *NEEDED])
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    actor.global_batch_info.update(
        dp_size=1,
        batch_num_tokens=None,
        global_batch_size=ROWS,
        loss_scale_factor=actor.loss_scale_factor,
    )
    return config, actor


NEEDED = (
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.model.path=none",
)


def by_verl(config, actor, seed):
    """Loss, gradient and advantages as verl computes them, correction included."""
    rollout, old, new, mask, rewards = batch(seed)
    uid = np.array([f"group {k // 4}" for k in range(ROWS)], dtype=object)
    advantages, _ = core_algos.get_adv_estimator_fn(config.algorithm.adv_estimator)(
        token_level_rewards=rewards, response_mask=mask, config=config.algorithm, index=uid
    )
    section, weights = config.algorithm.rollout_correction, None
    if section.rollout_is is not None:
        weights, _ = rollout_corr_helper.compute_rollout_correction_weights(
            log_ratio=old - rollout,
            response_mask=mask,
            rollout_is=section.rollout_is,
            rollout_is_threshold=section.rollout_is_threshold,
        )
    function = core_algos.get_policy_loss_fn(actor.policy_loss.loss_mode)
    value, metrics = function(
        old_log_prob=old,
        log_prob=new,
        advantages=advantages,
        response_mask=mask,
        loss_agg_mode=actor.loss_agg_mode,
        config=actor,
        rollout_is_weights=weights,
    )
    # as the actor's own loss does with what a policy loss reports
    Metric.from_dict(metrics, aggregation=AggregationType.MEAN)
    return value, torch.autograd.grad(value, new)[0], advantages


def by_us(preset, params, seed):
    """The same by the platform alone."""
    rollout, old, new, mask, rewards = batch(seed)
    section = {"preset": preset, "params": params}
    parts = parts_of(Registry.discover(), section)
    group, domain = torch.arange(ROWS) // 4, torch.zeros(ROWS, dtype=torch.long)
    told = RewardBatch(rewards.sum(1), group, mask.any(1), mask.sum(1), ("",) * ROWS, ROWS, L_CAP)
    advantages = evaluate_advantages(parts, told)
    if advantages.dim() == 1:
        advantages = advantages[:, None] * mask
    else:
        # ours has no holes: token k of a row is the model's own k-th
        own = advantages[told.token_mask]
        advantages = torch.zeros(mask.shape, dtype=torch.float64)
        advantages[mask] = own
    rows = torch.arange(ROWS)
    ours = LossBatch(new, old, rollout, advantages, mask, group, rows, domain)
    value = evaluate_loss(parts, ours, evaluate_normaliser(parts, told)).value
    return value, torch.autograd.grad(value, new)[0], advantages


def largest(one, other):
    """The largest difference of loss, gradient and advantages."""
    return max(float((a - b).detach().abs().max()) for a, b in zip(one, other, strict=True))


def presets():
    """The worst difference of each preset that verl can carry, and of two with parameters."""
    registry = Registry.discover()
    chosen = [(row["name"], {}) for row in rows(registry) if _carried(row)]
    found = {}
    for name, params in [*chosen, ("mintact", {"clip_high": 0.1}), ("gspo", {"clip_low": 0.2})]:
        section = "+actor_rollout_ref.actor.policy_loss.mintact."
        more = [f"{section}{key}={value}" for key, value in params.items()]
        config, actor = configured([*overrides(registry, name, length_cap=L_CAP), *more])
        worst = max(
            largest(by_verl(config, actor, seed), by_us(name, params, seed)) for seed in range(10)
        )
        found[" ".join([name, *map(str, itertools.chain(*params.items()))])] = worst
    return found


def _carried(row):
    return row["kind"] == "preset" and row["refused"] is None


def against_vanilla():
    """Ours and verl's own dual-clip loss with the same numbers, in every reduction."""
    actor_section = "actor_rollout_ref.actor."
    clips = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "clip_ratio_c": 3.0}
    _, actor = configured([f"{actor_section}{key}={value}" for key, value in clips.items()])
    worst = {}
    for mode in ("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean"):
        for seed in range(5):
            _, old, new, mask, _ = batch(seed)
            advantages = torch.randn(ROWS, TOKENS, dtype=torch.float64)
            values = []
            for name in ("vanilla", "mintact_mintact"):
                value, _ = core_algos.get_policy_loss_fn(name)(
                    old_log_prob=old,
                    log_prob=new,
                    advantages=advantages,
                    response_mask=mask,
                    loss_agg_mode=mode,
                    config=actor,
                )
                values.append((value, torch.autograd.grad(value, new)[0]))
            worst[mode] = max(worst.get(mode, 0.0), largest(*values))
    return worst


def refused():
    try:
        core_algos.get_policy_loss_fn("mintact_acme/needy")(1, 2)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


json.dump(
    {
        "verl": verl.__version__,
        "losses": sorted(n for n in core_algos.POLICY_LOSS_REGISTRY if n.startswith("mintact_")),
        "advantages": sorted(
            n for n in core_algos.ADV_ESTIMATOR_REGISTRY if n.startswith("mintact_")
        ),
        "presets": presets(),
        "vanilla": against_vanilla(),
        "refused": refused(),
    },
    sys.stdout,
)
