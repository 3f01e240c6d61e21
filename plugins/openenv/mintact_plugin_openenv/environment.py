"""A session of an OpenEnv server as an environment: its actions are the agent's tools."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mintact_platform.environments.settings import Count, Seconds
from mintact_platform.errors import ConfigurationError, EnvironmentFailure, near_match
from mintact_plugin_openenv import calling
from mintact_plugin_openenv.reading import cut, read_observation, refusal, tool_result
from mintact_plugin_openenv.session import Reply, Session, with_variables

Observation = dict[str, Any]
Info = dict[str, Any]
_SHOWN_ERRORS = ("tool_not_found", "invalid_args", "execution_error", "timeout")
"""Errors of a called tool that are the agent's to deal with."""


class OpenEnv:
    """A session of a running OpenEnv server; rewards are the server's own.

    An `AsyncEnvironment`: many share a worker. The agent gets one tool whose arguments are the
    server's action, or, of a server of the Model Context Protocol, the tools that it lists. What
    the server's model of an action refuses is told to the agent; all else that goes wrong is the
    environment's failure.

    Args:
        url: of the server, `http://host:port`.
        tools: `schema` offers the action, `mcp` the listed tools, `auto` asks the schema.
        tool_name: of the one tool.
        fixed: fields of every action that the agent does not choose.
        fields: of the observation, to show; None shows all.
        headers: of the connection; `${NAME}` is an environment variable.
        on_error: an exception of the server's environment at a step, which `fail`s the episode or
            is `show`n to the agent.
        open_seconds: until a session is free, until the schema is here, until tools are listed.
        reset_seconds: until the first observation.
        call_seconds: until the observation of a step.
        max_bytes: of one message.
        max_text: characters of an observation that are shown.
    """

    metadata: Mapping[str, Any] = {
        "mintact": {"domain": "tools", "action_space": "tool_use", "instances_per_worker": 32}
    }

    def __init__(
        self,
        *,
        url: str,
        tools: Literal["auto", "schema", "mcp"] = "auto",
        tool_name: str = "act",
        fixed: Mapping[str, Any] | None = None,
        fields: Sequence[str] | None = None,
        headers: Mapping[str, str] | None = None,
        on_error: Literal["fail", "show"] = "fail",
        open_seconds: Seconds = 8.0,
        reset_seconds: Seconds = 30.0,
        call_seconds: Seconds = 25.0,
        max_bytes: Count = 64 << 20,
        max_text: int = 20_000,
    ) -> None:
        if tool_name == "terminate":
            raise ConfigurationError("a tool of that name ends the episode", where="tool_name")
        filled = with_variables(headers, "openenv/ws headers")
        self._session = Session(url, headers=filled, max_bytes=max_bytes)
        self._kind, self._tool_name = tools, tool_name
        self._fixed, self._fields = dict(fixed or {}), fields
        self._shows_errors, self._max_text = on_error == "show", max_text
        self._open_s, self._reset_s, self._call_s = open_seconds, reset_seconds, call_seconds
        self._schema: dict[str, Any] | None = None
        self._tools: list[calling.Schema] = []
        self._return = 0.0

    async def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Start an episode; `options["task"]["params"]["reset"]` are the server's own options."""
        task = (options or {}).get("task") or {}
        data: dict[str, Any] = {"episode_id": secrets.token_hex(8)}
        data |= {} if seed is None else {"seed": seed}
        data |= task.get("params", {}).get("reset") or {}
        if not self._session.is_open:
            await self._session.open(self._open_s)
        if self._schema is None:
            self._schema = await self._session.schema(self._open_s)
        reply = await self._ask("reset", data, "reset", self._reset_s)
        if reply.code:
            raise self._session.failure(reply, "reset")
        self._return = 0.0
        self._tools = await self._offered(self._schema)
        observation, _ = await self._shown(reply, "reset")
        return observation, {"tools": self._tools}

    async def step(self, action: Mapping[str, Any]) -> tuple[Observation, float, bool, bool, Info]:
        """Play one call; `terminate` ends the episode, what is no action here is refused."""
        name, arguments = action.get("name"), action.get("arguments")
        if name == "terminate":
            return {"text": "ended by you"}, 0.0, True, False, self._info()
        known = calling.names(self._tools)
        if name not in known:
            return self._refused(f"no tool named {name!r}; {near_match(str(name), known)}")
        if not isinstance(arguments, Mapping):
            return self._refused("the arguments must be an object")
        reply = await self._ask("step", self._action(str(name), arguments), "step", self._call_s)
        if reply.code == "VALIDATION_ERROR":
            return self._refused(refusal(reply.data, self._max_text))
        if reply.code == "EXECUTION_ERROR" and self._shows_errors:
            return self._refused(reply.message)
        if reply.code:
            raise self._session.failure(reply, "step")
        observation, cut_short = await self._shown(reply, "step")
        reward = reply.data.get("reward")
        if reward is not None and not isinstance(reward, int | float):
            raise _invalid(f"a reward is a number, got {str(reward)[:80]!r}", "step")
        earned, done = float(reward or 0.0), bool(reply.data.get("done"))
        self._return += earned
        return observation, earned, done and not cut_short, done and cut_short, self._info()

    async def close(self) -> None:
        """End the session."""
        await self._session.close()

    async def _ask(self, kind: str, data: Mapping[str, Any], phase: str, seconds: float) -> Reply:
        return await self._session.ask(kind, data, phase=phase, seconds=seconds)

    async def _offered(self, schema: Mapping[str, Any]) -> list[calling.Schema]:
        if self._kind == "auto":
            self._kind = "mcp" if calling.is_tool_call(schema) else "schema"
        if self._kind == "schema":
            return [calling.act_tool(schema, self._tool_name, self._fixed)]
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        reply = await self._ask("mcp", request, "reset", self._open_s)
        if reply.code:
            raise self._session.failure(reply, "reset")
        try:
            return calling.listed_tools(reply.data)
        except ValueError as error:
            raise _invalid(f"lists no tools: {error}", "reset") from None

    def _action(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if self._kind == "mcp":
            return {**calling.tool_call(name, arguments), **self._fixed}
        return {**arguments, **self._fixed}

    async def _shown(self, reply: Reply, phase: str) -> tuple[Observation, bool]:
        """The observation, and whether it says that an episode which ended was cut."""
        seen = reply.data.get("observation")
        if not isinstance(seen, Mapping):
            raise _invalid("the observation is no object", phase)
        cut_short = seen.get("truncated") is True
        if self._kind == "mcp" and phase == "step":
            error = seen.get("error")
            if isinstance(error, Mapping):
                return {"text": self._tool_error(error)}, cut_short
            seen = tool_result(seen) if "result" in seen else seen
        # decoding pictures takes long enough to be felt by those who share the worker
        shown = await asyncio.to_thread(read_observation, seen, self._fields, self._max_text)
        return {"text": shown.text, "images": shown.pictures}, cut_short

    def _tool_error(self, error: Mapping[str, Any]) -> str:
        if error.get("error_type") not in _SHOWN_ERRORS:
            raise EnvironmentFailure(
                f"a tool failed: {error.get('message')}",
                phase="step",
                kind=str(error.get("error_type")),
            )
        return cut(f"error: {error.get('message')}", self._max_text)

    def _refused(self, why: str) -> tuple[Observation, float, bool, bool, Info]:
        return {"text": f"refused: {why}"}, 0.0, False, False, {**self._info(), "refused": why}

    def _info(self) -> Info:
        return {"return": self._return}


def _invalid(what: str, phase: str) -> EnvironmentFailure:
    return EnvironmentFailure(what, phase=phase, kind="invalid")
