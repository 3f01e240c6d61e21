"""Telling a judge from what is none before it is asked: by what its signature says, if anything."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import typing
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

from mintact_platform.errors import PluginError
from mintact_platform.records.verdict import Verdict
from mintact_platform.registry import signatures

WANTED = "a judge is def judge(task, trajectory, *, strict: bool = True) -> Verdict, async or not"
_ARGUMENTS = ("task", "trajectory")


def why_no_judge(function: Callable[..., Any]) -> str:
    """What is wrong with a function that was called a judge; "" where nothing speaks against it.

    Without annotations nothing does: only its first verdict shows whether it gives any.

    Args:
        function: what is called with a task and a trajectory.

    Example:
        >>> def add(left: int, right: int) -> int: ...
        >>> why_no_judge(add)
        'returns int, not a Verdict'
    """
    plain = function
    while isinstance(plain, functools.partial):
        plain = plain.func
    if hasattr(plain, "__wrapped__"):
        return ""  # what it looks like is what it was made from
    if not signatures.takes(function, 2):
        return "cannot be called with (task, trajectory)"
    if _is_pythons_own(plain):
        return f"is {_named(plain)} of Python's own library"
    try:
        signature = signatures.read(function)
    except PluginError:
        return ""
    if not _may_be(signature.return_annotation, _gives_a_verdict):
        return f"returns {_named(signature.return_annotation)}, not a Verdict"
    taken = [p for p in signature.parameters.values() if p.kind <= p.POSITIONAL_OR_KEYWORD]
    for argument, parameter in zip(_ARGUMENTS, taken, strict=False):
        if not _may_be(parameter.annotation, _not_built_in):
            return f"takes {_named(parameter.annotation)} where it is given a {argument}"
    return ""


def _is_pythons_own(function: Callable[..., Any]) -> bool:
    """By where its module's file lies; a file of one's own may be called `code.py`."""
    if not (inspect.isroutine(function) or isinstance(function, type)):
        return False
    name = str(function.__module__)
    if name.partition(".")[0] not in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or Path(file).is_relative_to(Path(os.__file__).parent)


def _may_be(annotation: Any, fits: Callable[[type], bool]) -> bool:
    """Whether one of the types that an annotation allows fits; what is no plain type may be any."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, UnionType):
        return any(_may_be(one, fits) for one in inner)
    if origin is typing.Annotated:
        return _may_be(inner[0], fits)
    if isinstance(origin, type):
        return _may_be(inner[-1], fits) if issubclass(origin, Awaitable) else fits(origin)
    kind = NoneType if annotation is None else annotation
    anything = kind in (Any, inspect.Signature.empty) or not isinstance(kind, type)
    return anything or fits(kind)


def _gives_a_verdict(kind: type) -> bool:
    try:
        of_ones_own = getattr(kind, "_is_protocol", False)
        return of_ones_own or issubclass(Verdict, kind) or issubclass(kind, (Verdict, Awaitable))
    except TypeError:
        return not typing.is_typeddict(kind)


def _not_built_in(kind: type) -> bool:
    return kind is object or kind.__module__ != "builtins"


def _named(thing: Any) -> str:
    plain = inspect.isroutine(thing) or (isinstance(thing, type) and not typing.get_args(thing))
    return str(thing.__name__ if plain else thing)
