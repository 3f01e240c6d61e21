"""What a run file names, looked up and made on trial; each refusal begins with its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mintact_platform.config import JudgePlugin, Plugin, RunConfig
from mintact_platform.errors import ConfigurationError, PluginError, about
from mintact_platform.judging.named import check_judge
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.registry import parameters
from mintact_platform.registry.names import Registry
from mintact_platform.registry.signatures import takes


def known(
    registry: Registry,
    kind: str,
    name: str,
    params: Mapping[str, Any],
    *,
    key: str,
    beside: str = "",
) -> Callable[..., Any]:
    """A target with its parameters bound.

    Args:
        registry: installed plugins.
        kind: of the target.
        name: registered name, or `module:attribute`.
        params: its parameters.
        key: where the name stands in the run file.
        beside: where the parameters stand, if not under the same key.

    Raises:
        PluginError: a name nobody registers, a target that cannot be used.
        ConfigurationError: a wrong parameter.
    """
    with about(key):
        target = registry.get(kind, name)
    with about(beside or key):
        return parameters.bind(target, params, where=named(kind, name))


def trainer(registry: Registry, name: str, params: Mapping[str, Any]) -> Callable[[], Any]:
    """The factory of a trainer; it is made in a process of its own, never here.

    Raises:
        PluginError: see `known`; or it cannot be called with its parameters alone.
        ConfigurationError: see `known`.
    """
    keys = {"key": "trainer.name", "beside": "trainer.params"}
    factory = known(registry, "trainers", name, params, **keys)
    if not takes(factory, 0):
        raise PluginError(
            "needs more than its parameters",
            where=f"trainer.name: {named('trainers', name)}",
            next="parameters are keyword-only: def trainer(*, device: str = 'cpu')",
        )
    return factory


def supervised_params(registry: Registry, config: RunConfig) -> dict[str, Any]:
    """What every supervised step is asked with, checked where the trainer says what it takes.

    Raises:
        ConfigurationError: a wrong parameter.
    """
    params = {"betas": list(config.sft.betas), **config.sft.params}
    trainer = config.trainer.name
    step = getattr(registry.get("trainers", trainer), "supervised_params", None)
    if step is not None:
        with about("sft.params"):
            parameters.check(step, params, where=named("trainers", trainer))
    return params


def judge(choice: JudgePlugin, registry: Registry, *, key: str) -> Callable[..., Any]:
    """A judge, made once on trial: a key or a nested name that is missing is told now.

    Raises:
        PluginError: see `known`; or it cannot be made.
        ConfigurationError: see `known`; or it cannot be called as a judge, or not be cached.
    """
    target = known(registry, "judges", choice.name, choice.params, key=key)
    with about(key):
        trial = JudgeRunner(target, name=choice.name, deadline=1.0)
        check_judge(trial)
    if choice.cache and not trial.cacheable:
        raise ConfigurationError(
            f"judge {choice.name!r} does not declare its verdicts cacheable",
            where=f"{key}.cache",
            next="leave cache out, or declare it with @mintact_platform.judge(cacheable=True)",
        )
    return target


def deciding(
    registry: Registry,
    kind: str,
    choice: Plugin,
    quotas: Mapping[str, int],
    *,
    key: str,
    method: str,
) -> Callable[..., Any]:
    """What decides over quotas or producers, made once on trial where there are any.

    Raises:
        PluginError: see `known`; or it cannot be made, or lacks the method.
        ConfigurationError: see `known`.
    """
    target = known(registry, kind, choice.name, choice.params, key=key)
    if quotas:
        with about(key):
            parameters.made(target, quotas, where=named(kind, choice.name), offers=(method,))
    return target


def named(kind: str, name: str) -> str:
    """What it is, for errors."""
    return f"{kind.removesuffix('s')} {name!r}"
