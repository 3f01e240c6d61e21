"""The open platform on which one visual agent learns phones, desktops, websites and tools.

What plugin authors need is importable from here; everything is loaded on first use, so that
`import mintact_platform` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    import pluggy

    hookimpl = pluggy.HookimplMarker("mintact")
    """Marks a plugin module's function as an implementation of a hook of `hookspecs`."""

    from mintact_platform.actions.space import ActionSpace as ActionSpace
    from mintact_platform.judging.errors import RetryLater as RetryLater
    from mintact_platform.judging.judge import JudgeView as JudgeView
    from mintact_platform.judging.judge import judge as judge
    from mintact_platform.records.outcome import Outcome as Outcome
    from mintact_platform.records.task import Task as Task
    from mintact_platform.records.trajectory import Trajectory as Trajectory
    from mintact_platform.records.verdict import StateCheck as StateCheck
    from mintact_platform.records.verdict import Verdict as Verdict
    from mintact_platform.training.objective import objective as objective

_PUBLIC = {
    "ActionSpace": "mintact_platform.actions.space",
    "JudgeView": "mintact_platform.judging.judge",
    "Outcome": "mintact_platform.records.outcome",
    "RetryLater": "mintact_platform.judging.errors",
    "StateCheck": "mintact_platform.records.verdict",
    "Task": "mintact_platform.records.task",
    "Trajectory": "mintact_platform.records.trajectory",
    "Verdict": "mintact_platform.records.verdict",
    "judge": "mintact_platform.judging.judge",
    "objective": "mintact_platform.training.objective",
}

__all__ = ["__version__", "hookimpl", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name == "hookimpl":
        from pluggy import HookimplMarker

        globals()["hookimpl"] = HookimplMarker("mintact")
        return globals()["hookimpl"]
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
