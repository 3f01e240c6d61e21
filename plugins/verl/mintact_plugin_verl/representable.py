"""Which objectives verl can run, and under which name; imports neither verl nor torch."""

from __future__ import annotations

from typing import Any

from mintact_platform.errors import ConfigurationError
from mintact_platform.training.objective import habits_of

PREFIX = "mintact_"
"""Every name of ours in verl begins so."""

_INSTEAD = {
    "entropy": "verl adds an entropy bonus of its own: actor_rollout_ref.actor.entropy_coeff",
    "reference_logprobs": "verl adds a KL term of its own: actor_rollout_ref.actor.use_kl_loss",
}


def verl_name(name: str) -> str:
    """The name in verl's registries."""
    return PREFIX + name


def refusal(name: str, function: Any) -> ConfigurationError | None:
    """Why verl cannot run an objective, None when it can.

    verl calls a policy loss once a micro-batch with the log-probabilities of two policies; it has
    no room for what else an objective may declare.
    """
    habits, where = habits_of(function), f"objective {name!r} in verl"
    for need in sorted(habits.needs):
        return ConfigurationError(
            f"it needs {need}, which verl does not hand to a policy loss",
            where=where,
            next=_INSTEAD.get(need, ""),
        )
    if habits.correction == "own":
        return ConfigurationError(
            "it corrects for the rollout policy itself, whose log-probabilities verl does not hand "
            "to a policy loss",
            where=where,
            next="verl's own correction is algorithm.rollout_correction",
        )
    if not habits.micro_batch_invariant:
        return ConfigurationError(
            "it must see the whole update at once, and verl calls it for every micro-batch",
            where=where,
        )
    return None
