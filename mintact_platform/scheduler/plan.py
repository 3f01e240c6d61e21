"""Everything a run file names, looked up and checked before anything is created or started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mintact_platform.actions.space import ActionSpace
from mintact_platform.config import (
    DomainSection,
    JudgePlugin,
    ObjectiveSection,
    Plugin,
    RunConfig,
)
from mintact_platform.errors import ConfigurationError, PluginError
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.models.chat import ChatFormat, check_prefix, load_chat
from mintact_platform.models.messages import MessageEngine, speaks_messages
from mintact_platform.models.protocol import sync_modes
from mintact_platform.models.vision import VisionSize
from mintact_platform.records.task import Task
from mintact_platform.registry import parameters
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.bindings import action_space
from mintact_platform.scheduler.tasks import task_set
from mintact_platform.training.objective import compose


@dataclass(frozen=True)
class DomainPlan:
    """A domain's plugins, bound to their parameters, and its tasks."""

    tasks: Sequence[Task]
    space: ActionSpace
    judge: Callable[..., Any]
    judge_name: str


@dataclass(frozen=True)
class Plan:
    """A checked run: calling what is in here cannot fail for a wrong name or parameter.

    Attributes:
        config: the run.
        registry: installed plugins.
        chat: the model's chat format; None where a message engine plays and no model is named.
        vision: geometry of images.
        domains: by name.
        engine: makes the rollout engine.
        mixture: makes the mixture.
        flow: makes the flow control.
        messages: whether the engine speaks messages.
    """

    config: RunConfig
    registry: Registry
    chat: ChatFormat | None
    vision: VisionSize
    domains: Mapping[str, DomainPlan]
    engine: Callable[[], Any]
    mixture: Callable[[Mapping[str, int]], Any]
    flow: Callable[[Mapping[str, int]], Any]
    messages: bool = False


def plan(
    config: RunConfig, registry: Registry, *, domains: bool = True, messages: bool = False
) -> Plan:
    """Look everything up.

    Args:
        config: the run.
        registry: installed plugins.
        domains: whether the run needs one.
        messages: whether an engine may play that speaks messages, not tokens; with one the run
            needs no model, and nothing that trains one.

    Raises:
        ConfigurationError: a missing model, a wrong parameter, a binary an environment needs.
        PluginError: a name no plugin registers, or a required plugin that is missing.
    """
    registry.require(config.required_plugins)
    schedule, rollout = config.schedule, config.rollout
    speaks = speaks_messages(registry.get("rollout_engines", rollout.engine))
    if speaks and not messages:
        raise no_training(rollout.engine)
    chat, vision = _model(config, registry, needed=not speaks)
    if domains and not config.domains:
        raise ConfigurationError(
            "no domain", where="domains", next="add a [domains.<name>] section"
        )
    if not speaks:
        _training(config, registry)
    planned = {
        name: _domain(name, section, registry, config.deadlines.create)
        for name, section in config.domains.items()
    }
    return Plan(
        config=config,
        registry=registry,
        chat=chat,
        vision=vision,
        domains=planned,
        engine=_engine(config, registry, planned, speaks=speaks),
        mixture=_chosen("mixtures", schedule.mixture, registry, config.quotas),
        flow=_chosen("flow_controls", schedule.flow_control, registry, config.quotas),
        messages=speaks,
    )


def no_training(engine: str) -> ConfigurationError:
    """Why a message engine's rollouts cannot be trained on, and what can be done with them."""
    return ConfigurationError(
        f"engine {engine!r} answers in text, training needs the tokens that were sampled",
        where="rollout.engine",
        next="collect demonstrations with `mintact rollout` and learn from them with `mintact sft`",
    )


def _model(
    config: RunConfig, registry: Registry, *, needed: bool
) -> tuple[ChatFormat | None, VisionSize]:
    model = Path(config.model.path)
    if not needed and not config.model.path:
        # sides of any length: what sees the images resizes them as it likes
        return None, VisionSize(patch=1, merge=1, area=config.model.image_area)
    if not config.model.path or not (model / "config.json").is_file():
        raise ConfigurationError(
            f"no model in {config.model.path!r}",
            where="model.path",
            next="give a directory with config.json, model.safetensors and tokenizer.json",
        )
    chat = load_chat(config.model.chat, model, registry)
    check_prefix(chat)
    return chat, VisionSize.read(model, config.model.image_area)


def _engine(
    config: RunConfig, registry: Registry, domains: Mapping[str, DomainPlan], *, speaks: bool
) -> Callable[[], Any]:
    """The rollout engine, made once on trial where it will play."""
    rollout = config.rollout
    engine = _known("rollout_engines", rollout.engine, rollout.params, registry)
    made = None
    if speaks or domains:
        made = parameters.made(engine, where=f"rollout_engine {rollout.engine!r}")
    trial: MessageEngine | None = made if speaks else None
    for name, domain in domains.items():
        if trial is not None and trial.native_tools and not hasattr(domain.space, "describe"):
            raise ConfigurationError(
                f"action space {domain.space.name!r} does not describe its functions",
                where=f"domains.{name}.action_space",
                next="write calls in the text: rollout.params.tools = 'text'",
            )
    return engine


def _training(config: RunConfig, registry: Registry) -> None:
    """Look up what trains."""
    _known("trainers", config.trainer.name, config.trainer.params, registry)
    registry.get("presets", config.objective.preset)
    for part in ("advantage", "objective", "correction", "normaliser"):
        chosen = getattr(config.objective, part)
        if chosen is not None:
            registry.provider(f"{part}s", chosen.name)
    for term in config.objective.terms or ():
        registry.provider("objectives", term.name)
    if _composed(config.objective):
        # its parts load torch, which a preset as it stands is not worth
        compose(registry, config.objective.model_dump(mode="json"))
    _syncs(config, registry)


def _composed(section: ObjectiveSection) -> bool:
    """Whether a run file says more of its objective than the preset."""
    parts = (section.advantage, section.objective, section.correction, section.normaliser)
    return bool(section.params or section.terms or any(parts))


def _syncs(config: RunConfig, registry: Registry) -> None:
    """Refuse a way to synchronise that the rollout engine does not declare."""
    known = sync_modes(registry.get("rollout_engines", config.rollout.engine))
    if config.sync.mode not in known:
        raise ConfigurationError(
            f"engine {config.rollout.engine!r} cannot {config.sync.mode!r}",
            where="sync.mode",
            next=f"it can: {', '.join(known)}",
        )


def _domain(name: str, section: DomainSection, registry: Registry, deadline: float) -> DomainPlan:
    where = f"domains.{name}"
    space = action_space(section, registry, where=where, deadline=deadline)
    judge = _judge(section.judge, registry, where)
    return DomainPlan(task_set(registry, section), space, judge, section.judge.name)


def _judge(choice: JudgePlugin, registry: Registry, where: str) -> Callable[..., Any]:
    """The judge, made once on trial: a key or a nested name that is missing is told now."""
    try:
        target = _known("judges", choice.name, choice.params, registry)
    except PluginError as error:
        raise type(error)(error.what, where=f"{where}.judge", next=error.next) from error
    except ConfigurationError as error:
        at = f"{where}.judge: {error.where}"
        raise ConfigurationError(error.what, where=at, next=error.next) from error
    trial = JudgeRunner(target, name=choice.name, deadline=1.0)
    if not trial.takes_a_rollout():
        raise ConfigurationError(
            f"judge {choice.name!r} cannot be called with (task, trajectory)",
            where=f"{where}.judge",
            next="its parameters are keyword-only: def judge(task, trajectory, *, strict=True)",
        )
    if choice.cache and not trial.cacheable:
        raise ConfigurationError(
            f"judge {choice.name!r} does not declare its verdicts cacheable",
            where=f"{where}.judge.cache",
            next="leave cache out, or declare it with @mintact_platform.judge(cacheable=True)",
        )
    return target


def _chosen(
    kind: str, choice: Plugin, registry: Registry, quotas: Mapping[str, int]
) -> Callable[..., Any]:
    """What decides over quotas or producers, made once on trial where there are any."""
    target = _known(kind, choice.name, choice.params, registry)
    if quotas:
        parameters.made(target, quotas, where=f"{kind.removesuffix('s')} {choice.name!r}")
    return target


def _known(
    kind: str, name: str, params: Mapping[str, Any], registry: Registry
) -> Callable[..., Any]:
    target = registry.get(kind, name)
    return parameters.bind(target, params, where=f"{kind.removesuffix('s')} {name!r}")
