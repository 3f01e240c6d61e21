"""Plugin module: rewards that the environment itself can tell, without a model's opinion."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets


@hookimpl
def register_judges() -> Targets:
    """`state` reads the final state check, `environment_return` the summed step rewards."""
    judges = "mintact_reward_state.judges"
    return {"state": f"{judges}:state", "environment_return": f"{judges}:environment_return"}
