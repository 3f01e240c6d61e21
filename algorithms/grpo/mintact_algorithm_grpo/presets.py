"""Named combinations, as published; whatever a paper does besides the loss is not in here."""

from __future__ import annotations

from mintact_platform.training.objective import Preset

MINTACT = Preset(
    advantage="mintact",
    objective="mintact",
    correction="truncate",
    about="The paper's objective: mean baseline, dual clip, truncated weight, constant S. MintAct.",
)

GRPO = Preset(
    advantage="grpo",
    objective="ppo_clip",
    normaliser="seq_mean_token_mean",
    about="Normalised advantages, PPO's clip, each response weighs the same. arXiv 2402.03300.",
)

DR_GRPO = Preset(
    advantage="dr_grpo",
    objective="ppo_clip",
    about="GRPO without division by deviation or length. Liu et al. 2025, arXiv 2503.20783.",
)

DAPO = Preset(
    advantage="dapo",
    objective="clip_higher",
    normaliser="token_mean",
    about="Clip-higher, mean over tokens, overlong shaping. Yu et al. 2025, arXiv 2503.14476.",
)

GSPO = Preset(
    advantage="grpo",
    objective="gspo",
    normaliser="seq_mean_token_mean",
    about="The ratio of a sequence instead of a token. Zheng et al. 2025, arXiv 2507.18071.",
)

GMPO = Preset(
    advantage="grpo",
    objective="gmpo",
    normaliser="seq_mean_token_mean",
    about="The geometric mean of clipped token ratios. Zhao et al. 2025, arXiv 2507.20673.",
)

CISPO = Preset(
    advantage="grpo",
    objective="cispo",
    normaliser="token_mean",
    about="Clipped weights, no clipped tokens. MiniMax 2025, arXiv 2506.13585.",
)

SAPO = Preset(
    advantage="grpo",
    objective="sapo",
    normaliser="seq_mean_token_mean",
    about="A soft gate instead of a clip. Gao et al. 2025, arXiv 2511.20347.",
)

RLOO = Preset(
    advantage="rloo",
    objective="reinforce",
    normaliser="seq_mean_token_sum",
    about="REINFORCE with a leave-one-out baseline. Ahmadian et al. 2024, arXiv 2402.14740.",
)

OPO = Preset(
    advantage="opo",
    objective="reinforce",
    normaliser="token_mean",
    about="REINFORCE with a length-weighted baseline. Hao et al. 2025, arXiv 2505.23585.",
)

REINFORCE_PP = Preset(
    advantage="reinforce_pp",
    objective="ppo_clip",
    normaliser="token_mean",
    about="Returns whitened over the step, PPO's clip. Hu et al. 2025, arXiv 2501.03262.",
)

REINFORCE_PP_BASELINE = Preset(
    advantage="reinforce_pp_baseline",
    objective="ppo_clip",
    normaliser="token_mean",
    about="REINFORCE++ on group-centred rewards. Hu et al. 2025, arXiv 2501.03262.",
)

DECOUPLED_PPO = Preset(
    advantage="grpo",
    objective="decoupled_ppo",
    normaliser="token_mean",
    about="PPO around the proximal policy, for stale samples. AReaL, arXiv 2505.24298.",
)

RAFT = Preset(
    advantage="rejection",
    objective="reinforce",
    normaliser="token_mean",
    params={"advantage": {"best_only": True}},
    about="Cross-entropy on the best of each group. Dong et al. 2023, arXiv 2304.06767.",
)

RFT = Preset(
    advantage="rejection",
    objective="reinforce",
    normaliser="token_mean",
    about="Cross-entropy on every accepted sample. Yuan et al. 2023, arXiv 2308.01825.",
)
