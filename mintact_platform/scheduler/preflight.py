"""Pre-flight: one line a contract, before the first step; a failure names its cause.

`prefix ✓ · image tokens 64=64 ✓ · T=0.7 log-probs ✓ · engine gap 8e-7 ✓ · weight push ✓ · reset
differs ✓`
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mintact_platform.errors import EnvironmentFailure, MintactError
from mintact_platform.models.chat import check_prefix
from mintact_platform.models.protocol import WeightsRef
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.rollouts.episode import ContractBroken, EpisodeKey
from mintact_platform.scheduler.runtime import Runtime
from mintact_platform.training.process import TrainerProcess

PROBE_TEMPERATURE = 0.7
PROBE_NOISE = 0.02
PROBE_ATTEMPTS = 8


View = tuple[str, tuple[bytes, ...]]
"""Text and encoded images of an observation."""


class PreflightFailed(MintactError):
    """A contract between engine, trainer, chat format and environments does not hold."""


@dataclass(frozen=True, slots=True)
class Check:
    """One contract that holds."""

    name: str

    def __str__(self) -> str:
        return f"{self.name} ✓"


async def preflight(
    runtime: Runtime,
    trainer: TrainerProcess,
    tasks: Mapping[str, Sequence[Task]],
    *,
    version: int,
    say: Callable[[str], None],
) -> list[Check]:
    """Check every contract; `tasks` are two tasks a domain.

    Raises:
        PreflightFailed: naming the contract and the probable cause.
    """
    limit = runtime.plan.config.rollout.max_gap
    checks = [_prefix(runtime)]
    domain, (task, _) = next(iter(tasks.items()))
    warm = await _probe(runtime, domain, task, PROBE_TEMPERATURE)
    checks.append(await _image_tokens(runtime, trainer, warm))
    checks.append(await _temperature(trainer, warm, runtime, limit))
    plain = await _probe(runtime, domain, task, 1.0)
    gap = await _gap(trainer, plain, runtime)
    if gap > limit:
        raise PreflightFailed(
            f"trainer and engine differ by {gap:.2g} in log-probability, accepted is {limit:g}",
            where="pre-flight: engine gap",
            next="compare dtype, image size and preprocessing, or raise rollout.max_gap",
        )
    checks.append(Check(f"engine gap {gap:.0e}"))
    checks += await _judges(runtime, tasks, {domain: plain})
    checks.append(await _push(runtime, trainer, domain, task, version=version, limit=limit))
    checks.append(await _resets(runtime, tasks))
    say(" · ".join(str(check) for check in checks))
    return checks


def _prefix(runtime: Runtime) -> Check:
    assert runtime.plan.chat is not None
    try:
        check_prefix(runtime.plan.chat)
    except MintactError as error:
        raise PreflightFailed(error.what, where="pre-flight: prefix", next=error.next) from error
    return Check("prefix")


async def _probe(runtime: Runtime, domain: str, task: Task, temperature: float) -> Trajectory:
    """One short real episode, stored like any other; a failing environment gets more tries."""
    for _ in range(PROBE_ATTEMPTS):
        try:
            trajectory = await runtime.rollouter.play(
                domain, task, EpisodeKey(runtime.rollouter.ids()), temperature=temperature
            )
        except ContractBroken as error:
            raise PreflightFailed(str(error), where="pre-flight: image tokens") from error
        if trajectory.outcome.counts and trajectory.tokens:
            break
    if not trajectory.outcome.counts or not trajectory.tokens:
        failure = trajectory.failure
        follow = f"see {runtime.directory.logs}"
        if trajectory.outcome is Outcome.CONTEXT_OVERFLOW:
            follow = "raise rollout.max_context, or lower rollout.max_new_tokens"
        reason = f"{failure.phase}: {failure.message}" if failure else str(trajectory.outcome)
        raise PreflightFailed(
            f"a probe episode ended as {trajectory.outcome} ({reason})",
            where=f"pre-flight: domain {domain}",
            next=follow,
        )
    await asyncio.to_thread(runtime.directory.trajectories.save, trajectory)
    return trajectory


async def _image_tokens(runtime: Runtime, trainer: TrainerProcess, trajectory: Trajectory) -> Check:
    segment = trajectory.segments[0]
    ours = sum(runtime.plan.vision.tokens(i.width, i.height) for i in segment.images)
    scored = await _score(trainer, trajectory, runtime, trajectory.temperature)
    theirs = scored["tokens"][0] - (len(segment.ids) - len(segment.images))
    if ours != theirs:
        raise PreflightFailed(
            f"the trainer expands the images to {theirs} tokens, the rollouter to {ours}",
            where="pre-flight: image tokens",
            next="check patch_size, merge_size and model.image_area",
        )
    return Check(f"image tokens {theirs}={ours}")


async def _temperature(
    trainer: TrainerProcess, trajectory: Trajectory, runtime: Runtime, limit: float
) -> Check:
    after = await _gap(trainer, trajectory, runtime)
    if after > limit:
        before = await _gap(trainer, trajectory, runtime, temperature=1.0)
        cause = (
            "the engine returns log-probabilities before temperature"
            if before <= limit
            else f"trainer and engine differ by {after:.2g} at T={trajectory.temperature}"
        )
        raise PreflightFailed(cause, where="pre-flight: temperature")
    return Check(f"T={trajectory.temperature:g} log-probs")


async def _judges(
    runtime: Runtime, tasks: Mapping[str, Sequence[Task]], probes: Mapping[str, Trajectory]
) -> list[Check]:
    """Ask every judge that reaches out about a probe episode; any verdict will do."""
    remote = [name for name, tools in runtime.rollouter.domains.items() if tools.judge.remote]
    checks = []
    for domain in remote:
        probe = probes.get(domain) or await _probe(runtime, domain, tasks[domain][0], 1.0)
        judged = await runtime.rollouter.judge(domain, probe)
        judge = runtime.rollouter.domains[domain].judge.name
        if judged.verdict is None:
            raise PreflightFailed(
                judged.failure.message if judged.failure else "no verdict",
                where=f"pre-flight: judge {judge!r} of domain {domain}",
                next=f"see domains.{domain}.judge: its parameters, its endpoint, its key",
            )
        checks.append(Check(f"judge {judge}"))
    return checks


async def _push(
    runtime: Runtime,
    trainer: TrainerProcess,
    domain: str,
    task: Task,
    *,
    version: int,
    limit: float,
) -> Check:
    """Push perturbed weights, see the engine follow the trainer, push the true ones back."""
    deadline = runtime.plan.config.deadlines.push
    served = runtime.directory.weights(version)
    true = WeightsRef(served if served.exists() else Path(runtime.plan.config.model.path), version)
    path = runtime.directory.weights(version).with_name("probe")
    await trainer.export(version, str(path), noise=PROBE_NOISE, deadline=deadline)
    try:
        async with runtime.gate.drained(deadline=deadline):
            await runtime.engine.update(WeightsRef(path, version + 1))
        probe = await _probe(runtime, domain, task, 1.0)
        followed = await _gap(trainer, probe, runtime, noise=PROBE_NOISE)
        stayed = await _gap(trainer, probe, runtime)
        async with runtime.gate.drained(deadline=deadline):
            await runtime.engine.update(true)
    except MintactError as error:
        if isinstance(error, PreflightFailed):
            raise
        raise PreflightFailed(error.what, where="pre-flight: weight push") from error
    finally:
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
    if followed > limit or stayed <= followed:
        raise PreflightFailed(
            "the engine accepted new weights but still serves the old ones"
            if stayed <= limit
            else f"after a push the engine differs from the trainer by {followed:.2g}",
            where="pre-flight: weight push",
        )
    return Check("weight push")


async def _resets(runtime: Runtime, tasks: Mapping[str, Sequence[Task]]) -> Check:
    """A reset must show its own episode: two tasks, then the first again."""
    alike = []
    for domain, (first, second) in tasks.items():
        views = await _views(runtime, domain, (first, second, first))
        if views[2] == views[1] != views[0]:
            raise PreflightFailed(
                f"domain {domain}: a reset shows the episode before it",
                where="pre-flight: reset differs",
                next="make reset build its state from the task and seed it is given",
            )
        if views[0] == views[1]:
            alike.append(domain)
    if alike:
        return Check(f"reset (two tasks look alike in {', '.join(alike)})")
    return Check("reset differs")


async def _views(runtime: Runtime, domain: str, tasks: Sequence[Task]) -> list[View]:
    """What resets on one instance show; a failing environment gets more tries."""
    for attempt in range(PROBE_ATTEMPTS):
        views = []
        try:
            async with runtime.manager.acquire(domain) as lease:
                for task in tasks:
                    observation = await lease.reset(
                        episode=f"preflight-{runtime.rollouter.ids()}",
                        task=task,
                        seed=task.seed or 0,
                        deadline=runtime.plan.config.deadlines.reset,
                    )
                    views.append((observation.text, tuple(i.data for i in observation.images)))
            return views
        except EnvironmentFailure as error:
            if attempt == PROBE_ATTEMPTS - 1:
                raise PreflightFailed(
                    f"domain {domain} cannot be reset: {error.what}",
                    where="pre-flight: reset differs",
                    next=f"see {runtime.directory.logs}",
                ) from error
    return []


async def _gap(
    trainer: TrainerProcess,
    trajectory: Trajectory,
    runtime: Runtime,
    *,
    temperature: float | None = None,
    noise: float = 0.0,
) -> float:
    scored = await _score(
        trainer, trajectory, runtime, temperature or trajectory.temperature, noise=noise
    )
    gaps = [
        np.abs(np.asarray(theirs, np.float32) - segment.logprobs[segment.mask]).max()
        for theirs, segment in zip(scored["logprobs"], trajectory.segments, strict=True)
        if segment.mask.any()
    ]
    return float(max(gaps))


async def _score(
    trainer: TrainerProcess,
    trajectory: Trajectory,
    runtime: Runtime,
    temperature: float,
    *,
    noise: float = 0.0,
) -> dict[str, Any]:
    path = str(runtime.directory.trajectories.path(trajectory.id))
    result: dict[str, Any] = await trainer.score(
        path,
        temperature=temperature,
        noise=noise,
        deadline=runtime.plan.config.deadlines.generate,
    )
    return result
