"""A supervised stage: registered demonstrations through the trainer, gated by greedy success."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mintact_platform.actions.space import ActionSpace
from mintact_platform.config import RunConfig
from mintact_platform.datasets.shards import write_rows
from mintact_platform.datasets.supervised import Renderer, Source, batch, sources
from mintact_platform.errors import ConfigurationError, about
from mintact_platform.models.protocol import WeightsRef
from mintact_platform.registry import parameters
from mintact_platform.registry.names import Registry
from mintact_platform.rollouts.heldout import HeldOut, held_out, missing_tasks, recorded
from mintact_platform.scheduler import checkpointing, targets
from mintact_platform.scheduler.beginning import begin
from mintact_platform.scheduler.bindings import OFFERS
from mintact_platform.scheduler.evaluate import held_out_tasks
from mintact_platform.scheduler.plan import Plan, plan
from mintact_platform.scheduler.progress import Display, Snapshot
from mintact_platform.scheduler.runtime import mark, running, trainer_spec
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.training.process import TrainerProcess
from mintact_platform.training.trainer import SupervisedRequest


async def supervise(
    config: RunConfig,
    *,
    runs: Path,
    registry: Registry,
    display: Display,
    resume: bool = False,
    accept_changed: bool = False,
) -> int:
    """Fine-tune on `sft.data`; the weights lie in `runs/<name>/model/` afterwards.

    Args:
        config: the checked run file.
        runs: where runs lie.
        registry: installed plugins.
        display: told about progress.
        resume: go on from the newest checkpoint of an existing stage; the weights become the same
            as without a stop.
        accept_changed: resume although it was started with other versions of its plugins.

    Returns:
        0, or 1 when the gate was missed.

    Raises:
        MintactError: bad input before anything is touched; a failure of the trainer later.
    """
    checked = plan(config, registry, domains=config.sft.gate is not None)
    step_params = targets.supervised_params(registry, config)
    data = sources(config.sft.data, registry)
    for place, source in enumerate(data):
        # a generator checks nothing before it is asked for the first
        first = partial(next, source.open(seed=config.seed))
        with about(f"sft.data[{place}]"):
            parameters.made(first, where=f"demonstrations {source.name!r}")
    for name, params in config.sft.action_spaces.items():
        with about(f"sft.action_spaces.{name}"):
            space_named(registry, name, params)
    directory = begin(
        config,
        runs,
        registry,
        verb="sft",
        resume=resume,
        accept_changed=accept_changed,
        say=display.message,
    )
    try:
        return await SupervisedStage(checked, directory, data, step_params, display).run()
    finally:
        directory.close()


def learning_rate(config: RunConfig, step: int) -> float:
    """Linear warm-up, then linear decay to `final_lr_share`, which further steps keep."""
    sft = config.sft
    rise = min(1.0, step / max(sft.warmup, 1))
    fall = max(sft.final_lr_share, 1 - (step - 1) / sft.steps)
    return sft.lr * rise * fall


def space_named(registry: Registry, name: str, params: Mapping[str, Any]) -> ActionSpace:
    """An action space whose prompts are rendered.

    Raises:
        PluginError: nobody registers it, or it cannot be made.
        ConfigurationError: a wrong parameter.
    """
    where = f"action space {name!r}"
    bound = parameters.bind(registry.get("action_spaces", name), params, where=where)
    space: ActionSpace = parameters.made(bound, where=where, offers=OFFERS)
    return space


class SupervisedStage:
    """One supervised stage.

    Args:
        checked: the plan.
        directory: locked by this process.
        data: where demonstrations come from.
        params: of every step.
        display: told about progress.
    """

    def __init__(
        self,
        checked: Plan,
        directory: RunDirectory,
        data: Sequence[Source],
        params: Mapping[str, Any],
        display: Display,
    ) -> None:
        self.plan, self.config, self.directory = checked, checked.config, directory
        self.data, self.params, self.display = data, params, display
        self.incarnation = directory.begin_incarnation()
        assert checked.chat is not None
        self.renderer = Renderer(checked.chat, checked.vision, self._space)
        self._spaces: dict[str, ActionSpace] = {}
        self._started = time.monotonic()
        losses = directory.database.read("select count(*) n from metrics where name = 'sft/loss'")
        self._recorded: int = losses[0]["n"]

    async def run(self) -> int:
        """Train, gate, export; what a checkpoint holds is not done again."""
        sft = self.config.sft
        async with self._trainer() as trainer:
            done = await checkpointing.restored(
                trainer, self.directory, self.config, say=self.display.message
            )
            if done:
                self.display.message(f"goes on after step {done}")
            attempt = max(0, math.ceil((done - sft.steps) / sft.gate_steps))
            while True:
                last = sft.steps + attempt * sft.gate_steps
                await self._steps(trainer, done + 1, last)
                done = last
                passed = await self._gate(trainer, attempt)
                if passed or attempt >= sft.gate_rounds:
                    break
                attempt += 1
            await self._export(trainer, self.directory.path / "model")
        self.display.message(f"weights in {self.directory.path / 'model'}")
        return 0 if passed else 1

    @asynccontextmanager
    async def _trainer(self) -> AsyncIterator[TrainerProcess]:
        spec = trainer_spec(self.config, self.directory, self.incarnation)
        async with AsyncExitStack() as stack:
            trainer = await TrainerProcess.start(
                self.config.trainer.name,
                self.config.trainer.params,
                spec,
                log=self.directory.logs / "trainer.log",
                mark=mark(self.incarnation, "trainer"),
                deadline=self.config.deadlines.start,
                versions=self.plan.registry.versions(),
                required=self.config.required_plugins,
            )
            stack.push_async_callback(trainer.close)
            yield trainer

    async def _steps(self, trainer: TrainerProcess, first: int, last: int) -> None:
        """Train while the next batch is being rendered."""
        if first > last:
            return
        rendering = asyncio.create_task(asyncio.to_thread(self._render, first))
        try:
            for step in range(first, last + 1):
                rows = await rendering
                if step < last:
                    rendering = asyncio.create_task(asyncio.to_thread(self._render, step + 1))
                report = await trainer.supervised(
                    SupervisedRequest(step, rows, learning_rate(self.config, step), self.params),
                    deadline=self.config.deadlines.train,
                )
                if step > self._recorded:
                    await self.directory.database.write(
                        ledger.metric("sft/loss", "", report.loss, time.time())
                    )
                Path(rows[0].rpartition("#")[0]).unlink()
                self._show(step, last, report.loss)
                if step == last or step % self.config.sft.checkpoint_every == 0:
                    await checkpointing.write(
                        trainer, self.directory, self.config, step=step, say=self.display.message
                    )
        finally:
            rendering.cancel()
            await asyncio.gather(rendering, return_exceptions=True)

    def _render(self, step: int) -> tuple[str, ...]:
        chosen = batch(self.data, step=step, size=self.config.sft.batch, seed=self.config.seed)
        rows = [row for demonstration in chosen for row in self.renderer.rows(demonstration)]
        return write_rows(self.directory.path / "supervised" / f"{step}.safetensors", rows)

    def _space(self, name: str) -> ActionSpace:
        """The action space of a name, with the parameters the run's domains give it."""
        if name not in self._spaces:
            params = self.config.sft.action_spaces.get(name, {})
            for section in self.config.domains.values():
                if section.action_space is not None and section.action_space.name == name:
                    params = section.action_space.params
            self._spaces[name] = space_named(self.plan.registry, name, params)
        return self._spaces[name]

    async def _gate(self, trainer: TrainerProcess, attempt: int) -> bool:
        """Greedy success of every domain on validation tasks."""
        sft = self.config.sft
        if sft.gate is None:
            return True
        step = sft.steps + attempt * sft.gate_steps
        tasks = held_out_tasks(self.plan, sft.gate_episodes, split="validation")
        missing = missing_tasks(self.directory, tasks, step=step, label="gate", masked=True)
        if any(missing.values()):
            path = self.directory.weights(attempt)
            await self._export(trainer, path)
            async with running(
                self.plan, self.directory, WeightsRef(path, attempt), incarnation=self.incarnation
            ) as runtime:
                await held_out(
                    runtime.rollouter,
                    self.directory,
                    missing,
                    step=step,
                    label="gate",
                    temperature=0.0,
                )
            await asyncio.to_thread(self.directory.retain_weights)
        found = recorded(self.directory, step=step, label="gate")
        results = {name: found[name] for name in tasks}
        shown = ", ".join(f"{name} {100 * r.rate:.0f} %" for name, r in results.items())
        passed = self._passes(results)
        self.display.message(
            f"gate: greedy success {shown}: {'passed' if passed else f'below {sft.gate:.0%}'}"
        )
        return passed

    def _passes(self, results: dict[str, HeldOut]) -> bool:
        gate = self.config.sft.gate or 0.0
        silent = [name for name, result in results.items() if not result.episodes]
        if silent:
            raise ConfigurationError(
                f"no episode of {', '.join(silent)} could be judged",
                where="gate",
                next=f"mintact show {self.directory.path.name}",
            )
        return all(result.rate >= gate for result in results.values())

    async def _export(self, trainer: TrainerProcess, path: Path) -> None:
        await trainer.export(0, str(path), deadline=self.config.deadlines.push)

    def _show(self, step: int, last: int, loss: float) -> None:
        self.display.update(
            Snapshot(
                name=self.config.name,
                step=step,
                steps=last,
                seconds=time.monotonic() - self._started,
                loss=loss,
                phase="supervised",
            )
        )
