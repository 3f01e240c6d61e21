"""Whether a check is one: its form, its size, its depth. What passes can be evaluated anywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mintact_env_web.agentic.checks import CONDITIONS, PAIRS, VALUES, brief, paths_of, single
from mintact_platform.errors import MintactError, near_match

MAX_DEPTH = 16
MAX_NODES = 600
MAX_TEXT = 2_000


class Unfit(MintactError):
    """Something that a model wrote is not of the form that was asked for."""


def check_form(check: Any) -> None:
    """Refuse what is no check.

    Raises:
        Unfit: says what is wrong, and where in the check.
    """
    budget = [MAX_NODES]
    _condition_form(check, "check", 0, budget)


def _condition_form(check: Any, where: str, depth: int, budget: list[int]) -> None:
    name, argument = _operator(check, CONDITIONS, where, depth, budget)
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
        for path in paths_of(argument):
            _path_form(path, where, budget)
    elif name in PAIRS:
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
    name, argument = _operator(value, VALUES, where, depth, budget)
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
    name, argument = single(value)
    if not name:
        raise Unfit(f"needs an object with one key, got {brief(value)}", where=where)
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
        raise Unfit(f"not a path: {brief(path)}", where=where)


def _is_key(key: Any) -> bool:
    if isinstance(key, str):
        return len(key) <= 200
    return isinstance(key, int) and not isinstance(key, bool) and abs(key) < 10**9


def _pair(argument: Any, where: str) -> None:
    if not isinstance(argument, list) or len(argument) != 2:
        raise Unfit(f"needs a list of two, got {brief(argument)}", where=where)


def _spend(where: str, depth: int, budget: list[int]) -> None:
    budget[0] -= 1
    if depth > MAX_DEPTH:
        raise Unfit(f"nested more than {MAX_DEPTH} deep", where=where[:200])
    if budget[0] < 0:
        raise Unfit(f"more than {MAX_NODES} parts", where=where[:200])
