"""Plugin module: judges that show a rollout to a vision-language model."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets


@hookimpl
def register_judges() -> Targets:
    """`vlm` asks for one verdict, `rubric` for a pass or fail on each of several criteria."""
    return {"vlm": "mintact_reward_vlm.vlm:Vlm", "rubric": "mintact_reward_vlm.rubric:Rubric"}
