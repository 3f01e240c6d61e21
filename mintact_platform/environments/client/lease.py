"""The client's side of a lease: exclusive use of one environment instance."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from mintact_platform.environments.client.transport import (
    Transport,
    TransportName,
    cancel,
    open_transport,
)
from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.wire import ImageFormat, Observation
from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_platform.processes import finish
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck

T = TypeVar("T")
_DESCRIBED = ("domain", "action_space", "action_space_schema", "observation", "native")


class Lease:
    """One leased instance; its calls travel over the stream all leases share, or over HTTP.

    Every call has a deadline in seconds. A reply that gets lost is asked for again under the same
    name inside the deadline; the server answers from its record, so nothing is executed twice.

    Attributes:
        id: the lease's name at the server.
        instance: name of the instance, for logs and failures.
        server: URL.
        environment: its name.
        description: `domain`, `action_space`, `action_space_schema`, `observation` and `native` of
            the environment, as far as the server knows them.
        token: fencing token.
        failure: the first failure seen on this lease.
    """

    def __init__(self, connection: Transport, environment: str, created: Mapping[str, Any]) -> None:
        self._connection = connection
        self.server = connection.url
        self.environment = environment
        self.id: str = created["lease"]
        self.token: str = created["token"]
        self.instance: str = f"{environment}@{created['instance']}"
        self.description = {key: created.get(key) for key in _DESCRIBED}
        self.failure: EnvironmentFailure | None = None
        self._episode = ""
        self._unfinished = False

    @classmethod
    async def create(
        cls,
        server_url: str,
        *,
        environment: str,
        params: Mapping[str, Any] | None = None,
        key: str,
        ttl: float = 60.0,
        image_format: ImageFormat = "png",
        deadline: float,
        bearer: str | None = None,
        python: str | None = None,
        transport: TransportName = "auto",
        requires: Sequence[str] = (),
    ) -> Lease:
        """Lease an instance; its boot counts inside the deadline.

        Args:
            server_url: of an environment server.
            environment: registered name, or `module:attribute`.
            params: the environment's parameters.
            key: unique for this lease; asking again under it finds the same lease.
            ttl: seconds the lease lives without a call or heartbeat.
            image_format: encoding of screenshots.
            deadline: seconds.
            bearer: token of a server that wants one.
            python: interpreter of the worker, one that the server allows.
            transport: how calls travel; `auto` prefers the stream and falls back to HTTP.
            requires: what the environment's distribution must be at the server, e.g. `acme==1.2`.

        Raises:
            EnvironmentFailure: phase `create`; kind `full`, `timeout`, `unreachable`, …
            ConfigurationError: the server refuses the request for good.
        """
        connection = open_transport(server_url, bearer, transport)
        body = {
            "key": key,
            "environment": environment,
            "params": dict(params or {}),
            "ttl_s": ttl,
            "image_format": image_format,
            "python": python,
            **({"requires": list(requires)} if requires else {}),
        }
        try:
            created = await connection.call("create", body, deadline)
        except BaseException as error:
            known = isinstance(error, EnvironmentFailure | ConfigurationError)
            if not known or getattr(error, "kind", "") == "timeout":
                # the lease may exist without our knowing its name
                await finish(cancel(connection, key))
            await finish(connection.close())
            raise
        return cls(connection, environment, created)

    @property
    def healthy(self) -> bool:
        """Whether it can serve another episode: no failure seen, no call left unfinished."""
        return self.failure is None and not self._unfinished

    async def reset(self, *, episode: str, task: Task, seed: int, deadline: float) -> Observation:
        """Start an episode.

        Args:
            episode: unique name of the episode; the same name gets the same reply.
            task: handed to the environment as `options["task"]`.
            seed: of the environment.
            deadline: seconds.

        Raises:
            EnvironmentFailure: phase `reset`; kind `invalid` for a reply of another episode.
        """
        self._episode = episode

        def of_this_episode(values: Mapping[str, Any]) -> Observation:
            if values.get("episode") != episode:
                raise wire.WireError(f"a reply of episode {values.get('episode')!r}")
            return Observation.unpack(values)

        body = {"episode": episode, "task": task.to_json(), "seed": seed}
        return await self._call("reset", body, deadline, of_this_episode)

    # no coroutine of their own for the calls that are made most: each costs what encoding does

    def step(
        self, *, step: int, action: Mapping[str, Any], deadline: float
    ) -> Coroutine[Any, Any, Observation]:
        """Carry out one call of the agent.

        Args:
            step: number of the step in its episode, counted from 0.
            action: `{"name", "arguments"}`, coordinates in pixels.
            deadline: seconds.

        Raises:
            EnvironmentFailure: phase `step`.
        """
        body = {"step": step, "action": dict(action), "episode": self._episode}
        return self._call("step", body, deadline, Observation.unpack)

    def evaluate(self, *, deadline: float) -> Coroutine[Any, Any, StateCheck | None]:
        """The environment's reading of its final state, None where it has none.

        Raises:
            EnvironmentFailure: phase `evaluate`.
        """
        return self._call("evaluate", {}, deadline, _check)

    async def release(self, *, deadline: float = 10.0) -> None:
        """Give the lease back, even when cancelled meanwhile; never raises a failure."""
        try:
            await finish(self._release(deadline))
        finally:
            await finish(self._connection.close())

    async def _release(self, deadline: float) -> None:
        try:
            await self._connection.call("release", {}, deadline, lease=self.id, token=self.token)
        except EnvironmentFailure:
            pass  # the server reaps what it still holds

    async def _call(
        self,
        phase: str,
        body: dict[str, Any],
        deadline: float,
        read: Callable[[Mapping[str, Any]], T],
    ) -> T:
        self._unfinished = True
        try:
            values = await self._connection.call(
                phase, body, deadline, lease=self.id, token=self.token
            )
        except EnvironmentFailure as failure:
            self.failure = self.failure or failure
            raise
        self._unfinished = False
        try:
            return read(values)
        except wire.WireError as error:
            self.failure = EnvironmentFailure(
                str(error), phase=phase, kind="invalid", where=self.instance
            )
            raise self.failure from None


def _check(values: Mapping[str, Any]) -> StateCheck | None:
    check = values.get("check")
    return None if check is None else StateCheck(**check)
