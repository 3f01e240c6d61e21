"""The conformance kit: what a plugin's own test file calls, ten lines of it.

Every check raises `ConformanceError`, an `AssertionError` that says what was checked, what was
seen, where, and how to mend it. Any test runner will do; none is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mintact_platform.testing.action_space import check_action_space as check_action_space
    from mintact_platform.testing.advantage import check_advantage as check_advantage
    from mintact_platform.testing.conformance import ConformanceError as ConformanceError
    from mintact_platform.testing.environment import check_environment as check_environment
    from mintact_platform.testing.judge import check_judge as check_judge
    from mintact_platform.testing.objective import check_objective as check_objective
    from mintact_platform.testing.trajectories import sample_trajectory as sample_trajectory

_PUBLIC = {
    "ConformanceError": "conformance",
    "check_action_space": "action_space",
    "check_advantage": "advantage",
    "check_environment": "environment",
    "check_judge": "judge",
    "check_objective": "objective",
    "sample_trajectory": "trajectories",
}

__all__ = [
    "ConformanceError",
    "check_action_space",
    "check_advantage",
    "check_environment",
    "check_judge",
    "check_objective",
    "sample_trajectory",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
