"""Our objectives and advantages inside verl, a trainer of another project.

verl finds `registration` by itself, through its own entry-point group; what the platform finds here
is a command that tells what verl will see.
"""

from __future__ import annotations

from mintact_platform import hookimpl
from mintact_platform.hookspecs import Targets


@hookimpl
def register_commands() -> Targets:
    """`mintact verl …`."""
    return {"verl": "mintact_plugin_verl.command:main"}
