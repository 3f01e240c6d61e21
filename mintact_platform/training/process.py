"""The scheduler's handle on the trainer process: the trainer protocol, awaited, under deadlines."""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from mintact_platform import errors, processes
from mintact_platform.errors import MintactError, TrainerError
from mintact_platform.registry.names import Registry
from mintact_platform.training import frames
from mintact_platform.training.trainer import (
    Comparison,
    Measure,
    StepReport,
    StepRequest,
    SupervisedRequest,
    TrainerSpec,
)


class TrainerProcess:
    """A running trainer process. Calls are made one at a time; further ones wait their turn.

    After a deadline or a death the process is gone: start another and load the last checkpoint.

    Example:
        >>> trainer = await TrainerProcess.start("torch", {}, spec, ...)  # doctest: +SKIP
        >>> report = await trainer.step(request, deadline=600)  # doctest: +SKIP
    """

    def __init__(
        self,
        child: processes.Child,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._child, self._reader, self._writer = child, reader, writer
        self._turn = asyncio.Lock()
        self._ids = itertools.count(1)
        self._body_length: int | None = None
        self._gone = False

    @classmethod
    async def start(
        cls,
        name: str,
        params: Mapping[str, Any],
        spec: TrainerSpec,
        *,
        log: Path,
        mark: str,
        deadline: float,
        versions: Mapping[str, str] | None = None,
        required: Sequence[str] = (),
    ) -> Self:
        """Start the process and the trainer in it.

        Args:
            name: registered trainer.
            params: its parameters.
            spec: what it trains.
            log: file for its output.
            mark: carried by it and its descendants.
            deadline: seconds for both.
            versions: plugin versions it must have; None takes this interpreter's.
            required: distributions it must have besides, see `required_plugins`.

        Raises:
            TrainerError: it died, was late, or has other plugin versions.
            MintactError: what the trainer itself refused, by its own type.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline
        if versions is None:
            versions = (await asyncio.to_thread(Registry.discover)).versions()
        trainer = await cls._spawn(log, mark, end - loop.time())
        arguments = {
            "name": name,
            "params": params,
            "spec": spec,
            "versions": versions,
            "required": list(required),
        }
        try:
            await trainer._call("start", end - loop.time(), **arguments)
        except BaseException:
            await asyncio.shield(trainer.kill())
            raise
        return trainer

    @classmethod
    async def _spawn(cls, log: Path, mark: str, deadline: float) -> Self:
        ours, theirs = socket.socketpair()
        try:
            child = await processes.spawn(
                [sys.executable, "-m", "mintact_platform.training.worker"],
                {"socket": theirs.fileno()},
                log=log,
                mark=mark,
                deadline=deadline,
                pass_fds=(theirs.fileno(),),
            )
            reader, writer = await asyncio.open_connection(sock=ours)
        except MintactError as error:
            ours.close()
            raise TrainerError(error.what, where="trainer process", next=error.next) from error
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(child, reader, writer)

    @property
    def pid(self) -> int:
        """Process id of the trainer."""
        return self._child.process.pid

    def alive(self) -> bool:
        """Whether calls can be made."""
        return not self._gone and self._child.alive()

    async def step(self, request: StepRequest, deadline: float) -> StepReport:
        """One batch."""
        return StepReport(**await self._call("step", deadline, request=request))

    async def compare(
        self, request: StepRequest, objective: Mapping[str, Any], deadline: float
    ) -> Comparison:
        """One batch, with another loss measured beside the trainer's own."""
        values = await self._call("compare", deadline, request=request, objective=objective)
        return Comparison(
            StepReport(**values["report"]),
            Measure(**values["own"]),
            Measure(**values["other"]),
            values["cosine"],
        )

    async def supervised(self, request: SupervisedRequest, deadline: float) -> StepReport:
        """One cross-entropy step."""
        return StepReport(**await self._call("supervised", deadline, request=request))

    async def score(
        self, path: str, *, temperature: float, noise: float = 0.0, deadline: float
    ) -> dict[str, Any]:
        """Log-probabilities of a stored trajectory's supervised tokens; see `Trainer.score`."""
        result: dict[str, Any] = await self._call(
            "score", deadline, path=path, temperature=temperature, noise=noise
        )
        return result

    async def export(self, version: int, path: str, *, noise: float = 0.0, deadline: float) -> None:
        """Write θ in Hugging Face layout."""
        await self._call("export", deadline, version=version, path=path, noise=noise)

    async def confirm(self, version: int, deadline: float) -> None:
        """All servers serve `version`."""
        await self._call("confirm", deadline, version=version)

    async def save(self, path: str, *, step: int, deadline: float) -> None:
        """Write a checkpoint."""
        await self._call("save", deadline, path=path, step=step)

    async def load(self, path: str, deadline: float) -> int:
        """Restore a checkpoint; returns the last step it contains."""
        return int(await self._call("load", deadline, path=path))

    async def close(self, *, grace: float = 5.0) -> None:
        """End the process; an idle one is told first."""
        try:
            if self.alive() and not self._turn.locked():
                await self._call("close", grace)
        except MintactError:
            pass
        finally:
            self._leave()
            await asyncio.shield(self._child.stop(grace=grace))

    async def kill(self) -> None:
        """End the process at once."""
        self._leave()
        await asyncio.to_thread(self._child.kill)

    def _leave(self) -> None:
        self._gone = True
        self._writer.close()

    async def _call(self, call: str, deadline: float, **arguments: Any) -> Any:
        async with self._turn:
            number = next(self._ids)
            try:
                async with asyncio.timeout(deadline):
                    await self._send({"id": number, "call": call, "arguments": arguments})
                    reply = await self._reply(number)
            except TimeoutError:
                await asyncio.shield(self.kill())
                raise TrainerError(
                    f"no answer within {deadline:g} s",
                    where=f"trainer {call}",
                    next=f"raise its deadline, or see {self._child.log}",
                ) from None
            except (OSError, asyncio.IncompleteReadError) as error:
                raise await asyncio.shield(self._dead(call)) from error
        if "error" in reply:
            raise self._raised(reply["error"], call)
        return reply["result"]

    async def _send(self, message: Mapping[str, Any]) -> None:
        if self._gone:
            raise ConnectionResetError
        self._writer.write(frames.pack(message))
        await self._writer.drain()

    async def _reply(self, number: int) -> dict[str, Any]:
        """The reply to this call; one to an earlier, cancelled call is thrown away."""
        while True:
            message = await self._frame()
            if message["id"] == number:
                return message

    async def _frame(self) -> dict[str, Any]:
        # a call cancelled between header and body leaves the length behind for the next one
        if self._body_length is None:
            self._body_length = frames.body_length(
                await self._reader.readexactly(frames.HEADER.size)
            )
        body = await self._reader.readexactly(self._body_length)
        self._body_length = None
        return frames.unpack(body)

    async def _dead(self, call: str) -> TrainerError:
        # a process lets go of its sockets before its exit code can be read
        for _ in range(500):
            if not self._child.alive():
                break
            await asyncio.sleep(0.02)
        code = self._child.process.poll()
        await self.kill()
        tail = self._child.log_tail(3).strip().replace("\n", " | ")
        return TrainerError(
            f"the process died (exit {code}): {tail or 'no output'}",
            where=f"trainer {call}",
            next=f"see {self._child.log}",
        )

    def _raised(self, error: Mapping[str, str], call: str) -> MintactError:
        kind = getattr(errors, error["kind"], TrainerError)
        if call != "start" and kind is errors.PluginError:
            kind = TrainerError  # a loss that misbehaves in a step fails the run, not its input
        # some errors carry more than one line: those come back as the trainer's own
        simple = isinstance(kind, type) and issubclass(kind, MintactError)
        known = kind if simple and "__init__" not in vars(kind) else TrainerError
        where, follow = error["where"] or "trainer", error["next"] or f"see {self._child.log}"
        raised: MintactError = known(error["what"], where=where, next=follow)
        return raised
