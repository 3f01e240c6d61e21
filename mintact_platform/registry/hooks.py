"""What a plugin's module implements: its hooks, checked, and what its registrations return."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from mintact_platform import hookspecs
from mintact_platform.errors import PluginError
from mintact_platform.hookspecs import Targets

GROUP = "mintact"
CORE = "mintact-platform"
HOOKS = frozenset(n for n, v in vars(hookspecs).items() if hasattr(v, f"{GROUP}_spec"))
KINDS = tuple(sorted(h.removeprefix("register_") for h in HOOKS if h.startswith("register_")))

Hooks: TypeAlias = Mapping[str, Mapping[str, Callable[..., Any]]]
"""A plugin's functions by the hook they implement and by their own names."""


class HookFunctions:
    """The hook functions of a plugin and nothing else, to be given to pluggy.

    It looks at every attribute of a plugin, which takes longer than to import the usual one.
    """

    def __init__(self, hooks: Hooks) -> None:
        for functions in hooks.values():
            vars(self).update(functions)

    def __dir__(self) -> Iterable[str]:
        return vars(self)


def hooks_of(plugin: Any) -> Hooks:
    """The hooks of a plugin's module; runs what the module defines as attributes.

    Raises:
        PluginError: an unknown hook, a hook that is not marked, or none at all.
    """
    found: dict[str, dict[str, Callable[..., Any]]] = {}
    for name in dir(plugin):
        value: Any = getattr(plugin, name, None)
        options = getattr(value, f"{GROUP}_impl", None)
        if isinstance(options, dict):
            hook = options.get("specname") or name
            if hook in HOOKS:
                found.setdefault(hook, {})[name] = value
            elif not options.get("optionalhook"):
                raise _unknown(hook)
        elif name in HOOKS and _is_own_function(value, plugin):
            raise PluginError(
                f"{name} is not marked as a hook", next="write @mintact_platform.hookimpl above it"
            )
    if not found:
        raise PluginError(
            "implements no hook", next="mark its functions with @mintact_platform.hookimpl"
        )
    return found


def collect(hooks: Hooks) -> tuple[dict[str, Targets], str | None]:
    """What a plugin's `register_…` functions return, by kind; runs them.

    Returns:
        What the good ones returned, and one line about those that failed, None when none did.
    """
    targets: dict[str, Targets] = {}
    problems = []
    for kind in KINDS:
        for function in hooks.get(f"register_{kind}", {}).values():
            try:
                targets[kind] = {**targets.get(kind, {}), **_checked(function())}
            except Exception as error:
                problems.append(f"register_{kind}: {type(error).__name__}: {error}".splitlines()[0])
    return targets, "; ".join(problems) or None


def _unknown(hook: str) -> PluginError:
    close = difflib.get_close_matches(hook, HOOKS, n=1)
    return PluginError(
        f"unknown hook {hook!r}", next=f"did you mean {close[0]!r}?" if close else ""
    )


def _is_own_function(value: Any, plugin: Any) -> bool:
    return inspect.isfunction(value) and value.__module__ == getattr(plugin, "__name__", None)


def _checked(returned: Any) -> Targets:
    if not isinstance(returned, Mapping):
        raise TypeError(f"must return a mapping, got {returned!r}")
    for name, target in returned.items():
        if not isinstance(name, str) or not name or set(name) & set(" \t\n"):
            raise TypeError(f"a name is a string without spaces, got {name!r}")
        if target is None or target == "":
            raise TypeError(f"nothing stands behind {name!r}")
    return returned
