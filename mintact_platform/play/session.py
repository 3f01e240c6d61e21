"""A person's session without HTTP: episodes on a leased environment, judged, saved.

The person stands where the model would: an ordinary rollout episode asks for the next response and
gets what the person wrote or composed. Everything else is the rollout's own code.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from mintact_platform.actions.parse import sendable
from mintact_platform.actions.space import ActionSpace, Call, ParseError
from mintact_platform.config import Plugin
from mintact_platform.datasets import saved
from mintact_platform.environments.client.lease import Lease
from mintact_platform.environments.pools.manager import EnvironmentManager
from mintact_platform.errors import (
    ConfigurationError,
    EnvironmentFailure,
    JudgeError,
    LeaseExpired,
    PluginError,
)
from mintact_platform.judging.judge import JudgeView
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.play.chat import PlainChat, TrueSize
from mintact_platform.play.overheard import OverheardLease, OverheardSpace, space_of
from mintact_platform.play.person import GAVE_UP, Person
from mintact_platform.play.round import Round
from mintact_platform.play.settings import NotNow, PlaySettings
from mintact_platform.play.tasks import Tasks
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.registry.names import Registry
from mintact_platform.rollouts.episode import (
    ContractBroken,
    Episode,
    EpisodeKey,
    EpisodeSettings,
    EpisodeTools,
    attributed,
)
from mintact_platform.storage.ids import UlidSource
from mintact_platform.storage.images import ImageStore

Phase = Literal["booting", "resetting", "waiting", "acting", "judging", "ended", "failed"]
"""What a session does; it waits for the person in `waiting`, `ended` and `failed`."""

POOL = "play"
_FOREVER = 1 << 40


class PlaySession:
    """One person, one leased environment, one episode at a time.

    Args:
        settings: how to play.
        tasks: what to play.
        registry: installed plugins.
        images: keeps the screenshots of the session.

    Attributes:
        phase: what it does now.
        since: when that began, monotonic seconds.
        revision: counts changes.
        round: the episode, from its boot to its verdict.
        space: the action space, once a lease said which.
        person: who answers.
    """

    def __init__(
        self, settings: PlaySettings, tasks: Tasks, registry: Registry, *, images: ImageStore
    ) -> None:
        self.settings, self.tasks, self.registry, self.images = settings, tasks, registry, images
        self.phase: Phase = "booting"
        self.since = time.monotonic()
        self.revision = 0
        self.round = Round(tasks.next())
        self.space: ActionSpace | None = None
        self.person = Person(lambda: self._enter("waiting"))
        self._ids = UlidSource()
        self._manager: EnvironmentManager | None = None
        self._running: asyncio.Task[None] | None = None
        self._beginning = asyncio.Lock()
        self._touched = asyncio.Event()
        self._closed = False
        self._judge = None
        if settings.judge is not None:
            self._judge = JudgeRunner(
                settings.judge, name=settings.judge_name, deadline=settings.deadlines.judge
            )

    # ---- what the person does -------------------------------------------------------------------

    def start(self) -> None:
        """Boot the environment and begin the first episode."""
        self._begin(self.round)

    async def begin(self, *, again: bool = False) -> None:
        """Leave the episode and begin the next, or the same task anew."""
        async with self._beginning:
            await self._stop()
            self._begin(Round(self.round.task if again else self.tasks.next()))

    def respond(self, text: str) -> None:
        """Answer as the model would, with thought and call in one text.

        Raises:
            NotNow: it is not the person's turn.
        """
        self.person.respond(text)
        self._enter("acting")

    def compose(self, thought: str, name: str, arguments: Mapping[str, Any]) -> str:
        """The response text of a thought and a call whose coordinates are pixels."""
        space = self._known_space()
        call = Call(name, arguments)
        if self.round.size is not None:
            try:
                call = space.to_grid(call, *self.round.size)
            except (TypeError, ValueError, LookupError):
                pass  # as it is: the parser will say what is wrong with it
        return space.render(thought, call)

    def read(self, text: str) -> tuple[Call, ...] | ParseError:
        """What the action space makes of a response; costs no turn."""
        return self._known_space().parse(sendable(text), self.round.tools_now)

    def give_up(self) -> None:
        """End the episode where it stands; an action that hangs is cut off.

        Raises:
            NotNow: no episode is running.
        """
        if self.person.is_asked:
            self.person.give_up()
            self._enter("acting")
        elif self._running is not None and self.phase in ("booting", "resetting", "acting"):
            self._running.cancel()
        else:
            raise NotNow("no episode is running", next="begin a new one")

    def judge_again(self) -> None:
        """Ask a judge that failed once more.

        Raises:
            NotNow: there is nothing to judge.
        """
        if self.phase != "ended" or self._judge is None or self.round.verdict is not None:
            raise NotNow("there is nothing to judge")
        self._running = asyncio.get_running_loop().create_task(self._judged(self.round))

    async def save(self) -> Path:
        """Append the episode to the file of demonstrations.

        Raises:
            NotNow: it has not ended, has no turn, or is saved already.
            OSError: the file cannot be written.
        """
        done = self.round.trajectory
        if self.phase != "ended" or done is None or not done.turns or self.round.saved is not None:
            raise NotNow("nothing to save", next="an ended episode can be saved once")
        pool, path = self.settings.pool, self.settings.save
        self.round.saved = path
        try:
            await asyncio.to_thread(
                saved.save,
                path,
                done,
                action_space=self._known_space().name,
                tools=self.round.tools[: len(done.turns)],
                images=self.images,
                verdict=self.round.verdict,
                extra={
                    "by": "person",
                    "environment": pool.environment,
                    "params": dict(pool.params),
                    "action_space_params": self._chosen_space().params,
                },
            )
        except BaseException:
            self.round.saved = None
            raise
        self._touch()
        return path

    async def changed(self, after: int, within: float) -> None:
        """Wait until there is something newer than a revision, or for some seconds."""
        try:
            async with asyncio.timeout(within):
                while self.revision <= after and not self._closed:
                    await self._touched.wait()
        except TimeoutError:
            pass

    def wake(self) -> None:
        """End all waiting for changes: the session is about to close."""
        self._closed = True
        self._touch()

    async def close(self) -> None:
        """Give the lease back and stop what was started."""
        self.wake()
        try:
            await self._stop()
        finally:
            if self._manager is not None:
                await self._manager.close()
            if self._judge is not None:
                await self._judge.close()

    # ---- the episode ----------------------------------------------------------------------------

    def _begin(self, new: Round) -> None:
        self.round = new
        self._enter("booting")
        self._running = asyncio.get_running_loop().create_task(self._play(new))
        # a task that is cancelled before its first step never gets to an except clause
        self._running.add_done_callback(functools.partial(self._cut_off, new, self.since))

    def _cut_off(self, round: Round, start: float, task: asyncio.Task[None]) -> None:
        if task.cancelled() and round.outcome is None:
            round.finish(Outcome.CANCELLED, None, time.monotonic() - start)
            self._enter("ended")

    async def _play(self, round: Round) -> None:
        start = time.monotonic()
        try:
            outcome, failure = await self._attributed(round)
        except ContractBroken as error:
            outcome = Outcome.INTERNAL_FAILURE
            failure = Failure("internal", type(error).__name__, str(error))
        round.finish(outcome, failure, time.monotonic() - start)
        if failure is not None:
            self._enter("failed")
            return
        await self._judged(round)

    async def _attributed(self, round: Round) -> tuple[Outcome, Failure | None]:
        outcome, failure = await attributed(lambda: self._understood(round))
        return outcome, (round.episode.failure if round.episode else None) or failure

    async def _understood(self, round: Round) -> Outcome:
        """Play; wrong input that only a server could tell is no bug of ours."""
        try:
            return await self._leased(round)
        except (ConfigurationError, PluginError) as error:
            raise EnvironmentFailure(str(error), phase="create", kind="configuration") from error

    async def _leased(self, round: Round) -> Outcome:
        manager = await self._started()
        async with manager.acquire(POOL) as lease:
            round.instance, round.server = lease.instance, lease.server
            if self.space is None:
                self.space = space_of(self.settings.action_space, lease.description, self.registry)
            round.episode = self._episode(round, self.space)
            self._enter("resetting")
            heard = OverheardLease(lease, round)
            outcome = await round.episode.run(cast(Lease, heard))
            failure = round.episode.failure
            if failure is None or failure.kind != GAVE_UP:
                _spend(lease)
                return outcome
            round.episode.failure = None
            deadline = self.settings.deadlines.evaluate
            round.episode.state_check = await lease.evaluate(deadline=deadline)
            return Outcome.CANCELLED

    def _episode(self, round: Round, space: ActionSpace) -> Episode:
        settings = self.settings
        if not round.task.domain:
            round.task = replace(round.task, domain=space.domain)
        limits = EpisodeSettings(
            temperature=1.0,
            max_new_tokens=1,
            max_context=_FOREVER,
            max_turns=settings.max_turns,
            max_error_turns=settings.max_error_turns,
            tools_in="system",
            deadlines=settings.deadlines,
            seed=settings.seed,
        )

        generate = functools.partial(self.person.generate, round)
        heard = OverheardSpace(space, round)
        tools = EpisodeTools(generate, PlainChat(), TrueSize(), self.images, heard)
        return Episode(round.task, EpisodeKey(self._ids()), limits, tools)

    async def _judged(self, round: Round) -> None:
        assert round.trajectory is not None
        if self._judge is not None:
            self._enter("judging")
            round.judge_error = ""
            try:
                view = JudgeView(round.trajectory, self.images.get)
                round.verdict = await self._judge.judge(round.task, view)
            except JudgeError as error:
                round.judge_error = error.what
        self._enter("ended")

    async def _started(self) -> EnvironmentManager:
        if self._manager is None:
            manager = EnvironmentManager(
                {POOL: self.settings.pool},
                deadlines=self.settings.deadlines,
                log_directory=self.settings.logs,
                incarnation=0,
            )
            await manager.start()
            self._manager = manager
        return self._manager

    async def _stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None

    def _known_space(self) -> ActionSpace:
        if self.space is None:
            raise NotNow("the environment is not there yet")
        return self.space

    def _chosen_space(self) -> Plugin:
        return self.settings.action_space or Plugin(name=self._known_space().name)

    def _enter(self, phase: Phase) -> None:
        self.phase, self.since = phase, time.monotonic()
        self._touch()

    def _touch(self) -> None:
        self.revision += 1
        touched, self._touched = self._touched, asyncio.Event()
        touched.set()


def _spend(lease: Lease) -> None:
    """Have a failed instance replaced: a pool might mend it, a person asks for another."""
    failed = lease.failure
    if failed is not None:
        lease.failure = LeaseExpired(failed.what, phase=failed.phase, kind=failed.kind)
