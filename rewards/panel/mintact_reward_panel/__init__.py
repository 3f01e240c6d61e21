"""Plugin module: judges made of other judges."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets


@hookimpl
def register_judges() -> Targets:
    """`ensemble` lets several judges vote, `process` spreads a reward over the turns."""
    return {
        "ensemble": "mintact_reward_panel.ensemble:Ensemble",
        "process": "mintact_reward_panel.process:Process",
    }
