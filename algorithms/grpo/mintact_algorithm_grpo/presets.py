"""Named combinations."""

from __future__ import annotations

from mintact_platform.training.objective import Preset

MINTACT = Preset(advantage="mintact", objective="mintact", correction="truncate")
"""The paper's objective: mean baseline, dual clip, truncated importance weight, fixed S."""

GRPO = Preset(advantage="grpo", objective="ppo_clip")
"""Normalised advantages and PPO's clip, under the fixed S."""
