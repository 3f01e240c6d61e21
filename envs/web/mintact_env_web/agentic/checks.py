"""Checks of written sites: a small language in JSON over the state before, after, and the answer.

A check comes from a model and is never run as code. Conditions:

    {"all": [c, …]}  {"any": [c, …]}  {"not": c}
    {"equals": [v, v]}             the same JSON value; 1 is 1.0, but not true
    {"contains": [v, v]}           a text holds a text (case and spacing do not count), a list an
                                   element, an object a key
    {"less": [v, v]}  {"at_most": …}  {"more": …}  {"at_least": …}      numbers only
    {"exists": v}                  the path leads somewhere
    {"answered": v}                the answer holds this text or number, or all of a list of them
    {"unchanged": paths}           these parts are as at the start
    {"only_changed": paths}        everything but these parts is as at the start

Values are JSON literals, or one of

    {"after": path}  {"before": path}  {"answer": true}  {"literal": any JSON}
    {"count": v}                   length of a list, object or text
    {"sum": v}                     of a list of numbers
    {"pick": [v, path]}            that part of every element of a list
    {"where": [v, {path: v, …}]}   the elements whose parts equal these

A path is `"cart.lines.0.id"` or `["cart", "lines", 0, "id"]`; `-1` is the last element, `""` all.
`paths` is a path as text, or a list of such texts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mintact_env_web.synth.site import answered


class Final(NamedTuple):
    """What a check may look at.

    Attributes:
        before: the state at the start.
        after: the state at the end.
        answer: what the agent said when it stopped, None when it did not.
    """

    before: Any
    after: Any
    answer: str | None = None


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()
"""Where a path leads nowhere; equal to nothing, not even to itself."""


def holds(check: Any, final: Final) -> bool:
    """Whether a check holds. Total: no state and no answer makes it fail.

    Args:
        check: a condition that `forms.check_form` let pass; anything else does not hold.
        final: what it looks at.
    """
    name, argument = single(check)
    condition = CONDITIONS.get(name)
    return condition is not None and condition(argument, final)


def failing(check: Any, final: Final) -> list[str]:
    """The innermost conditions because of which a check does not hold, for those who mend it."""
    name, argument = single(check)
    if holds(check, final):
        return []
    if name == "all":
        return [line for inner in argument for line in failing(inner, final)][:6]
    shown = brief(check)
    if name in PAIRS:
        left, right = (brief(_value(v, final)) for v in argument)
        return [f"{shown} is false: {left} against {right}"]
    return [f"{shown} is false"]


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal, however deep; numbers by value, booleans apart."""
    pairs = [(left, right)]
    while pairs:
        a, b = pairs.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                return False
            pairs += [(a[key], b[key]) for key in a]
        elif isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                return False
            pairs += zip(a, b, strict=True)
        elif isinstance(a, bool) or isinstance(b, bool):
            if a is not b:
                return False
        elif _is_number(a) and _is_number(b):
            if a != b:
                return False
        elif type(a) is not type(b) or a is MISSING or a != b:
            return False
    return True


def at(state: Any, path: Any) -> Any:
    """The part of a state that a path leads to, or `MISSING`."""
    for key in _keys(path):
        state = _child(state, key)
        if state is MISSING:
            return MISSING
    return state


# ---- conditions -----------------------------------------------------------------------------


def _equals(argument: Any, final: Final) -> bool:
    left, right = (_value(v, final) for v in argument)
    return same(left, right)


def _contains(argument: Any, final: Final) -> bool:
    whole, part = (_value(v, final) for v in argument)
    if isinstance(whole, str):
        return isinstance(part, str) and _folded(part) in _folded(whole)
    if isinstance(whole, list):
        return any(same(element, part) for element in whole)
    return isinstance(whole, dict) and isinstance(part, str) and part in whole


def _compare(holds_for: Callable[[Any, Any], bool]) -> Callable[[Any, Final], bool]:
    def compare(argument: Any, final: Final) -> bool:
        left, right = (_value(v, final) for v in argument)
        return _is_number(left) and _is_number(right) and holds_for(left, right)

    return compare


def _answered(argument: Any, final: Final) -> bool:
    wanted = _value(argument, final)
    texts = wanted if isinstance(wanted, list) else [wanted]
    if not texts or any(isinstance(t, bool) or not isinstance(t, str | int | float) for t in texts):
        return False
    try:
        words = [_number_text(t) if _is_number(t) else t for t in texts]
    except ValueError:  # an integer of more digits than Python writes
        return False
    return all(word.strip() for word in words) and answered(final.answer, *words)


def _unchanged(argument: Any, final: Final) -> bool:
    return all(_alike(at(final.before, p), at(final.after, p)) for p in paths_of(argument))


def _only_changed(argument: Any, final: Final) -> bool:
    before, after = final.before, final.after
    for path in paths_of(argument):
        keys = _keys(path)
        before, after = _blanked(before, keys), _blanked(after, keys)
    return same(before, after)


PAIRS: dict[str, Callable[[Any, Final], bool]] = {
    "equals": _equals,
    "contains": _contains,
    "less": _compare(lambda a, b: bool(a < b)),
    "at_most": _compare(lambda a, b: bool(a <= b)),
    "more": _compare(lambda a, b: bool(a > b)),
    "at_least": _compare(lambda a, b: bool(a >= b)),
}
CONDITIONS: dict[str, Callable[[Any, Final], bool]] = {
    "all": lambda inner, final: all(holds(c, final) for c in inner),
    "any": lambda inner, final: any(holds(c, final) for c in inner),
    "not": lambda inner, final: not holds(inner, final),
    "exists": lambda value, final: _value(value, final) is not MISSING,
    "answered": _answered,
    "unchanged": _unchanged,
    "only_changed": _only_changed,
    **PAIRS,
}


# ---- values ---------------------------------------------------------------------------------


def _value(value: Any, final: Final) -> Any:
    if isinstance(value, list):
        return [_value(v, final) for v in value]
    if not isinstance(value, dict):
        return value
    name, argument = single(value)
    work = VALUES.get(name)
    return MISSING if work is None else work(argument, final)


def _count(argument: Any, final: Final) -> Any:
    value = _value(argument, final)
    return len(value) if isinstance(value, list | dict | str) else MISSING


def _sum(argument: Any, final: Final) -> Any:
    value = _value(argument, final)
    if not isinstance(value, list) or not all(_is_number(n) for n in value):
        return MISSING
    try:
        return sum(value)
    except OverflowError:
        return MISSING


def _pick(argument: Any, final: Final) -> Any:
    whole = _value(argument[0], final)
    return [at(e, argument[1]) for e in whole] if isinstance(whole, list) else MISSING


def _where(argument: Any, final: Final) -> Any:
    whole = _value(argument[0], final)
    if not isinstance(whole, list):
        return MISSING
    wanted = [(path, _value(v, final)) for path, v in argument[1].items()]
    return [e for e in whole if all(same(at(e, path), v) for path, v in wanted)]


VALUES: dict[str, Callable[[Any, Final], Any]] = {
    "after": lambda path, final: at(final.after, path),
    "before": lambda path, final: at(final.before, path),
    "answer": lambda _, final: MISSING if final.answer is None else final.answer,
    "literal": lambda value, _: value,
    "count": _count,
    "sum": _sum,
    "pick": _pick,
    "where": _where,
}


# ---- paths ----------------------------------------------------------------------------------


def _keys(path: Any) -> list[str]:
    if isinstance(path, str):
        return path.split(".") if path else []
    return [str(key) for key in path]


def paths_of(argument: Any) -> Sequence[Any]:
    """The paths of `unchanged` and `only_changed`."""
    return [argument] if isinstance(argument, str) else argument


def _child(state: Any, key: str) -> Any:
    if isinstance(state, dict):
        return state.get(key, MISSING)
    index = _index(state, key)
    return MISSING if index is None else state[index]


def _index(state: Any, key: str) -> int | None:
    """A key as an index of a list; None where there is no such element."""
    if not isinstance(state, list) or not key.removeprefix("-").isdecimal() or len(key) > 9:
        return None
    index = int(key)
    return index if -len(state) <= index < len(state) else None


def _blanked(state: Any, keys: Sequence[str]) -> Any:
    """A copy that has null at a path; what leads there is copied, a missing key is added."""
    if not keys:
        return None
    key, rest = keys[0], keys[1:]
    if isinstance(state, dict) and (key in state or not rest):
        return {**state, key: _blanked(state.get(key), rest)}
    index = _index(state, key)
    if index is None:
        return state
    copy = list(state)
    copy[index] = _blanked(copy[index], rest)
    return copy


# ---- small things ---------------------------------------------------------------------------


def single(value: Any) -> tuple[str, Any]:
    """The operator and the argument of an object with one key, else an empty name."""
    if isinstance(value, dict) and len(value) == 1:
        name, argument = next(iter(value.items()))
        if isinstance(name, str):
            return name, argument
    return "", None


def _alike(left: Any, right: Any) -> bool:
    return (left is MISSING and right is MISSING) or same(left, right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number_text(value: float) -> str:
    whole = isinstance(value, float) and math.isfinite(value) and value == int(value)
    return str(int(value)) if whole else str(value)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def brief(value: Any) -> str:
    """A value in one short line."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, RecursionError, TypeError):
        text = type(value).__name__
    return text if len(text) <= 160 else f"{text[:160]}…"
