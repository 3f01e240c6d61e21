"""A training run from start, or from where it stopped, to its last step."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from mintact_platform.config import RunConfig
from mintact_platform.errors import first_cause
from mintact_platform.models.protocol import WeightsRef
from mintact_platform.records.task import Task
from mintact_platform.registry.names import Registry
from mintact_platform.rollouts.heldout import held_out, missing_tasks, recorded
from mintact_platform.rollouts.seeds import seed_of
from mintact_platform.scheduler import resume as recovery
from mintact_platform.scheduler import seen
from mintact_platform.scheduler.beginning import begin
from mintact_platform.scheduler.build import scheduler_of
from mintact_platform.scheduler.changes import Changes
from mintact_platform.scheduler.consume import Consumer
from mintact_platform.scheduler.evaluate import held_out_tasks
from mintact_platform.scheduler.observe import Observers
from mintact_platform.scheduler.plan import Plan, plan
from mintact_platform.scheduler.preflight import preflight
from mintact_platform.scheduler.produce import OpenGroup, Producer, verdict_of
from mintact_platform.scheduler.progress import Display
from mintact_platform.scheduler.runtime import Runtime, running
from mintact_platform.scheduler.seat import TrainerSeat
from mintact_platform.scheduler.state import Scheduler
from mintact_platform.scheduler.status import Status
from mintact_platform.scheduler.synchronizer import ParameterSynchronizer
from mintact_platform.scheduler.tasks import TaskStream
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory


async def train(
    config: RunConfig,
    *,
    runs: Path,
    resume: bool,
    registry: Registry,
    display: Display,
    accept_changed: bool = False,
) -> int:
    """Train to the last step; everything is recorded in `runs/<name>/`.

    Args:
        config: the checked run file.
        runs: where runs lie.
        resume: go on with an existing run.
        registry: installed plugins.
        display: told about progress.
        accept_changed: resume although the run was started with other versions of its plugins.

    Returns:
        The exit code.

    Raises:
        MintactError: bad input before anything is touched; a failure of the run later.
    """
    checked = plan(config, registry)
    directory = begin(
        config,
        runs,
        registry,
        verb="train",
        resume=resume,
        accept_changed=accept_changed,
        say=display.message,
    )
    try:
        await Training(checked, directory, display, resume=resume).run()
    finally:
        directory.close()
    return 0


class Training:
    """One start of a training run.

    Args:
        checked: the plan.
        directory: locked by this process.
        display: told about progress.
        resume: whether the directory may hold earlier work.
    """

    def __init__(
        self, checked: Plan, directory: RunDirectory, display: Display, *, resume: bool
    ) -> None:
        self.plan, self.config = checked, checked.config
        self.directory, self.display, self.resume = directory, display, resume
        self.incarnation = directory.begin_incarnation()
        self.changes = Changes()

    async def run(self) -> None:
        """Start everything, train, evaluate, stop everything."""
        async with AsyncExitStack() as stack:
            self.display.message(f"starting {self.config.name} in {self.directory.path}")
            await self._record_plugins()
            stack.push_async_callback(self._record_plugins)
            seat = TrainerSeat(
                self.plan, self.directory, self.incarnation, say=self.display.message
            )
            stack.push_async_callback(seat.close)
            recovered, runtime = await self._start(seat, stack)
            observers = Observers(self.plan.registry)
            stack.push_async_callback(self._end_observers, observers)
            tasks = {name: domain.tasks for name, domain in self.plan.domains.items()}
            await preflight(
                runtime,
                seat.process,
                {name: (some[0], some[1 % len(some)]) for name, some in tasks.items()},
                version=recovered.version,
                say=self.display.message,
            )
            await self._evaluate(runtime, recovered.step, "before")
            step = recovered.step
            if not await self._at_goal(runtime, recovered):
                step = await self._train(runtime, seat, recovered, observers, tasks)
            await self._evaluate(runtime, step, "after")

    async def _start(
        self, seat: TrainerSeat, stack: AsyncExitStack
    ) -> tuple[recovery.Recovered, Runtime]:
        """Trainer and rollout side at once, unless the trainer must first write what is served."""
        version = recovery.pushed_version(self.directory)
        weights = self._weights(version)

        async def rollout_side() -> Runtime:
            return await stack.enter_async_context(
                running(self.plan, self.directory, weights, incarnation=self.incarnation)
            )

        if not weights.path.exists():
            recovered = await seat.start()
            return recovered, await rollout_side()
        try:
            async with asyncio.TaskGroup() as group:
                starting = group.create_task(seat.start())
                runtime = await rollout_side()
        except BaseExceptionGroup as failed:
            raise first_cause(failed) from failed
        return starting.result(), runtime

    async def _end_observers(self, observers: Observers) -> None:
        for line in await asyncio.to_thread(observers.close):
            self.display.message(line)

    async def _record_plugins(self) -> None:
        """At the start, and at the end with what observers did wrong."""
        rows = ledger.plugin_rows(self.plan.registry.rows)
        await self.directory.database.write(rows)

    def _weights(self, version: int) -> WeightsRef:
        path = self.directory.weights(version) if version else Path(self.config.model.path)
        return WeightsRef(path, version)

    async def _at_goal(self, runtime: Runtime, recovered: recovery.Recovered) -> bool:
        """Whether the run was at its goal before it was stopped; completes the check it was in."""
        pushed = recovered.step and not recovered.since_push
        if not pushed or not await self._progress(runtime, recovered.step):
            return False
        await self._cancel_open()
        self.display.message(
            f"evaluation.stop_at is reached since step {recovered.step}; "
            "training goes on with a higher one, or with evaluation.every=0"
        )
        return True

    async def _train(
        self,
        runtime: Runtime,
        seat: TrainerSeat,
        recovered: recovery.Recovered,
        observers: Observers,
        tasks: Mapping[str, Sequence[Task]],
    ) -> int:
        scheduler = self._scheduler(recovered)
        reopened = await self._reopen(runtime, scheduler)
        producer = Producer(
            self.config,
            scheduler,
            runtime.rollouter,
            self.directory,
            streams=self._streams(tasks),
            hooks=self.plan.registry.manager.hook,
            observers=observers,
            changes=self.changes,
            say=self.display.message,
        )
        places = (runtime.gate, seat, self.directory, self.config.deadlines)
        synchronizer = ParameterSynchronizer(
            *places, version=recovered.version, mode=self.config.sync.mode
        )
        status = Status(self.config, self.directory, scheduler, producer, runtime, self.display)

        async def after_step(step: int, pushed: bool) -> bool:
            await status.record(step)
            return pushed and await self._progress(runtime, step)

        consumer = Consumer(
            self.config,
            scheduler,
            seat,
            synchronizer,
            self.directory,
            observers=observers,
            changes=self.changes,
            after_step=after_step,
            say=self.display.message,
            step=recovered.step,
            since_push=recovered.since_push,
        )
        status.consumer = consumer
        await self._together(producer, consumer, status, reopened)
        return consumer.step

    async def _together(
        self,
        producer: Producer,
        consumer: Consumer,
        status: Status,
        reopened: Sequence[OpenGroup],
    ) -> None:
        """Run until the consumer is done, or until either side fails."""
        producing = asyncio.create_task(producer.run(reopened), name="producer")
        consuming = asyncio.create_task(consumer.run(), name="consumer")
        watching = asyncio.create_task(status.run(), name="status")
        everything = (producing, consuming, watching)
        try:
            await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in everything:
                task.cancel()
            await asyncio.gather(*everything, return_exceptions=True)
        for task in everything:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        await self._cancel_open()

    async def _cancel_open(self) -> None:
        opened = self.directory.database.read("select id from groups where fate = 'open'")
        if opened:
            await self.directory.database.write(
                ledger.set_fate([row["id"] for row in opened], "cancelled", "the run ended")
            )

    def _scheduler(self, recovered: recovery.Recovered) -> Scheduler:
        scheduler = scheduler_of(
            self.config.quotas,
            self.config.schedule,
            mixture=self.plan.mixture,
            flow=self.plan.flow,
            sync_every=self.config.sync.every,
        )
        statistics = seen.recorded(self.directory.database)
        now = asyncio.get_running_loop().time()
        scheduler.restore(
            recovery.queued_groups(self.directory, now),
            recovery.accepted_counts(self.directory),
            recovered.step,
            recovered.version,
            recovered.since_push,
            ledger=ledger.ledger(self.directory.database),
            statistics=statistics,
            since_batch=seen.since_batch(self.directory.database, statistics),
        )
        return scheduler

    async def _reopen(self, runtime: Runtime, scheduler: Scheduler) -> list[OpenGroup]:
        """Groups open at the kill: judge what was not judged; only missing members run again."""
        groups = []
        for group, unjudged in recovery.open_groups(self.directory):
            scheduler.group_started(group.id, group.domain)
            for waiting in unjudged:
                judged = await runtime.rollouter.judge(group.domain, waiting.trajectory)
                await self.directory.database.write(verdict_of(judged))
                if judged.live:
                    group.kept[judged.trajectory.member] = judged
            groups.append(group)
        return groups

    def _streams(self, tasks: Mapping[str, Sequence[Task]]) -> dict[str, TaskStream]:
        opened = recovery.opened_counts(self.directory)
        return {
            name: TaskStream(
                some, seed=seed_of(self.config.seed, "tasks", name), position=opened.get(name, 0)
            )
            for name, some in tasks.items()
        }

    async def _evaluate(self, runtime: Runtime, step: int, label: str) -> None:
        evaluation = self.config.evaluation
        if not evaluation.episodes:
            return
        if label == "before" and step:
            return
        await self._held_out(runtime, step, label, evaluation.episodes)

    async def _progress(self, runtime: Runtime, step: int) -> bool:
        """A check along the way; true once the mean reached `stop_at` twice in a row."""
        evaluation = self.config.evaluation
        if not evaluation.every or step % evaluation.every:
            return False
        await self._held_out(runtime, step, "progress", evaluation.progress_episodes)
        goal, scores = evaluation.stop_at, self._scores()
        return goal is not None and len(scores) > 1 and min(scores[-2:]) >= goal

    def _scores(self) -> list[float]:
        """The mean over the domains at every check so far, those before a stop among them."""
        checks = self.directory.database.read(
            "select distinct step from evaluations where label = 'progress' order by step"
        )
        found = (recorded(self.directory, step=row["step"], label="progress") for row in checks)
        return [sum(one.rate for one in by.values()) / len(by) for by in found]

    async def _held_out(self, runtime: Runtime, step: int, label: str, episodes: int) -> None:
        tasks = missing_tasks(
            self.directory, held_out_tasks(self.plan, episodes), step=step, label=label
        )
        if not any(tasks.values()):
            return
        self.display.message(f"evaluating {episodes} held-out tasks a domain ({label})")
        await held_out(
            runtime.rollouter,
            self.directory,
            tasks,
            step=step,
            label=label,
            temperature=self.config.evaluation.temperature,
        )
        # with what was recorded of it before a kill
        results = recorded(self.directory, step=step, label=label)
        shown = ", ".join(f"{d} {100 * results[d].rate:.0f} %" for d in tasks)
        self.display.message(f"step {step}: held-out success {shown}")
