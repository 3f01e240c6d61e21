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
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mintact_env_web.synth.site import answered
from mintact_platform.errors import MintactError, near_match

MAX_DEPTH = 16
MAX_NODES = 600
MAX_TEXT = 2_000


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


class Unfit(MintactError):
    """Something that a model wrote is not of the form that was asked for."""


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()
"""Where a path leads nowhere; equal to nothing, not even to itself."""


def holds(check: Any, final: Final) -> bool:
    """Whether a check holds. Total: no state and no answer makes it fail.

    Args:
        check: a condition that `check_form` let pass; anything else does not hold.
        final: what it looks at.
    """
    name, argument = _single(check)
    condition = _CONDITIONS.get(name)
    return condition is not None and condition(argument, final)


def failing(check: Any, final: Final) -> list[str]:
    """The innermost conditions because of which a check does not hold, for those who mend it."""
    name, argument = _single(check)
    if holds(check, final):
        return []
    if name == "all":
        return [line for inner in argument for line in failing(inner, final)][:6]
    shown = _brief(check)
    if name in _PAIRS:
        left, right = (_brief(_value(v, final)) for v in argument)
        return [f"{shown} is false: {left} against {right}"]
    return [f"{shown} is false"]


def check_form(check: Any) -> None:
    """Refuse what is no check.

    Raises:
        Unfit: says what is wrong, and where in the check.
    """
    budget = [MAX_NODES]
    _condition_form(check, "check", 0, budget)


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
    return all(_alike(at(final.before, p), at(final.after, p)) for p in _paths(argument))


def _only_changed(argument: Any, final: Final) -> bool:
    before, after = final.before, final.after
    for path in _paths(argument):
        keys = _keys(path)
        before, after = _blanked(before, keys), _blanked(after, keys)
    return same(before, after)


_PAIRS: dict[str, Callable[[Any, Final], bool]] = {
    "equals": _equals,
    "contains": _contains,
    "less": _compare(lambda a, b: bool(a < b)),
    "at_most": _compare(lambda a, b: bool(a <= b)),
    "more": _compare(lambda a, b: bool(a > b)),
    "at_least": _compare(lambda a, b: bool(a >= b)),
}
_CONDITIONS: dict[str, Callable[[Any, Final], bool]] = {
    "all": lambda inner, final: all(holds(c, final) for c in inner),
    "any": lambda inner, final: any(holds(c, final) for c in inner),
    "not": lambda inner, final: not holds(inner, final),
    "exists": lambda value, final: _value(value, final) is not MISSING,
    "answered": _answered,
    "unchanged": _unchanged,
    "only_changed": _only_changed,
    **_PAIRS,
}


# ---- values ---------------------------------------------------------------------------------


def _value(value: Any, final: Final) -> Any:
    if isinstance(value, list):
        return [_value(v, final) for v in value]
    if not isinstance(value, dict):
        return value
    name, argument = _single(value)
    work = _VALUES.get(name)
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


_VALUES: dict[str, Callable[[Any, Final], Any]] = {
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


def _paths(argument: Any) -> Sequence[Any]:
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


# ---- form -----------------------------------------------------------------------------------


def _condition_form(check: Any, where: str, depth: int, budget: list[int]) -> None:
    name, argument = _operator(check, _CONDITIONS, where, depth, budget)
    where = f"{where}.{name}"
    if name in ("all", "any"):
        if not isinstance(argument, list) or not argument:
            raise Unfit("needs a list of conditions", where=where)
        for index, inner in enumerate(argument):
            _condition_form(inner, f"{where}[{index}]", depth + 1, budget)
    elif name == "not":
        _condition_form(argument, where, depth + 1, budget)
    elif name in ("unchanged", "only_changed"):
        if not isinstance(argument, str | list):
            raise Unfit("needs a path or a list of paths", where=where)
        for path in _paths(argument):
            _path_form(path, where, budget)
    elif name in _PAIRS:
        _pair(argument, where)
        for value in argument:
            _value_form(value, where, depth + 1, budget)
    else:
        _value_form(argument, where, depth + 1, budget)


def _value_form(value: Any, where: str, depth: int, budget: list[int]) -> None:
    if isinstance(value, list):
        _spend(where, depth, budget)
        for element in value:
            _value_form(element, where, depth + 1, budget)
        return
    if not isinstance(value, dict):
        _literal_form(value, where, depth, budget)
        return
    name, argument = _operator(value, _VALUES, where, depth, budget)
    where = f"{where}.{name}"
    if name in ("after", "before"):
        _path_form(argument, where, budget)
    elif name == "answer":
        if argument is not True:
            raise Unfit('is written {"answer": true}', where=where)
    elif name == "literal":
        _literal_form(argument, where, depth, budget)
    elif name in ("pick", "where"):
        _pair(argument, where)
        _value_form(argument[0], where, depth + 1, budget)
        if name == "pick":
            _path_form(argument[1], where, budget)
        elif not isinstance(argument[1], dict) or not argument[1]:
            raise Unfit("needs [list, {path: value}]", where=where)
        else:
            for path, inner in argument[1].items():
                _path_form(path, where, budget)
                _value_form(inner, where, depth + 1, budget)
    else:
        _value_form(argument, where, depth + 1, budget)


def _operator(
    value: Any, known: Mapping[str, Any], where: str, depth: int, budget: list[int]
) -> tuple[str, Any]:
    _spend(where, depth, budget)
    name, argument = _single(value)
    if not name:
        raise Unfit(f"needs an object with one key, got {_brief(value)}", where=where)
    if name not in known:
        raise Unfit(f"unknown operator {name[:40]!r}", where=where, next=near_match(name, known))
    return name, argument


def _literal_form(value: Any, where: str, depth: int, budget: list[int]) -> None:
    _spend(where, depth, budget)
    if isinstance(value, dict):
        for key, inner in value.items():
            _literal_form(key, where, depth + 1, budget)
            _literal_form(inner, where, depth + 1, budget)
    elif isinstance(value, list):
        for inner in value:
            _literal_form(inner, where, depth + 1, budget)
    elif isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise Unfit(f"a text is longer than {MAX_TEXT} characters", where=where)
    elif isinstance(value, float) and not math.isfinite(value):
        raise Unfit(f"{value!r} is no JSON number", where=where)
    elif value is not None and not isinstance(value, bool | int | float):
        raise Unfit(f"{type(value).__name__} is no JSON value", where=where)


def _path_form(path: Any, where: str, budget: list[int]) -> None:
    _spend(where, 0, budget)
    keys = path if isinstance(path, list) else [path]
    if isinstance(path, int) or len(keys) > 32 or not all(map(_is_key, keys)):
        raise Unfit(f"not a path: {_brief(path)}", where=where)


def _is_key(key: Any) -> bool:
    if isinstance(key, str):
        return len(key) <= 200
    return isinstance(key, int) and not isinstance(key, bool) and abs(key) < 10**9


def _pair(argument: Any, where: str) -> None:
    if not isinstance(argument, list) or len(argument) != 2:
        raise Unfit(f"needs a list of two, got {_brief(argument)}", where=where)


def _spend(where: str, depth: int, budget: list[int]) -> None:
    budget[0] -= 1
    if depth > MAX_DEPTH:
        raise Unfit(f"nested more than {MAX_DEPTH} deep", where=where[:200])
    if budget[0] < 0:
        raise Unfit(f"more than {MAX_NODES} parts", where=where[:200])


# ---- small things ---------------------------------------------------------------------------


def _single(value: Any) -> tuple[str, Any]:
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


def _brief(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, RecursionError, TypeError):
        text = type(value).__name__
    return text if len(text) <= 160 else f"{text[:160]}…"
