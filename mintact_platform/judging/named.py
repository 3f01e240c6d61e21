"""From a judge's name to the judge, for whoever asks judges outside a run's plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mintact_platform.config import JudgePlugin
from mintact_platform.errors import ConfigurationError
from mintact_platform.judging.rate import RateLimit
from mintact_platform.judging.recognised import WANTED, why_no_judge
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.registry import parameters
from mintact_platform.registry.names import Registry


def judge_named(
    name: str, params: Mapping[str, Any] | None = None, *, registry: Registry | None = None
) -> Callable[..., Any]:
    """A registered judge, its parameters checked and bound, as `JudgeRunner` takes it.

    Args:
        name: registered name, or `module:attribute`.
        params: its parameters.
        registry: installed plugins; None looks for them.

    Raises:
        PluginError: a name that no plugin registers, or one that cannot be imported.
        ConfigurationError: a wrong parameter.
    """
    registry = registry or Registry.discover()
    return parameters.bind(registry.get("judges", name), params or {}, where=f"judge {name!r}")


def check_judge(runner: JudgeRunner) -> None:
    """Refuse what is called a judge and is none, as far as its signature tells.

    Raises:
        ConfigurationError: naming it, why it is none, and what a judge is.
    """
    if why := why_no_judge(runner.function):
        raise ConfigurationError(f"judge {runner.name!r} {why}", next=WANTED)


def runner_of(choice: JudgePlugin, *, deadline: float, registry: Registry) -> JudgeRunner:
    """A runner for a judge chosen inside another one, with the choice's own limits.

    Args:
        choice: what stands in the run file. The whole is cached, never its parts.
        deadline: seconds of one attempt.
        registry: installed plugins.

    Raises:
        PluginError: see `judge_named`.
        ConfigurationError: see `judge_named` and `check_judge`.
    """
    target = judge_named(choice.name, choice.params, registry=registry)
    runner = JudgeRunner(
        target,
        name=choice.name,
        deadline=deadline,
        retries=choice.retries,
        concurrency=choice.concurrency,
        rate=RateLimit(choice.requests_per_minute),
    )
    check_judge(runner)
    return runner
