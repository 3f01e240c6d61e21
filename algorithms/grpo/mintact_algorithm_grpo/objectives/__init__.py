"""Per-token surrogates to minimise, `[rows, tokens]`; the core masks, corrects, sums, divides."""

from mintact_algorithm_grpo.objectives.cispo import cispo, cispo_bound
from mintact_algorithm_grpo.objectives.clip import (
    clip_higher,
    decoupled_ppo,
    dual_clip,
    mintact,
    ppo_clip,
)
from mintact_algorithm_grpo.objectives.covariance import clip_cov, kl_cov
from mintact_algorithm_grpo.objectives.likelihood import reinforce, sft
from mintact_algorithm_grpo.objectives.off_policy import dppo_tv, dro, kimi, topr
from mintact_algorithm_grpo.objectives.penalties import entropy_bonus, kl_k1, kl_k2, kl_k3
from mintact_algorithm_grpo.objectives.sapo import sapo
from mintact_algorithm_grpo.objectives.sequence import gmpo, gspo, gspo_sequence, opsm

__all__ = [
    "cispo",
    "cispo_bound",
    "clip_cov",
    "clip_higher",
    "decoupled_ppo",
    "dppo_tv",
    "dro",
    "dual_clip",
    "entropy_bonus",
    "gmpo",
    "gspo",
    "gspo_sequence",
    "kimi",
    "kl_cov",
    "kl_k1",
    "kl_k2",
    "kl_k3",
    "mintact",
    "opsm",
    "ppo_clip",
    "reinforce",
    "sapo",
    "sft",
    "topr",
]
