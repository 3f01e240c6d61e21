"""What a failed check tells a plugin's author, and about whose code it speaks."""

from __future__ import annotations

import functools
import inspect
import os
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mintact_platform.errors import ConfigurationError, PluginError
from mintact_platform.registry import parameters
from mintact_platform.registry.families import Member
from mintact_platform.registry.names import Registry

_KEYWORD_ONLY = "parameters are keyword-only arguments"


class ConformanceError(AssertionError):
    """A plugin does not keep its contract.

    Attributes:
        check: what was checked, as a sentence that should hold.
        seen: what happened instead.
        where: whose code, with file and line where they are known.
        fix: what to do about it.
    """

    def __init__(self, check: str, *, seen: str, where: str, fix: str) -> None:
        self.check, self.seen, self.where, self.fix = check, seen, where, fix
        super().__init__(f"{check}\n   seen: {seen}\n  where: {where}\n    fix: {fix}")


class Subject(NamedTuple):
    """The plugin's target that is checked.

    Attributes:
        kind: such as `environment`.
        name: registered name, or the name it has in its module.
        target: class, function or factory.
        params: keyword arguments, checked and with their defaults.
    """

    kind: str
    name: str
    target: Any
    params: Mapping[str, Any]

    @property
    def where(self) -> str:
        """Whose code it is."""
        place = place_of(self.target)
        return f"{self.kind} {self.name!r}" + (f", {place}" if place else "")

    def error(self, check: str, *, seen: str, fix: str) -> ConformanceError:
        """The failure of a check."""
        return ConformanceError(check, seen=seen, where=self.where, fix=fix)

    def raised(self, check: str, error: BaseException, *, fix: str) -> ConformanceError:
        """The failure of a check in which its code raised; points at the line that did."""
        line = raising_line(error, self.target)
        where = f"{self.kind} {self.name!r}, {line}" if line else self.where
        return ConformanceError(check, seen=said(error), where=where, fix=fix)


def find(
    kind: str,
    wanted: Any,
    params: Mapping[str, Any] | None,
    *,
    given: Callable[[Any], int] = lambda target: 0,
) -> Subject:
    """The target of a name, or the one handed in, with its parameters checked.

    Args:
        kind: plural, as the registry has it.
        wanted: registered name, `module:attribute`, or the target itself.
        params: its parameters; None takes the defaults.
        given: number of positional arguments that the platform passes to a target.

    Raises:
        ConformanceError: no such name, or parameters that a run file could not set.
    """
    singular = kind.replace("_", " ").removesuffix("s")
    target, name = wanted, str(getattr(wanted, "__qualname__", type(wanted).__qualname__))
    if isinstance(wanted, str):
        name = wanted
        try:
            target = Registry.discover().get(kind, wanted)
        except PluginError as error:
            raise ConformanceError(
                f"the {singular} can be found by its name",
                seen=str(error),
                where=f"{singular} {wanted!r}",
                fix=f"return it from `register_{kind}` of the plugin module, `pip install -e .` "
                "the distribution, and look at `mintact plugins`",
            ) from error
    subject = Subject(singular, name, target, {})
    if not callable(target):
        raise subject.error(
            "it is a class, a function or a factory",
            seen=f"an object of type {type(target).__name__}",
            fix="hand over what makes it, not what was made: several are needed",
        )
    _check_positional(subject, given(target))
    try:
        checked = parameters.check(target, dict(params or {}), where=f"{singular} {name!r}")
    except ConfigurationError as error:
        raise subject.error(
            "it can be made with these parameters",
            seen=str(error),
            fix="give each parameter a default, or hand the parameters to the check",
        ) from error
    return subject._replace(params=checked)


def place_of(target: Any) -> str:
    """`file:line` of a target's definition, "" when it has none."""
    plain = _plain(target)
    try:
        file = inspect.getsourcefile(plain)
        line = inspect.getsourcelines(plain)[1]
    except (OSError, TypeError):
        return ""
    return f"{_short(file)}:{line}" if file else ""


def raising_line(error: BaseException, target: Any) -> str:
    """`file:line` of the innermost frame in the target's own package, "" when there is none."""
    try:
        own = inspect.getsourcefile(_plain(target)) or ""
    except TypeError:
        return ""
    folder = os.path.dirname(own)
    # a module that stands alone shares its folder with others: only the file itself is its code
    package = os.path.exists(os.path.join(folder, "__init__.py"))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        inside = package and frame.filename.startswith(folder + os.sep)
        if frame.filename == own or inside:
            return f"{_short(frame.filename)}:{frame.lineno}"
    return ""


def said(error: BaseException) -> str:
    """The first line of an exception, with its type."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _check_positional(subject: Subject, given: int) -> None:
    try:
        signature = inspect.signature(subject.target)
    except (TypeError, ValueError):
        return
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [p.name for p in signature.parameters.values() if p.kind in kinds]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
    if len(positional) > given:
        extra = positional[given]
        raise subject.error(
            _KEYWORD_ONLY,
            seen=f"{extra!r} is positional: a run file could not set it",
            fix=f"write `*,` before {extra!r} in the signature",
        )
    if len(positional) < given and not takes_any:
        raise subject.error(
            f"it takes {given} positional argument{'s' if given > 1 else ''}",
            seen=f"its signature is {signature}",
            fix="write the arguments in the order of the contract, then `*,` and the parameters",
        )


def unbound(target: Any) -> Any:
    """The target without bound parameters."""
    while isinstance(target, functools.partial | Member):
        target = target.func if isinstance(target, functools.partial) else target.target
    return target


def _plain(target: Any) -> Any:
    """What was written in the plugin's file: through partials, families, instances, wrappers."""
    target = unbound(target)
    target = inspect.unwrap(target) if callable(target) else target
    return target if inspect.isroutine(target) or inspect.isclass(target) else type(target)


def _short(file: str) -> str:
    """The path as one would type it here."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
