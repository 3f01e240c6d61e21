"""The trainer's seat: whoever sits in it stands where the recorded steps say."""

from __future__ import annotations

from collections.abc import Callable

from mintact_platform.errors import TrainerError
from mintact_platform.scheduler.plan import Plan
from mintact_platform.scheduler.resume import Recovered, recover
from mintact_platform.scheduler.runtime import mark, trainer_spec
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.training.process import TrainerProcess

REVIVALS = 3


class TrainerSeat:
    """Starts the trainer's process, and another one when it died.

    Args:
        plan: the checked run.
        directory: the write-ahead log that a new process is brought up with.
        incarnation: of the scheduler.
        say: prints a line for people.
    """

    def __init__(
        self, plan: Plan, directory: RunDirectory, incarnation: int, say: Callable[[str], None]
    ) -> None:
        self.plan, self.directory, self.incarnation, self.say = plan, directory, incarnation, say
        self._process: TrainerProcess | None = None
        self._revivals = 0

    @property
    def process(self) -> TrainerProcess:
        """Who sits in it now."""
        if self._process is None:
            raise TrainerError("not started", where="trainer")
        return self._process

    async def start(self) -> Recovered:
        """Start a process and bring it to the last recorded step."""
        config = self.plan.config
        self._process = await TrainerProcess.start(
            config.trainer.name,
            config.trainer.params,
            trainer_spec(config, self.directory, self.incarnation),
            log=self.directory.logs / "trainer.log",
            mark=mark(self.incarnation, "trainer"),
            deadline=config.deadlines.start,
            versions=self.plan.registry.versions(),
            required=config.required_plugins,
        )
        return await recover(self._process, self.directory, config, say=self.say)

    async def revive(self, error: TrainerError) -> Recovered:
        """After a death: start another process; a step that was recorded is taken by it.

        Raises:
            TrainerError: the one given, when the process lives or died too often.
        """
        if self.process.alive() or self._revivals >= REVIVALS:
            raise error
        self._revivals += 1
        self.say(f"the trainer died, restarting it ({error.what.splitlines()[0]})")
        await self.process.kill()
        return await self.start()

    async def close(self) -> None:
        """End the process."""
        if self._process is not None:
            await self._process.close()
