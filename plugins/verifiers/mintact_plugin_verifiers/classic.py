"""Environments of verifiers before 0.4: a module's `load_environment()`, and a rubric.

An environment's `rollout` asks a client, which is ours. Imports verifiers, so that nothing here is
imported before an environment is wanted.
"""

from __future__ import annotations

import functools
import inspect
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import verifiers as vf
from verifiers.clients import Client
from verifiers.types import Response, ResponseMessage, ToolCall

from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_plugin_verifiers.messages import Messages, arguments_text
from mintact_plugin_verifiers.rollout import MODEL, Call, Question, Rollout, Score

Raised = list[tuple[str, Exception]]
_raised: ContextVar[Raised] = ContextVar("raised")
"""Where reward functions note what they raise; set around a scoring."""

_TAKEN = (signal.SIGINT, signal.SIGTERM)
_NEEDED = ("rollout", "rubric", "get_dataset")
_SERVICES = frozenset(("openai", "anthropic", "httpx", "aiohttp", "prime_sandboxes"))


class Ended(vf.Error):  # type: ignore[misc]  # verifiers is not installed where types are checked
    """The agent ended the episode; verifiers stops a rollout for any error of its own kind."""


class ClassicEnvironment:
    """A loaded environment whose reward functions note their errors.

    Args:
        id: as for `vf.load_environment`.
        args: keyword arguments of the environment's own `load_environment`.

    Raises:
        ConfigurationError: it cannot be loaded, or cannot be played one rollout at a time.
    """

    def __init__(self, id: str, args: Mapping[str, Any]) -> None:
        self._environment = _load(id, args)
        self.threshold = float(getattr(self._environment, "pass_threshold", 0.5))

    def rows(self, part: str) -> Sequence[Any]:
        """The dataset of a part; `eval` never falls back on the other."""
        name = "dataset" if part == "train" else "eval_dataset"
        known = (getattr(self._environment, key, None) for key in (name, f"{name}_source"))
        if all(source is None for source in known):
            # asked for it, verifiers would give the other dataset: training rows would be tested
            raise ConfigurationError(f"it has no {name}", where="verifiers environment")
        rows: Sequence[Any] = (
            self._environment.get_dataset()
            if part == "train"
            else self._environment.get_eval_dataset()
        )
        return rows

    def prompt(self, row: Mapping[str, Any]) -> Messages | str:
        """The row's prompt."""
        return row.get("prompt") or ()

    async def begin(self, row: Mapping[str, Any]) -> Rollout:
        """A rollout of the row."""
        return ClassicRollout(self._environment, row)

    async def close(self) -> None:
        """Release it as verifiers does when the interpreter ends, which a worker does not await."""
        await self._environment._teardown()


class ClassicRollout(Rollout):
    """A rollout of a classic environment.

    Args:
        environment: a `vf.Environment`.
        row: of its dataset.
    """

    def __init__(self, environment: Any, row: Mapping[str, Any]) -> None:
        super().__init__()
        self._environment, self._row = environment, dict(row)

    async def score(self) -> Score | None:
        """Have the rubric score it."""
        state, environment = await self._ended(), self._environment
        _check(state.get("error"))
        if not getattr(environment, "score_rollouts", True):
            return None
        if not self.answered:
            return _score(state, 0.0, {}, ())
        notes: Raised = []
        token = _raised.set(notes)
        try:
            await environment.rubric.score_rollout(state)
            await environment.rubric.cleanup(state)
        finally:
            _raised.reset(token)
        for name, error in notes:
            if broken := _outage(error):
                raise EnvironmentFailure(
                    f"reward function {name!r} could not be computed: {broken}",
                    phase="evaluate",
                    kind=type(broken).__name__,
                )
        return _score(state, float(state.get("reward") or 0.0), state.get("metrics"), notes)

    async def _play(self) -> Any:
        state = await self._environment.rollout(self._row, _Agent(self.ask), MODEL, {})
        if isinstance(state.get("error"), Ended):
            state["error"], state["stop_condition"] = None, "ended_by_agent"
        return state

    def _reply(self, question: Question, text: str, call: Call | None) -> None:
        calls = None
        if call is not None:
            arguments = arguments_text(call.arguments)
            calls = [ToolCall(id=call.id, name=call.name, arguments=arguments)]
        message = ResponseMessage(
            content=text,
            tool_calls=calls,
            finish_reason="tool_calls" if calls else "stop",
            is_truncated=False,
        )
        number = f"response_{self._answers}"
        question.reply.set_result(
            Response(id=number, created=int(time.time()), model=MODEL, message=message)
        )

    def _refuse(self, question: Question) -> None:
        question.reply.set_exception(Ended("the agent ended the episode"))


class _NoApi:
    """Stands for a model's API where an environment reaches behind the client."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"this environment calls the model's API itself (.{name}); "
            "it can only be played where it asks through its client"
        )


class _Agent(Client):  # type: ignore[misc]  # verifiers is not installed where types are checked
    """The client that asks our agent; only `get_response` is ever called."""

    def __init__(self, ask: Callable[[Messages, Any], Awaitable[Any]]) -> None:
        super().__init__(_NoApi())
        self._ask = ask

    async def get_response(
        self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **more: Any
    ) -> Any:
        return await self._ask(prompt, tools)

    async def close(self) -> None:
        """Nothing is open."""

    def setup_client(self, config: Any) -> Any:
        raise NotImplementedError

    async def to_native_tool(self, tool: Any) -> Any:
        raise NotImplementedError

    async def to_native_prompt(self, messages: Any) -> Any:
        raise NotImplementedError

    async def get_native_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def raise_from_native_response(self, response: Any) -> None:
        raise NotImplementedError

    async def from_native_response(self, response: Any) -> Any:
        raise NotImplementedError


def _load(id: str, args: Mapping[str, Any]) -> Any:
    where = f"verifiers environment {id!r}"
    try:
        with _signals_kept():
            environment = vf.load_environment(id, **args)
    except Exception as error:
        lines = str(error).strip().splitlines()
        raise ConfigurationError(
            f"{type(error).__name__}: {lines[0] if lines else ''}", where=where, next="mend `args`"
        ) from error
    if not all(hasattr(environment, name) for name in _NEEDED):
        raise ConfigurationError(
            f"load_environment gave a {type(environment).__name__}, which plays no rollout",
            where=where,
        )
    if getattr(environment, "requires_group_rollouts", False):
        raise ConfigurationError(
            "its rubric scores a group of rollouts at once, and a lease plays one",
            where=where,
            next="leave group reward functions out, and compare rewards in an advantage",
        )
    for rubric in _rubrics(environment):
        rubric.funcs[:] = [_noting(function) for function in rubric.funcs]
    return environment


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Give back the signal handlers that every verifiers environment replaces by its own."""
    if threading.current_thread() is not threading.main_thread():
        yield  # it refuses to be made there, and says so
        return
    before = [(number, signal.getsignal(number)) for number in _TAKEN]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _rubrics(environment: Any) -> Iterator[Any]:
    """Every rubric that holds reward functions, of a group of environments too."""
    waiting = [environment.rubric, *(e.rubric for e in getattr(environment, "envs", ()))]
    seen: set[int] = set()
    while waiting:
        rubric = waiting.pop()
        if id(rubric) in seen:
            continue
        seen.add(id(rubric))
        waiting += getattr(rubric, "rubrics", ())
        if hasattr(rubric, "funcs"):
            yield rubric


def _noting(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    name = getattr(function, "__name__", repr(function))

    @functools.wraps(function)
    async def noting(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result
        except Exception as error:
            _raised.get([]).append((name, error))
            raise

    return noting


def _outage(error: BaseException | None) -> BaseException | None:
    """The broken service behind an error; None when only the agent's words were to blame.

    verifiers reads every error of a reward function as reward 0, which is right for an answer that
    cannot be parsed and wrong for a judge that could not be reached.
    """
    while error is not None:
        package = type(error).__module__.partition(".")[0]
        if isinstance(error, OSError | vf.InfraError | vf.ModelError) or package in _SERVICES:
            return error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


def _check(error: Any) -> None:
    """Tell an error of the environment's from one that the agent's own calls made.

    Raises:
        EnvironmentFailure: for the first.
    """
    if error is None or (isinstance(error, vf.ToolError) and _outage(error) is None):
        return
    broken = (_outage(error) if isinstance(error, BaseException) else None) or error
    raise EnvironmentFailure(str(broken) or repr(broken), phase="step", kind=type(broken).__name__)


def _score(state: Any, reward: float, metrics: Any, notes: Any) -> Score:
    stop, turns = str(state.get("stop_condition") or ""), len(state.get("trajectory") or ())
    last = state.get("final_env_response") or ()
    return Score(
        reward,
        {str(name): float(value) for name, value in (metrics or {}).items()},
        stop,
        stop == "timeout_reached" or (stop == "max_turns_reached" and turns > 1),
        {name: f"{type(error).__name__}: {error}" for name, error in notes},
        [{"role": "user", "content": last}] if isinstance(last, str) else last,
    )
