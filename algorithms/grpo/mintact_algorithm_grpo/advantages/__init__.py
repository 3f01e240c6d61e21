"""Advantages, `[rows]` or `[rows, tokens]`: what each token is worth, from the group's rewards."""

from mintact_algorithm_grpo.advantages.batch import (
    gpg,
    prpo,
    reinforce_pp,
    reinforce_pp_baseline,
    task_normalised,
)
from mintact_algorithm_grpo.advantages.group import dapo, grpo, maxrl, mintact, opo, reward, rloo
from mintact_algorithm_grpo.advantages.selection import gdpo, grpo_passk, pass_at_k, rejection
from mintact_algorithm_grpo.advantages.turns import turn_level, turn_weighted

__all__ = [
    "dapo",
    "gdpo",
    "gpg",
    "grpo",
    "grpo_passk",
    "maxrl",
    "mintact",
    "opo",
    "pass_at_k",
    "prpo",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "rejection",
    "reward",
    "rloo",
    "task_normalised",
    "turn_level",
    "turn_weighted",
]
