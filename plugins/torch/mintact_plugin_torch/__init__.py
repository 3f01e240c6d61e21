"""The torch plugin: embedded rollout engine, torch trainer, and the warm start of tiny models."""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets


@hookimpl
def register_rollout_engines() -> Targets:
    """A model server of our own, for CPUs and small models."""
    return {"embedded": "mintact_plugin_torch.engine.embedded:EmbeddedEngine"}


@hookimpl
def register_trainers() -> Targets:
    """One process, one device, plain torch."""
    return {"torch": "mintact_plugin_torch.factory:torch_trainer"}


@hookimpl
def register_commands() -> Targets:
    """`mintact torch new-model …`."""
    return {"torch": "mintact_plugin_torch.warmstart.command:main"}
