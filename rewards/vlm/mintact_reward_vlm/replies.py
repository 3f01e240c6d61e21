"""Reading a model's verdict: one exact schema, or none at all.

The whole reply must be one JSON object with exactly the expected keys and the nonce of this call.
What an agent or a page wrote cannot know the nonce, so a model that repeats it gives no verdict.
Nothing is searched for, repaired or guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from mintact_platform.errors import JudgeError
from mintact_platform.records.verdict import Label

LABELS = ("success", "failure", "environment_failure", "abstain")
STATES = ("judged", "environment_failure", "abstain")
LONGEST = 100_000
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
_THOUGHT, _SPOKEN = "<think>", "</think>"


class NoVerdict(JudgeError):
    """The reply is no verdict; the text says why and repeats nothing of the reply."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the reply is no verdict: {why}")


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a model said about a whole trajectory.

    Attributes:
        label: its verdict.
        reason: its words, as they came.
        turns: a score in [0, 1] for each turn, where it was asked for them.
    """

    label: Label
    reason: str
    turns: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Marked:
    """What a model said about each criterion.

    Attributes:
        state: `judged`, `environment_failure` or `abstain`.
        reason: its words, as they came.
        passed: by criterion; empty unless judged.
    """

    state: str
    reason: str
    passed: Mapping[str, bool] = field(default_factory=dict)


def read_opinion(reply: str, *, nonce: str, turns: int | None = None) -> Opinion:
    """A verdict on a whole trajectory.

    Args:
        reply: everything the model said.
        nonce: of this call.
        turns: how many turn scores were asked for; None if none were.

    Raises:
        NoVerdict: it is anything else.
    """
    keys = {"nonce", "verdict", "reason"} | ({"turns"} if turns is not None else set())
    values = _exact(reply, nonce, keys)
    label = _one_of(values["verdict"], LABELS, "verdict")
    scores = None if turns is None else _scores(values["turns"], turns)
    return Opinion(cast(Label, label), _text(values["reason"]), scores)


def read_marks(reply: str, *, nonce: str, criteria: Sequence[str]) -> Marked:
    """A pass or fail on every criterion.

    Args:
        reply: everything the model said.
        nonce: of this call.
        criteria: their names.

    Raises:
        NoVerdict: it is anything else.
    """
    values = _exact(reply, nonce, {"nonce", "verdict", "criteria", "reason"})
    state, reason = _one_of(values["verdict"], STATES, "verdict"), _text(values["reason"])
    given = values["criteria"]
    if not isinstance(given, dict):
        raise NoVerdict("criteria is no object")
    if state != "judged":
        return Marked(state, reason)
    if set(given) != set(criteria):
        raise NoVerdict("criteria are not the ones asked for")
    marks = {name: _one_of(given[name], ("pass", "fail"), "a criterion") for name in criteria}
    return Marked(state, reason, {name: mark == "pass" for name, mark in marks.items()})


def _exact(reply: str, nonce: str, keys: set[str]) -> dict[str, Any]:
    if len(reply) > LONGEST:
        raise NoVerdict(f"it has more than {LONGEST} characters")
    text = _spoken(reply)
    if not text:
        raise NoVerdict("it is empty")
    try:
        values = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except NoVerdict:
        raise
    except (ValueError, RecursionError):
        raise NoVerdict("it is not one JSON object and nothing else") from None
    if not isinstance(values, dict):
        raise NoVerdict("it is no JSON object")
    if set(values) != keys:
        raise NoVerdict(f"its keys are not {', '.join(sorted(keys))}")
    if values["nonce"] != nonce or not nonce:
        raise NoVerdict("its nonce is not the one of this call")
    return values


def _spoken(reply: str) -> str:
    """Without a leading thought and without a fence around all of the rest."""
    text = reply.strip()
    if text.startswith(_THOUGHT):
        _, closed, after = text.partition(_SPOKEN)
        text = after.strip() if closed else ""
    fenced = _FENCED.fullmatch(text)
    return fenced[1].strip() if fenced else text


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise NoVerdict("a key stands in it twice")
    return values


def _no_constant(name: str) -> NoReturn:
    raise NoVerdict("a number in it is not finite")


def _one_of(value: Any, options: Sequence[str], what: str) -> str:
    if not isinstance(value, str) or value not in options:
        raise NoVerdict(f"{what} is none of {', '.join(options)}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NoVerdict("reason is no text")
    return value


def _scores(value: Any, turns: int) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) != turns:
        raise NoVerdict(f"turns is no list of {turns} numbers")
    for score in value:
        if isinstance(score, bool) or not isinstance(score, int | float):
            raise NoVerdict("a turn's score is no number")
        if not 0 <= score <= 1:
            raise NoVerdict("a turn's score is not between 0 and 1")
    return tuple(map(float, value))
