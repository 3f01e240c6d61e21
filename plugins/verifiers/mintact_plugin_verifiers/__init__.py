"""Environments of the verifiers library, by the id under which `vf.load_environment` finds them."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets

_HERE = "mintact_plugin_verifiers"


@hookimpl
def register_environments() -> Targets:
    """Every installed verifiers environment, as `verifiers/<id>`."""
    return {"verifiers/*": f"{_HERE}.environment:VerifiersEnvironment"}


@hookimpl
def register_task_sets() -> Targets:
    """The rows of its dataset and of its evaluation dataset."""
    return {"verifiers/*": f"{_HERE}.tasks:tasks"}
