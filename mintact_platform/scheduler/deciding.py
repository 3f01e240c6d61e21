"""Decisions that plugins take: the first opinion counts, and a failure is none."""

from __future__ import annotations

from collections.abc import Callable

import pluggy

from mintact_platform.registry.lines import one_line


def admitted(
    hooks: pluggy.HookRelay,
    domain: str,
    rewards: tuple[float, ...],
    *,
    failed: Callable[[str, str], object],
) -> bool:
    """Whether a group may be trained on, by the hook `admit_group`.

    Args:
        hooks: of the installed plugins; the core's own comes last.
        domain: of the group.
        rewards: of its live rollouts.
        failed: told the plugin and the error of each that raises; the next one is asked then.
    """
    values = {"domain": domain, "rewards": rewards}
    for one in reversed(hooks.admit_group.get_hookimpls()):
        try:
            answer = one.function(*(values[name] for name in one.argnames))
            if answer is not None:
                return bool(answer)
        except (Exception, SystemExit) as error:
            failed(one.plugin_name, f"admit_group: {one_line(error)}")
    return False
