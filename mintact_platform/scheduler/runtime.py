"""The rollout side of a run, started and stopped together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mintact_platform.config import RunConfig
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.errors import first_cause
from mintact_platform.judging.cache import JudgementCache
from mintact_platform.judging.rate import RateLimit
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.models.gate import Gate
from mintact_platform.models.messages import ChatSpec, MessageEngine
from mintact_platform.models.protocol import EngineSpec, RolloutEngine, WeightsRef
from mintact_platform.registry.names import Registry
from mintact_platform.rollouts.episode import EpisodeSettings
from mintact_platform.rollouts.rollouter import DomainTools, Rollouter
from mintact_platform.scheduler.plan import Plan
from mintact_platform.scheduler.used import pinned
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.training.trainer import TrainerSpec


@dataclass(frozen=True)
class Runtime:
    """What is running."""

    plan: Plan
    directory: RunDirectory
    manager: EnvironmentManager
    engine: RolloutEngine
    gate: Gate
    rollouter: Rollouter


@asynccontextmanager
async def running(
    plan: Plan, directory: RunDirectory, weights: WeightsRef, *, incarnation: int
) -> AsyncIterator[Runtime]:
    """Start environment servers and model servers at once; leave nothing behind.

    Args:
        plan: the checked run.
        directory: of the run.
        weights: what the model servers serve first; a message engine has its own.
        incarnation: of the scheduler.
    """
    config = plan.config
    manager = EnvironmentManager(
        pools(config, plan.registry),
        deadlines=config.deadlines,
        log_directory=directory.logs,
        incarnation=incarnation,
    )
    engine = plan.engine()
    spec: ChatSpec | EngineSpec = engine_spec(config, directory, weights, incarnation)
    if plan.messages:
        spec = chat_spec(config, directory)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_shielded, manager.close)
        stack.push_async_callback(_shielded, engine.close)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(manager.start())
                group.create_task(engine.start(spec))
        except BaseExceptionGroup as failed:
            raise first_cause(failed) from failed
        gate = Gate(engine)
        player = rollouter(plan, directory, manager, gate)
        for domain in player.domains.values():
            stack.push_async_callback(_shielded, domain.judge.close)
        yield Runtime(plan, directory, manager, engine, gate, player)


def rollouter(
    plan: Plan, directory: RunDirectory, manager: EnvironmentManager, gate: Gate
) -> Rollouter:
    """The rollouter of a plan."""
    config = plan.config
    domains = {
        name: DomainTools(
            space=domain.space,
            judge=judge_runner(plan, directory, name),
            settings=settings(config, name),
        )
        for name, domain in plan.domains.items()
    }
    return Rollouter(
        domains,
        manager,
        gate,
        chat=plan.chat,
        vision=plan.vision,
        images=directory.images,
        active=config.rollout.active,
        messages=cast(MessageEngine, gate.engine) if plan.messages else None,
    )


def judge_runner(plan: Plan, directory: RunDirectory, domain: str) -> JudgeRunner:
    """The runner of a domain's judge, within the limits that the run file sets."""
    choice = plan.config.domains[domain].judge
    return JudgeRunner(
        plan.domains[domain].judge,
        name=plan.domains[domain].judge_name,
        deadline=plan.config.deadlines.judge,
        retries=choice.retries,
        concurrency=choice.concurrency,
        cache=JudgementCache(directory.judgements_cache) if choice.cache else None,
        rate=RateLimit(choice.requests_per_minute),
    )


def pools(config: RunConfig, registry: Registry | None = None) -> dict[str, PoolSpec]:
    """One pool a domain.

    Args:
        config: of the run.
        registry: its servers must have the environments in the versions that are installed here;
            None asks for none.
    """
    return {
        name: PoolSpec(
            environment=section.environment,
            params=section.params,
            instances=section.instances,
            servers=tuple(section.servers),
            python=section.python,
            image_format=section.image_format,
            bearer_env=section.bearer_env,
            transport=section.transport,
            spares=section.spares,
            requires=pinned(registry, "environments", section.environment) if registry else (),
        )
        for name, section in config.domains.items()
    }


def settings(config: RunConfig, domain: str) -> EpisodeSettings:
    """How episodes of a domain are played."""
    rollout = config.rollout
    return EpisodeSettings(
        temperature=rollout.temperature,
        max_new_tokens=rollout.max_new_tokens,
        max_context=rollout.max_context,
        max_turns=config.domains[domain].max_turns,
        max_error_turns=rollout.max_error_turns,
        tools_in=rollout.tools_in,
        deadlines=config.deadlines,
        seed=config.seed,
    )


def engine_spec(
    config: RunConfig, directory: RunDirectory, weights: WeightsRef, incarnation: int
) -> EngineSpec:
    """What the rollout engine is told."""
    return EngineSpec(
        weights=weights,
        run_directory=directory.path.resolve(),
        temperature=config.rollout.temperature,
        active=config.rollout.active,
        image_transport=config.rollout.image_transport,
        deadline=config.deadlines.start,
        generate_deadline=config.deadlines.generate,
        incarnation=incarnation,
        deterministic=config.rollout.deterministic,
        extra={"mark": mark(incarnation, "engine")},
    )


def chat_spec(config: RunConfig, directory: RunDirectory) -> ChatSpec:
    """What a message engine is told."""
    return ChatSpec(
        run_directory=directory.path.resolve(),
        active=config.rollout.active,
        deadline=config.deadlines.start,
        reply_deadline=config.deadlines.generate,
    )


def trainer_spec(config: RunConfig, directory: RunDirectory, incarnation: int) -> TrainerSpec:
    """What the trainer is told."""
    return TrainerSpec(
        model_path=str(Path(config.model.path).resolve()),
        run_directory=str(directory.path.resolve()),
        trainer=config.trainer.model_dump(mode="json"),
        objective=config.objective.model_dump(mode="json"),
        image_area=config.model.image_area,
        incarnation=incarnation,
        group_size=config.rollout.group_size,
        seed=config.seed,
    )


def mark(incarnation: int, part: str) -> str:
    """Marks the child processes of this start of the scheduler."""
    return f"mintact-{os.getpid()}-{incarnation}-{part}"


async def _shielded(close: object) -> None:
    task = asyncio.ensure_future(close())  # type: ignore[operator]
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
