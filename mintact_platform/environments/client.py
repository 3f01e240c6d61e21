"""The client's side of a lease: exclusive use of one environment instance over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mintact_platform.environments import wire
from mintact_platform.environments.connection import Connection, finish
from mintact_platform.environments.wire import ImageFormat, Observation
from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck


class Lease:
    """One leased instance, with an HTTP connection of its own: a shared pool costs ten times more.

    Every call has a deadline in seconds. A reply that gets lost is asked for again under the same
    name inside the deadline; the server answers from its record, so nothing is executed twice.

    Attributes:
        id: the lease's name at the server.
        instance: name of the instance, for logs and failures.
        server: URL.
        environment: its name.
        description: `domain` and `action_space` of the environment.
        token: fencing token.
        failure: the first failure seen on this lease.
    """

    def __init__(
        self, connection: Connection, environment: str, created: Mapping[str, Any]
    ) -> None:
        self._connection = connection
        self.server = connection.url
        self.environment = environment
        self.id: str = created["lease"]
        self.token: str = created["token"]
        self.instance: str = f"{environment}@{created['instance']}"
        self.description = {key: created.get(key) for key in ("domain", "action_space")}
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

        Raises:
            EnvironmentFailure: phase `create`; kind `full`, `timeout`, `unreachable`, …
            ConfigurationError: the server refuses the request for good.
        """
        connection = Connection(server_url, bearer)
        body = {
            "key": key,
            "environment": environment,
            "params": dict(params or {}),
            "ttl_s": ttl,
            "image_format": image_format,
            "python": python,
        }
        try:
            created = await connection.post("create", "/v1/leases", body, deadline)
        except BaseException as error:
            known = isinstance(error, EnvironmentFailure | ConfigurationError)
            if not known or getattr(error, "kind", "") == "timeout":
                # the lease may exist without our knowing its name
                await finish(connection.cancel(key))
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
            EnvironmentFailure: phase `reset`.
        """
        self._episode = episode
        body = {"episode": episode, "task": task.to_json(), "seed": seed}
        return await self._observe("reset", body, deadline)

    async def step(self, *, step: int, action: Mapping[str, Any], deadline: float) -> Observation:
        """Carry out one call of the agent.

        Args:
            step: number of the step in its episode, counted from 0.
            action: `{"name", "arguments"}`, coordinates in pixels.
            deadline: seconds.

        Raises:
            EnvironmentFailure: phase `step`.
        """
        body = {"step": step, "action": dict(action), "episode": self._episode}
        return await self._observe("step", body, deadline)

    async def evaluate(self, *, deadline: float) -> StateCheck | None:
        """The environment's reading of its final state, None where it has none.

        Raises:
            EnvironmentFailure: phase `evaluate`.
        """
        check = (await self._call("evaluate", {}, deadline)).get("check")
        return None if check is None else StateCheck(**check)

    async def release(self, *, deadline: float = 10.0) -> None:
        """Give the lease back, even when cancelled meanwhile; never raises a failure."""
        try:
            await finish(self._release(deadline))
        finally:
            await finish(self._connection.close())

    async def _release(self, deadline: float) -> None:
        try:
            await self._connection.request(
                "close", "DELETE", f"/v1/leases/{self.id}", None, deadline, token=self.token
            )
        except EnvironmentFailure:
            pass  # the server reaps what it still holds

    async def _observe(self, phase: str, body: Mapping[str, Any], deadline: float) -> Observation:
        values = await self._call(phase, body, deadline)
        try:
            return Observation.unpack(values)
        except wire.WireError as error:
            self.failure = EnvironmentFailure(
                str(error), phase=phase, kind="invalid", where=self.instance
            )
            raise self.failure from None

    async def _call(self, phase: str, body: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        self._unfinished = True
        try:
            values = await self._connection.post(
                phase, f"/v1/leases/{self.id}/{phase}", body, deadline, token=self.token
            )
        except EnvironmentFailure as failure:
            self.failure = self.failure or failure
            raise
        self._unfinished = False
        return values
