"""What a plugin's target can be called with, its annotations as types."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from mintact_platform.errors import PluginError
from mintact_platform.registry.lines import one_line


def read(target: Callable[..., Any]) -> inspect.Signature:
    """The signature; a type that exists for type checkers alone is left as it is written.

    That is common where heavy imports are put off. Only the types of keyword-only arguments, which
    come from the run file, have to be there.

    Raises:
        PluginError: it cannot be called, nobody can tell how, or the annotation of a keyword-only
            argument names what its module does not have.
    """
    try:
        if inspect.isbuiltin(target):
            raise TypeError("it is a function of the interpreter")
        try:
            return inspect.signature(target, eval_str=True)
        except Exception:  # one of them is not there
            written = inspect.signature(target)
        scope = _scope(target)
        found = [_looked_up(parameter, scope) for parameter in written.parameters.values()]
        return written.replace(parameters=found)
    except PluginError:
        raise
    except Exception as error:  # annotations are code, and a signature may be computed
        raise PluginError(
            f"its parameters cannot be read: {one_line(error)}",
            next="it has to be a function or a class whose parameters have types",
        ) from error


def takes(target: Callable[..., Any], count: int) -> bool:
    """Whether it can be called with so many arguments in order and nothing else."""
    try:
        inspect.signature(target).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        return True  # it has none to look at
    return True


def _scope(target: Callable[..., Any]) -> dict[str, Any]:
    """The names that its annotations were written with: of the module that defines what is called.

    A class may have its `__init__` from elsewhere, and a partial is of no module that matters.
    """
    while isinstance(target, functools.partial):
        target = target.func
    called: Any = target
    if isinstance(target, type):
        called = target.__init__  # type: ignore[misc]
    elif not inspect.isroutine(target):
        called = type(target).__call__
    called = inspect.unwrap(getattr(called, "__func__", called))
    scope: dict[str, Any] = getattr(called, "__globals__", None) or vars(
        sys.modules[target.__module__]
    )
    return scope


def _looked_up(parameter: inspect.Parameter, scope: dict[str, Any]) -> inspect.Parameter:
    if not isinstance(parameter.annotation, str):
        return parameter
    try:
        return parameter.replace(annotation=eval(parameter.annotation, scope))
    except Exception as error:
        if parameter.kind is not parameter.KEYWORD_ONLY:
            return parameter
        if not isinstance(error, NameError):
            raise
        raise PluginError(
            f"the type of parameter {parameter.name!r}, {parameter.annotation!r}: {error}",
            next="import it outside of `if TYPE_CHECKING`",
        ) from None
