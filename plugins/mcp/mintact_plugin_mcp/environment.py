"""Tools of one or several servers as an environment; what the goal was, judges say."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from mcp.types import CallToolResult

from mintact_platform.environments.settings import Count, Seconds
from mintact_platform.errors import ConfigurationError, EnvironmentFailure, near_match
from mintact_platform.records.verdict import StateCheck
from mintact_plugin_mcp.connection import Connection
from mintact_plugin_mcp.offering import Choice, Offer, found, named, schema
from mintact_plugin_mcp.results import cut, read_check, read_result
from mintact_plugin_mcp.servers import read_servers

Observation = dict[str, Any]
Info = dict[str, Any]
Stepped = tuple[Observation, float, bool, bool, Info]


class McpTools:
    """The tools of Model Context Protocol servers; every reward is 0.

    An `AsyncEnvironment`: many share a worker. A program is started anew for every episode, in an
    empty directory, with few environment variables; it ends with the episode and everything it
    started ends with it. An address is connected to anew. What a tool or its server says against
    a call is told to the agent; a server that dies, hangs or answers garbage fails the episode.

    A task's `params` may hold `setup`, a list of calls `{name, arguments}` made before the
    episode, and `check`, a call made after it, whose answer is the state check. The agent is
    offered neither tool.

    Args:
        command: program of a server that speaks on standard input and output.
        args: its arguments.
        env: its variables; `${NAME}` is filled in from the worker's own.
        cwd: its working directory, kept over episodes.
        url: of a server that speaks streamable HTTP, in place of a program.
        headers: of its requests; `${NAME}` is filled in.
        servers: several by name, each `{command, args, env, cwd}` or `{url, headers}`; the tools
            are called `<server>__<tool>` then.
        allow: patterns of names of tools that are offered; None offers all.
        deny: patterns of names of tools that are not.
        on_timeout: a call without an answer `fail`s the episode or is `show`n to the agent.
        start_seconds: until all servers have listed their tools.
        call_seconds: until the answer to a step, news of changed tools included.
        max_bytes: of one message.
        max_text: characters of an answer that are shown.

    Raises:
        ConfigurationError: a server cannot be as described.
    """

    metadata: Mapping[str, Any] = {
        "mintact": {"domain": "tools", "action_space": "tool_use", "instances_per_worker": 16}
    }

    def __init__(
        self,
        *,
        command: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        servers: Mapping[str, Mapping[str, Any]] | None = None,
        allow: Sequence[str] | None = None,
        deny: Sequence[str] = (),
        on_timeout: Literal["fail", "show"] = "fail",
        start_seconds: Seconds = 30.0,
        call_seconds: Seconds = 20.0,
        max_bytes: Count = 16 << 20,
        max_text: int = 20_000,
    ) -> None:
        one = {"command": command, "args": list(args), "env": env, "cwd": cwd}
        self._servers = read_servers({**one, "url": url, "headers": headers}, servers)
        self._allow, self._deny = allow, deny
        self._shows_timeouts = on_timeout == "show"
        self._start_s, self._call_s = start_seconds, call_seconds
        self._max_bytes, self._max_text = max_bytes, max_text
        self._held = contextlib.AsyncExitStack()
        self._connections: dict[str, Connection] = {}
        self._listed: dict[str, Offer] = {}
        self._known: list[dict[str, Any]] = []
        self._choice = Choice(allow, deny)
        self._task: Mapping[str, Any] = {}

    async def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Start the servers anew and play the task's `setup`."""
        await self.close()
        self._task = ((options or {}).get("task") or {}).get("params", {})
        setup = self._task.get("setup") or []
        check = self._task.get("check")
        hidden = frozenset(_call(call)[0] for call in [*setup, *([check] if check else [])])
        self._choice = Choice(self._allow, self._deny, hidden)
        ends = _now() + self._start_s
        await self._open()
        await self._list("reset", ends)
        for call in setup:
            name, arguments = _call(call)
            result = await self._play(name, arguments, "reset", _now() + self._call_s)
            if result.is_error:
                said = read_result(result, 300).text
                raise EnvironmentFailure(f"setup {name!r}: {said}", phase="reset", kind="setup")
        if setup:
            await self._list("reset", _now() + self._call_s)
        self._known = []
        return {"text": ""}, {"tools": [], **self._news()}

    async def step(self, action: Mapping[str, Any]) -> Stepped:
        """Play one call; `terminate` ends the episode, what is no tool here is refused."""
        name, arguments = str(action.get("name")), action.get("arguments")
        if name == "terminate":
            return {"text": "ended by you"}, 0.0, True, False, {}
        ends = _now() + self._call_s
        if any(connection.changed for connection in self._connections.values()):
            await self._list("step", ends)
        if not isinstance(arguments, Mapping):
            observation, info = _told("refused: the arguments must be an object")
        elif name in self._offers():
            observation, info = await self._called(name, arguments, ends)
        else:
            observation, info = self._own(name, arguments)
        heard = not any(connection.news_unheard for connection in self._connections.values())
        if not heard and _now() < ends:
            await self._list("step", ends)
        return observation, 0.0, False, False, {**info, **self._news()}

    async def evaluate(self) -> StateCheck | None:
        """What the task's `check` answers; None where it has none."""
        check = self._task.get("check")
        if not check:
            return None
        name, arguments = _call(check)
        result = await self._play(name, arguments, "evaluate", _now() + self._call_s)
        try:
            return read_check(result)
        except ValueError as error:
            message = f"{name!r} answers no state check: {error}"
            raise EnvironmentFailure(message, phase="evaluate", kind="invalid") from None

    async def close(self) -> None:
        """End the servers, or the sessions with them."""
        self._listed = {}
        connections, self._connections = self._connections, {}
        held, self._held = self._held, contextlib.AsyncExitStack()
        try:
            await asyncio.gather(*(connection.close() for connection in connections.values()))
        finally:
            await held.aclose()

    async def _open(self) -> None:
        folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="mcp-")
        self._held.push_async_callback(asyncio.to_thread, folder.cleanup)
        for name, server in self._servers.items():
            directory = Path(folder.name) / name
            directory.mkdir()
            self._connections[name] = Connection(name, server, directory, self._max_bytes)
        opening = (connection.open(self._start_s) for connection in self._connections.values())
        # all are waited for, so that none is left behind half open
        for outcome in await asyncio.gather(*opening, return_exceptions=True):
            if isinstance(outcome, BaseException):
                await self.close()
                raise outcome

    async def _list(self, phase: str, ends: float) -> None:
        tools = {n: await c.tools(phase, _left(ends)) for n, c in self._connections.items()}
        self._listed = named(tools)

    def _news(self) -> Info:
        """The callable tools, if the agent knows others."""
        schemas = [schema(name, offer.tool) for name, offer in self._offers().items()]
        if schemas == self._known:
            return {}
        self._known = schemas
        return {"tools": schemas}

    def _own(self, name: str, arguments: Mapping[str, Any]) -> tuple[Observation, Info]:
        """A call that no server answers."""
        if name == "answer":
            return _told("told to the user", answer=str(arguments.get("text", "")))
        offers = self._offers()
        if name == "search_tool":
            return _told(cut(found(offers, str(arguments.get("query", ""))), self._max_text))
        return _told(f"refused: no tool named {name!r}; {near_match(name, offers)}")

    async def _called(
        self, name: str, arguments: Mapping[str, Any], ends: float
    ) -> tuple[Observation, Info]:
        try:
            result = await self._play(name, arguments, "step", ends)
        except EnvironmentFailure as failure:
            if failure.kind == "timeout" and self._shows_timeouts:
                return _told(f"error: no answer within {self._call_s:g} s")
            raise
        shown = read_result(result, self._max_text)
        info: Info = {"error": True} if result.is_error else {}
        return {"text": shown.text, "images": shown.images}, info

    async def _play(
        self, name: str, arguments: Mapping[str, Any], phase: str, ends: float
    ) -> CallToolResult:
        offer = self._listed.get(name)
        if offer is None:
            hint = near_match(name, self._listed)
            raise ConfigurationError(f"no tool named {name!r}", where="mcp/tools", next=hint)
        connection = self._connections[offer.server]
        return await connection.call(offer.tool.name, dict(arguments), phase, _left(ends))

    def _offers(self) -> dict[str, Offer]:
        return {n: offer for n, offer in self._listed.items() if self._choice.offers(n)}


_SOON_S = 0.05
"""What a call gets that comes after the time of its step is over."""


def _now() -> float:
    return asyncio.get_running_loop().time()


def _left(ends: float) -> float:
    """Seconds until then; the calls of one step share its time, which the worker's bounds."""
    return max(_SOON_S, ends - _now())


def _call(values: Any) -> tuple[str, dict[str, Any]]:
    """A call of a task's `setup` or `check`.

    Raises:
        ConfigurationError: it is none.
    """
    if not isinstance(values, Mapping) or not isinstance(values.get("name"), str):
        raise ConfigurationError(
            f"no call: {values!r}", where="task", next="write {name, arguments}"
        )
    return values["name"], dict(values.get("arguments") or {})


def _told(text: str, **info: Any) -> tuple[Observation, Info]:
    return {"text": text}, info
