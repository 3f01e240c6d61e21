"""What can be done on sites; one module and one script a capability."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from mintact_env_web.synth.site import Capability, Template


@cache
def capabilities() -> dict[str, Capability]:
    """All capabilities by name: each module of this package brings those it defines."""
    found: dict[str, Capability] = {}
    for module in sorted(info.name for info in iter_modules(__path__)):
        for value in vars(import_module(f"{__name__}.{module}")).values():
            if isinstance(value, type) and issubclass(value, Capability) and "name" in vars(value):
                found[value.name] = value()
    return dict(sorted(found.items()))


@cache
def templates() -> dict[str, Template]:
    """All templates by name."""
    return {t.name: t for capability in capabilities().values() for t in capability.templates}


def capability_of(template: str) -> Capability:
    """The capability that a template belongs to."""
    return capabilities()[template.partition("/")[0]]
