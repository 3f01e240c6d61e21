"""Why groups of a domain come to nothing: said after a few in a row, then ever more rarely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mintact_platform.rollouts.rollouter import Judged

FAILED_IN_ROW = 4
SOLVED_IN_ROW = 32
"""A good policy solves a few groups in a row by chance."""


@dataclass(slots=True)
class Fruitless:
    """What one domain's groups came to lately.

    Attributes:
        failed: groups in a row that gave nothing to learn from, and that nobody solved.
        solved: groups in a row of which every live member succeeded.
    """

    failed: int = 0
    solved: int = 0

    def line(self, fate: str, reason: str, members: Sequence[Judged]) -> str | None:
        """Take a finished group; a line for people when it is time for one.

        Args:
            fate: `queued`, `filtered` or `dropped`.
            reason: of the fate.
            members: the group's rollouts.
        """
        solved = fate == "filtered" and any(member.success for member in members)
        self.solved = self.solved + 1 if solved else 0
        self.failed = 0 if solved or fate == "queued" else self.failed + 1
        if _due(self.solved, SOLVED_IN_ROW):
            return (
                f"the last {self.solved} groups were solved by every member, which leaves nothing "
                "to learn here: it takes harder tasks"
            )
        if not _due(self.failed, FAILED_IN_ROW):
            return None
        failures = [member.failure for member in members if member.failure is not None]
        last = f"; the last: {failures[-1].phase}: {failures[-1].message}" if failures else ""
        return f"{self.failed} groups in a row gave nothing to learn from ({fate}: {reason}{last})"


def _due(count: int, first: int) -> bool:
    """At `first` and every time it has doubled; `first` is a power of two."""
    return count >= first and not count & (count - 1)
