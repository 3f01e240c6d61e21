"""Episodes of an environment in this process: resets, a random agent, state checks, the end."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mintact_platform.actions.space import ActionSpace, Call, ParseError
from mintact_platform.environments.protocol.wire import Observation
from mintact_platform.environments.worker.main import describe, seats
from mintact_platform.records.task import Task
from mintact_platform.testing.calls import sample_calls
from mintact_platform.testing.conformance import ConformanceError
from mintact_platform.testing.playing import Action, Case, Played, difference

STEPS = 20
"""Calls of a random agent in one episode."""
_TRACE = 3
_SEEDED = (
    "draw everything from self.np_random, which `super().reset(seed=seed)` seeds, "
    "and set all state anew in reset"
)


@contextmanager
def played(case: Case) -> Iterator[Played]:
    """An instance that is closed whatever happens."""
    instance = Played(case)
    try:
        yield instance
    except BaseException:
        with contextlib.suppress(ConformanceError):
            instance.close()
        raise
    instance.close()


def choose_actions(case: Case, instance: Played, space: ActionSpace | None) -> list[Action]:
    """What a random agent does: samples of the environment's own space, else of its agent's."""
    own = getattr(instance.environment, "action_space", None)
    if own is None:
        calls: list[Action] = [call.to_json() for call in sample_calls(space)] if space else []
        return (calls * STEPS)[:STEPS]
    own.seed(case.seed)
    actions: list[Action] = [own.sample() for _ in range(STEPS)]
    for action in actions:
        _check_call(case, own, action)
    if space is not None:
        _check_spoken(case, space, actions)
    return actions


def check_resets(case: Case, actions: Sequence[Action]) -> None:
    """The same seed shows the same, whatever was played before and beside it."""
    a, seed = case.tasks[0], case.seed_of(case.tasks[0])
    b, other = _another(case)
    with played(case) as one:
        _check_signature(case, one)
        first = one.reset(a, seed)
        _same(case, "the same task and seed show the same first observation", first,
              one.reset(a, seed), _SEEDED)  # fmt: skip
        trace = one.play(a, actions[:_TRACE])
        one.reset(b, other)
        one.play(b, actions[:_TRACE])
        _same(case, "an episode leaves nothing behind for the next one", first,
              one.reset(a, seed), _SEEDED)  # fmt: skip
    with played(case) as two:
        again = two.play(a, actions[:_TRACE])
        _same(case, "another instance starts the same episode alike", first, again[0], _SEEDED)
    steady = len(trace) > 1 and not difference(trace[1], again[1])
    if seats(describe(case.subject.target)) > 1 and steady:
        _check_apart(case, actions, trace)


def check_random_agent(case: Case, actions: Sequence[Action]) -> None:
    """A random agent plays every task; observations and state checks stay valid."""
    with played(case) as instance:
        for task in case.tasks:
            instance.reset(task, case.seed_of(task))
            _check_evaluation(case, instance)
            for action in actions:
                seen = instance.step(action)
                if seen.terminated or seen.truncated:
                    break
            _check_evaluation(case, instance)


def check_useless_calls(case: Case, actions: Sequence[Action]) -> None:
    """Arguments that are missing or of another type are answered, not raised.

    Where tools are called, nobody checks arguments before the environment does.
    """
    task = case.tasks[0]
    arguments_of = {str(action["name"]): action["arguments"] for action in actions}
    with played(case) as instance:
        for name, usual in arguments_of.items():
            useless: list[dict[str, Any]] = [{}, {"unknown": None}, {key: [] for key in usual}]
            for arguments in useless:
                instance.reset(task, case.seed_of(task))
                instance.step({"name": name, "arguments": arguments})


def check_end(case: Case, actions: Sequence[Action]) -> None:
    """Closing twice is fine, and a step after it does not take the process along."""
    instance = Played(case)
    instance.reset(case.tasks[0], case.seed_of(case.tasks[0]))
    close = getattr(instance.environment, "close", lambda: None)
    instance.call("close", close)
    instance.call("close", close)

    def step() -> Any:
        return instance.environment.step(dict(actions[0]))

    try:
        if actions:
            instance.call("step", step)
    except ConformanceError as error:
        if not isinstance(error.__cause__, Exception):
            raise case.error(
                "a step after close raises an exception or nothing",
                error.seen,
                "raise an ordinary exception; exiting or hanging costs the worker and all in it",
            ) from error
    finally:
        instance.close()


def _check_signature(case: Case, instance: Played) -> None:
    parameters = inspect.signature(instance.environment.reset).parameters
    missing = [name for name in ("seed", "options") if name not in parameters]
    if missing and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        raise case.error(
            "reset takes the keywords seed and options",
            f"{' and '.join(map(repr, missing))} missing in reset({', '.join(parameters)})",
            "def reset(self, *, seed=None, options=None); the task is options['task']",
        )


def _check_apart(case: Case, actions: Sequence[Action], trace: Sequence[Observation]) -> None:
    b, other = _another(case)
    with played(case) as one, played(case) as two:
        one.reset(case.tasks[0], case.seed_of(case.tasks[0]))
        two.reset(b, other)
        two.step(actions[0])
        _same(
            case,
            "instances of one worker share no state",
            trace[1],
            one.step(actions[0]),
            "keep state on self, not on the class or the module; or leave "
            "instances_per_worker out, so that each instance has a process of its own",
        )


def _check_evaluation(case: Case, instance: Played) -> None:
    first, second = instance.evaluate(), instance.evaluate()
    if first != second:
        raise case.error(
            "evaluate only reads",
            f"it says {first} and, asked again, {second}",
            "let evaluate compare the state and change nothing",
        )


def _check_call(case: Case, space: Any, action: Any) -> None:
    is_call = isinstance(action, Mapping) and {"name", "arguments"} <= action.keys()
    if not is_call:
        raise case.error(
            "actions are calls",
            f"the action space {space} samples {action!r:.80}",
            'step gets {"name": str, "arguments": dict}: use '
            "mintact_platform.environments.CallSpace; a registered environment of gymnasium's own "
            "kind is `gym/<id>` without any plugin",
        )


def _check_spoken(case: Case, space: ActionSpace, actions: Sequence[Action]) -> None:
    """Every sample is a call that the domain's agent can make."""
    describe_itself = getattr(space, "describe", None)
    if not callable(describe_itself) or describe_itself().get("style") != "ui":
        return
    for action in actions:
        parsed = space.parse(space.render("", Call(action["name"], action["arguments"])))
        if isinstance(parsed, ParseError):
            raise case.error(
                f"the samples of its action space are calls of {space.name!r}",
                f"{dict(action)!r:.120} is refused: {parsed.message}",
                "let CallSpace's examples be calls that the action space parses",
            )


def _another(case: Case) -> tuple[Task, int]:
    """Another episode than the first."""
    if len(case.tasks) > 1:
        return case.tasks[1], case.seed_of(case.tasks[1])
    return case.tasks[0], case.seed_of(case.tasks[0]) + 1


def _same(case: Case, check: str, one: Observation, other: Observation, fix: str) -> None:
    how = difference(one, other)
    if how:
        raise case.error(check, how, fix)
