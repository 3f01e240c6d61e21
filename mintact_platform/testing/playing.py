"""One instance of an environment in this process, driven as a worker drives it."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mintact_platform.environments.protocol.wire import EncodedImage, Observation
from mintact_platform.environments.worker.encoding import (
    InvalidObservation,
    from_reset,
    from_step,
)
from mintact_platform.environments.worker.instance import is_async
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck
from mintact_platform.testing.apart import Apart, Late
from mintact_platform.testing.conformance import ConformanceError, Subject

Action = Mapping[str, Any]

SECONDS = 60.0
"""A call into the environment may take so long."""
_FIXES = {
    "create": "the constructor takes parameters and opens nothing that may be missing; "
    "what this machine lacks is told by `missing()`",
    "reset": "reset has to work for every task of its set, which is `options['task']`, and for "
    "every seed",
    "step": "what an agent does must never raise: answer with a text that says what was wrong",
    "evaluate": "evaluate has to work at any time after reset; it returns a StateCheck or None",
    "close": "close has to work at any time, also twice",
}


class Case(NamedTuple):
    """What is checked, and with what.

    Attributes:
        subject: the environment.
        tasks: to play; at least one.
        seed: of the resets, where a task names none.
    """

    subject: Subject
    tasks: Sequence[Task]
    seed: int

    def seed_of(self, task: Task) -> int:
        """Seed of the task's reset."""
        return self.seed if task.seed is None else task.seed

    def error(self, check: str, seen: str, fix: str) -> ConformanceError:
        """The failure of a check."""
        return self.subject.error(check, seen=seen, fix=fix)


class Played:
    """An instance; whatever it does wrong is a `ConformanceError`.

    Args:
        case: what is checked.

    Attributes:
        environment: the instance itself.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._hangs = False
        target, params = case.subject.target, dict(case.subject.params)
        self._apart = Apart(loop=is_async(target))
        self.environment = self.call("create", lambda: target(**params))
        if is_async(self.environment) and not is_async(target):
            self._apart.close()
            self._apart = Apart(loop=True)

    def call(self, phase: str, work: Callable[[], Any]) -> Any:
        """Carry out work on the instance's own thread, within a deadline."""
        check = f"{phase} ends well"
        try:
            return self._apart.call(work, SECONDS)
        except Late as late:
            self._hangs = True
            fix = "give every wait in it a deadline; the platform kills a worker that hangs"
            raise self._case.subject.error(check, seen=str(late), fix=fix) from None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self._case.subject.raised(check, error, fix=_FIXES[phase]) from error

    def reset(self, task: Task, seed: int) -> Observation:
        """Start an episode, as a lease does."""
        options = {"task": task.to_json()}
        returned = self.call("reset", lambda: self.environment.reset(seed=seed, options=options))
        return self._read("reset", from_reset, returned)

    def step(self, action: Action) -> Observation:
        """Carry out one call."""
        returned = self.call("step", lambda: self.environment.step(dict(action)))
        return self._read("step", from_step, returned)

    def play(self, task: Task, actions: Sequence[Action]) -> list[Observation]:
        """All observations of an episode that makes these calls, while it goes on."""
        seen = [self.reset(task, self._case.seed_of(task))]
        for action in actions:
            if seen[-1].terminated or seen[-1].truncated:
                break
            seen.append(self.step(action))
        return seen

    @property
    def evaluates(self) -> bool:
        """Whether it has a state check."""
        return self._evaluate() is not None

    def evaluate(self) -> StateCheck | None:
        """The state check, valid."""
        method = self._evaluate()
        returned = None if method is None else self.call("evaluate", method)
        return None if returned is None else self._checked(returned)

    def close(self) -> None:
        """Close it and end its thread."""
        try:
            if hasattr(self.environment, "close") and not self._hangs:
                self.call("close", self.environment.close)
        finally:
            if not self._hangs:
                self._apart.close()

    def _evaluate(self) -> Any:
        method = getattr(self.environment, "evaluate", None)
        return method or getattr(getattr(self.environment, "unwrapped", None), "evaluate", None)

    def _read(
        self, phase: str, read: Callable[[Any, Any], Observation], returned: Any
    ) -> Observation:
        check = f"{phase} returns a valid observation"
        fix = (
            '{"screenshot": uint8 [height, width, 3]}, {"text": str} or both; '
            "reset returns (observation, info), step (observation, reward, terminated, truncated, "
            "info)"
        )
        try:
            seen = read(returned, "png")
        except InvalidObservation as error:
            raise self._case.subject.error(check, seen=str(error), fix=fix) from None
        self._check_space(check, returned[0])
        self._check_info(phase, returned[-1])
        return seen

    def _check_space(self, check: str, observation: Any) -> None:
        space = getattr(self.environment, "observation_space", None)
        if space is not None and not space.contains(observation):
            raise self._case.subject.error(
                check,
                seen=f"it is not in its own observation space {space}",
                fix="let the space say what is really returned; ScreenSpace() takes any size",
            )

    def _check_info(self, phase: str, info: Mapping[str, Any]) -> None:
        odd = _unspeakable(info, "info")
        if odd:
            raise self._case.subject.error(
                f"the info of {phase} holds JSON values",
                seen=odd,
                fix="put numbers, strings, lists and dicts with string keys into info; "
                "everything else reaches the far side of a lease as text",
            )

    def _checked(self, check: Any) -> StateCheck:
        problem = _problem(check)
        if problem:
            raise self._case.subject.error(
                "evaluate returns a valid StateCheck",
                seen=problem,
                fix="return StateCheck(success=bool, score=number in [0, 1], details=JSON values), "
                "or None where there is nothing to check",
            )
        return StateCheck(bool(check.success), float(check.score), dict(check.details))


def difference(one: Observation, other: Observation) -> str:
    """What an agent would see differently, "" for nothing."""
    if one.text != other.text:
        return f"the text is {one.text[:60]!r} and then {other.text[:60]!r}"
    if one.tools != other.tools:
        return "the callable tools differ"
    if len(one.images) != len(other.images):
        return f"{len(one.images)} images, then {len(other.images)}"
    pairs = enumerate(zip(one.images, other.images, strict=True))
    return next((f"image {k} {how}" for k, (a, b) in pairs if (how := _differs(a, b))), "")


def _differs(one: EncodedImage, other: EncodedImage) -> str:
    if one.data == other.data:
        return ""
    a, b = _pixels(one), _pixels(other)
    if a.shape != b.shape:
        return f"is {list(a.shape)}, then {list(b.shape)}"
    share = float((a != b).any(axis=-1).mean())
    return f"differs at {share:.1%} of its pixels" if share else ""


def _pixels(image: EncodedImage) -> Any:
    # imported here: a text environment never needs pillow
    from PIL import Image

    with Image.open(io.BytesIO(image.data)) as opened:
        return np.array(opened.convert("RGB"))


def _problem(check: Any) -> str:
    """What is wrong with a state check, "" for nothing."""
    for name in ("success", "score", "details"):
        if not hasattr(check, name):
            return f"it returned {type(check).__name__} without {name!r}"
    if not isinstance(check.success, bool | np.bool_):
        return f"success is {check.success!r}, not a bool"
    if isinstance(check.score, bool) or not isinstance(check.score, int | float | np.number):
        return f"score is {check.score!r}, not a number"
    if not (math.isfinite(check.score) and 0 <= check.score <= 1):
        return f"score is {check.score!r}, not in [0, 1]"
    if not isinstance(check.details, Mapping):
        return f"details is {type(check.details).__name__}, not a dict"
    return _unspeakable(check.details, "details")


def _unspeakable(value: Any, place: str) -> str:
    """The first value that JSON does not know, with its place; "" for none."""
    if value is None or isinstance(value, bool | int | float | str | np.generic | np.ndarray):
        return ""
    if isinstance(value, Mapping):
        strange = next((key for key in value if not isinstance(key, str)), None)
        if strange is not None:
            return f"{place} has the key {strange!r}"
        return next(
            filter(None, (_unspeakable(v, f"{place}[{k!r}]") for k, v in value.items())), ""
        )
    if isinstance(value, list | tuple | set | frozenset):
        return next(filter(None, (_unspeakable(v, f"{place}[]") for v in value)), "")
    return f"{place} is a {type(value).__name__}"
