"""Two ways in which many templates are missed: wrong values and wrong answers; sums in answers."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from mintact_env_web.synth.site import Ending, Hand, Params, Template, answered


class Slip(Template):
    """Missed by doing the same with other values: those under `wrong` in what it drew."""

    async def miss(self, hand: Hand, p: Params) -> str | None:
        """The solution, with the wrong values."""
        return await self.solve(hand, {**p, **p["wrong"]})


class Edit(Slip):
    """Done when the state is what it was but for one change, and nothing else."""

    def change(self, state: dict[str, Any], p: Params) -> None:
        """Make the change that is asked for, in a copy of the first state."""
        raise NotImplementedError

    def done(self, end: Ending, p: Params) -> bool:
        """Whether exactly that was changed."""
        wanted: dict[str, Any] = deepcopy(dict(end.before))
        self.change(wanted, p)
        return bool(end.after == wanted)


class Question(Template):
    """Answered while nothing is changed: `truth` is right, `lie` is what a hasty look gives."""

    def done(self, end: Ending, p: Params) -> bool:
        """Whether the answer is right and the state as it was."""
        return bool(end.after == end.before) and answered(end.answer, p["truth"])

    async def miss(self, hand: Hand, p: Params) -> str | None:
        """Say what is not so."""
        return str(p["lie"])


def amount(value: float) -> str:
    """A sum as sites write it: whole, or with two decimals."""
    return str(int(value)) if value == int(value) else f"{value:.2f}"


def answered_amount(answer: str | None, value: str) -> bool:
    """Whether an answer holds a sum, written `2.50` or `2.5`."""
    short = value.rstrip("0") if "." in value else f"{value}.00"
    return answered(answer, value) or answered(answer, short)
