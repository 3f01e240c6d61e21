"""Environments of verifiers 0.4 (its `v1` API): a taskset, a harness, and an episode.

An episode's agent program asks a model over HTTP, which is ours. Imports verifiers, so that nothing
here is imported before an environment is wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import verifiers.v1 as vf

from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_plugin_verifiers.endpoint import Endpoint
from mintact_plugin_verifiers.messages import Messages, arguments_text
from mintact_plugin_verifiers.rollout import MODEL, Call, Question, Rollout, Score

_THRESHOLD = 0.5
_ENDLESS = 1024
"""Rows that are taken of a taskset without an end."""
_DEFAULT_HARNESS = "bash"
"""What verifiers gives a taskset that brings no harness; it runs commands on this machine."""
_AGENT: Mapping[str, Any] = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
"""What we give it instead: a plain chat with the task's own tools."""


class EpisodeEnvironment:
    """A loaded taskset with its environment.

    Args:
        id: of the taskset.
        args: the environment's configuration, as under `[env]` of verifiers' own files.

    Raises:
        ConfigurationError: it cannot be loaded, or has more than one seat for our agent.
    """

    threshold = _THRESHOLD

    def __init__(self, id: str, args: Mapping[str, Any]) -> None:
        where = f"verifiers environment {id!r}"
        try:
            config = vf.resolve_env_config(_configuration(id, args))
            self._environment = vf.load_environment(config)
        except Exception as error:
            lines = str(error).strip().splitlines()
            told = "; ".join(line.strip() for line in lines[:3])
            raise ConfigurationError(
                f"{type(error).__name__}: {told}", where=where, next="mend `args`"
            ) from error
        self._seat = _seat(config, where)
        self._rows: list[Any] | None = None
        self._endpoint = Endpoint(self._ask)
        self._rollout: Rollout | None = None
        self._serving: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._url = ""

    def rows(self, part: str) -> Sequence[Any]:
        """The taskset's tasks, which are all of one part."""
        if part != "train":
            raise ConfigurationError(
                "a taskset has one list of tasks",
                where="verifiers environment",
                next="hold some out: task_params = { heldout = N }",
            )
        if self._rows is None:
            taskset = self._environment.taskset
            self._rows = list(taskset if taskset.bounded else taskset.take(_ENDLESS))
        return self._rows

    def prompt(self, row: Any) -> Messages | str:
        """System prompt and prompt of the task; nothing where a user opens the conversation."""
        data = row.data
        opening = [{"role": "system", "content": data.system_prompt}] if data.system_prompt else []
        if isinstance(data.prompt, str):
            return [*opening, {"role": "user", "content": data.prompt}]
        said = [message.model_dump() for message in data.prompt or ()]
        return [*opening, *said]

    async def begin(self, row: Any) -> Rollout:
        """An episode of the task; what all episodes share is brought up with the first."""
        if self._serving is None:
            self._url = await self._endpoint.open()
            up = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(up))
            await up
        client = vf.EvalClientConfig(base_url=self._url, api_key_var="MINTACT_NO_API_KEY")
        # imported by the name that both releases with this API have
        from verifiers.v1.clients import ModelContext

        context = ModelContext(model=MODEL, client=client)
        self._rollout = EpisodeRollout(self._environment, row, context, self._seat)
        return self._rollout

    async def close(self) -> None:
        """Take down what the episodes shared."""
        self._closing.set()
        if self._serving is not None:
            await self._serving
        await self._endpoint.close()

    async def _serve(self, up: asyncio.Future[None]) -> None:
        """Hold verifiers' shared resources; entered and left by one task, as they require."""
        try:
            async with self._environment.serving():
                up.set_result(None)
                await self._closing.wait()
        except Exception as error:
            if up.done():
                raise
            up.set_exception(error)

    async def _ask(self, messages: Messages, tools: Any) -> Any:
        assert self._rollout is not None
        return await self._rollout.ask(messages, tools)


class EpisodeRollout(Rollout):
    """An episode.

    Args:
        environment: a `vf.Env` that is serving.
        task: of its taskset.
        context: names our endpoint as the model.
        seat: name of the agent that we play.
    """

    def __init__(self, environment: Any, task: Any, context: Any, seat: str) -> None:
        super().__init__()
        self._environment, self._row, self._context, self._seat = environment, task, context, seat

    async def score(self) -> Score | None:
        """The rewards that verifiers recorded on our agent's trace."""
        episode = await self._ended()
        if not self.answered:
            return Score(0.0, stop="ended_by_agent")
        traces = [trace for trace in episode.traces if _name(trace) == self._seat]
        errors = [trace.last_error for trace in traces] + [episode.last_error]
        for error in errors:
            if error is not None:
                raise EnvironmentFailure(error.message, phase="step", kind=error.type)
        if len(traces) != 1:
            raise EnvironmentFailure(
                f"{len(traces)} rollouts of {self._seat!r} in one episode, a lease plays one",
                phase="step",
            )
        (trace,) = traces
        rewards = {name: reward.value for name, reward in trace.rewards.items() if reward}
        metrics = {name: value for name, value in trace.metrics.items() if value is not None}
        stop = str(trace.stop_condition or "")
        return Score(float(trace.reward), {**rewards, **metrics}, stop, bool(trace.is_truncated))

    async def _play(self) -> Any:
        return await self._environment.run_episode(self._row, self._context)

    def _reply(self, question: Question, text: str, call: Call | None) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if call is not None:
            function = {"name": call.name, "arguments": arguments_text(call.arguments)}
            message["tool_calls"] = [{"id": call.id, "type": "function", "function": function}]
        question.reply.set_result(message)

    def _refuse(self, question: Question) -> None:
        # an answer without a call is how a chat ends
        question.reply.set_result({"role": "assistant", "content": ""})


def _configuration(id: str, args: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(args)
    given["taskset"] = {"id": id, **given.get("taskset", {})}
    if not given.get("id") and vf.default_harness_id(id) == _DEFAULT_HARNESS:
        given["agent"] = {**_AGENT, **given.get("agent", {})}
    return given


def _seat(config: Any, where: str) -> str:
    """The one agent that has no model of its own."""
    agents = {name: seat for name, seat in config if isinstance(seat, vf.AgentConfig)}
    ours = [name for name, seat in agents.items() if seat.model is None]
    if len(ours) != 1:
        raise ConfigurationError(
            f"it seats {len(ours)} agents without a model of their own ({', '.join(ours)}), and a "
            "lease plays one",
            where=where,
            next="give the others `model` and `client` in `args`",
        )
    (ours_alone,) = ours
    return str(ours_alone)


def _name(trace: Any) -> str:
    return "agent" if trace.agent is None else str(trace.agent.name)
