"""Everything a run file names, looked up and checked before anything is created or started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mintact_platform.actions.space import ActionSpace
from mintact_platform.config import DomainSection, ObjectiveSection, RunConfig
from mintact_platform.errors import ConfigurationError, about
from mintact_platform.models.chat import ChatFormat, check_prefix, load_chat
from mintact_platform.models.messages import MessageEngine, speaks_messages
from mintact_platform.models.protocol import sync_modes
from mintact_platform.models.vision import VisionSize
from mintact_platform.records.task import Task
from mintact_platform.registry import parameters
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler import targets
from mintact_platform.scheduler.bindings import action_space
from mintact_platform.scheduler.tasks import own_tasks
from mintact_platform.training.objective import compose, preset_of

TOKENS = ("start", "generate", "update", "healthy", "close")
"""What a rollout engine offers."""
MESSAGES = ("start", "chat", "close")
"""What an engine offers that speaks messages."""


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
    with about("rollout.engine"):
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
        name: _domain(name, section, registry, config) for name, section in config.domains.items()
    }
    return Plan(
        config=config,
        registry=registry,
        chat=chat,
        vision=vision,
        domains=planned,
        engine=_engine(config, registry, planned, speaks=speaks),
        mixture=targets.deciding(
            registry, "mixtures", schedule.mixture, config.quotas,
            key="schedule.mixture", method="quotas",
        ),
        flow=targets.deciding(
            registry, "flow_controls", schedule.flow_control, config.quotas,
            key="schedule.flow_control", method="may_start",
        ),
        messages=speaks,
    )  # fmt: skip


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
    with about("model.chat"):
        chat = load_chat(config.model.chat, model, registry)
        check_prefix(chat)
    return chat, VisionSize.read(model, config.model.image_area)


def _engine(
    config: RunConfig, registry: Registry, domains: Mapping[str, DomainPlan], *, speaks: bool
) -> Callable[[], Any]:
    """The rollout engine, made once on trial where it will play."""
    rollout = config.rollout
    keys = {"key": "rollout.engine", "beside": "rollout.params"}
    engine = targets.known(registry, "rollout_engines", rollout.engine, rollout.params, **keys)
    if not speaks and not domains:
        return engine
    named = targets.named("rollout_engines", rollout.engine)
    with about("rollout.engine"):
        offers = MESSAGES if speaks else TOKENS
        made = parameters.made(engine, where=named, offers=offers)
    if speaks:
        _described(made, domains)
    else:
        _holds(made, config)
    return engine


def _described(engine: MessageEngine, domains: Mapping[str, DomainPlan]) -> None:
    """Refuse an action space that an engine with a tool interface cannot offer there."""
    for name, domain in domains.items():
        if engine.native_tools and not hasattr(domain.space, "describe"):
            raise ConfigurationError(
                f"action space {domain.space.name!r} does not describe its functions",
                where=f"domains.{name}.action_space",
                next="write calls in the text: rollout.params.tools = 'text'",
            )


def _holds(engine: Any, config: RunConfig) -> None:
    """Refuse conversations that have no room in the engine, or none for a reply."""
    rollout = config.rollout
    if rollout.max_new_tokens >= rollout.max_context:
        raise ConfigurationError(
            f"{rollout.max_new_tokens} new tokens leave no room in {rollout.max_context}",
            where="rollout.max_new_tokens",
            next="raise rollout.max_context, or lower it",
        )
    context = getattr(engine, "context", None)
    if isinstance(context, int) and context < rollout.max_context:
        raise ConfigurationError(
            f"engine {rollout.engine!r} holds {context} tokens of a conversation",
            where=f"rollout.max_context = {rollout.max_context}",
            next="raise rollout.params.context, or lower it",
        )


def _training(config: RunConfig, registry: Registry) -> None:
    """Look up what trains."""
    targets.trainer(registry, config.trainer.name, config.trainer.params)
    objective = config.objective
    with about("objective.preset"):
        preset_of(registry, objective.preset)
    for part in ("advantage", "objective", "correction", "normaliser"):
        chosen = getattr(objective, part)
        if chosen is not None:
            with about(f"objective.{part}"):
                registry.provider(f"{part}s", chosen.name)
    for term in objective.terms or ():
        with about("objective.terms"):
            registry.provider("objectives", term.name)
    if _composed(objective):
        # its parts load torch, which a preset as it stands is not worth
        compose(registry, objective.model_dump(mode="json"))
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


def _domain(name: str, section: DomainSection, registry: Registry, config: RunConfig) -> DomainPlan:
    where, evaluation = f"domains.{name}", config.evaluation
    space = action_space(section, registry, where=where, deadline=config.deadlines.create)
    judge = targets.judge(section.judge, registry, key=f"{where}.judge")
    tasks = own_tasks(registry, section, where=where)
    if evaluation.episodes or evaluation.every or config.sft.gate is not None:
        own_tasks(registry, section, where=where, split=evaluation.split)
    return DomainPlan(tasks, space, judge, section.judge.name)
