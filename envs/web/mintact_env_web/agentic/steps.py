"""Solver scripts of written sites: a few semantic steps as data, played by a scripted hand.

    {"click": target}              {"hover": target}
    {"type": target, "text": "…"}  replaces a field's text; "enter": true ends with the Enter key
    {"choose": target, "option": "…"}   a <select>, or a drop-down whose options are elements
    {"drag": target, "to": target}
    {"press": key}                 {"back": true}
    {"stop": "the answer"}         ends the script

A target is the value of an element's `data-k`, or the text, label or hint it goes by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from mintact_env_web.agentic.forms import Unfit
from mintact_env_web.synth.oracle import PageHand, TargetMissing
from mintact_env_web.synth.validate import Driven, Ending
from mintact_platform.errors import near_match

MAX_STEPS = 60
MAX_WORDS = 500
_FIND = files("mintact_env_web.agentic").joinpath("find.js").read_text()
_FORMS: Mapping[str, Mapping[str, type]] = {
    "click": {},
    "hover": {},
    "type": {"text": str, "enter": bool},
    "choose": {"option": str},
    "drag": {"to": str},
    "press": {},
    "back": {},
    "stop": {},
}
_OPTIONAL = frozenset({"enter"})


class Step(NamedTuple):
    """One step of a script.

    Attributes:
        verb: what is done.
        target: to which element; the key of `press`, the answer of `stop`.
        values: what else the verb takes.
    """

    verb: str
    target: str
    values: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As the model writes it."""
        return {self.verb: True if self.verb == "back" else self.target, **self.values}


def read_steps(values: Any, where: str = "script") -> tuple[Step, ...]:
    """A script from JSON.

    Raises:
        Unfit: says which step is none, and why.
    """
    if not isinstance(values, list) or not values:
        raise Unfit("needs a list of steps", where=where)
    if len(values) > MAX_STEPS:
        raise Unfit(f"more than {MAX_STEPS} steps", where=where)
    steps = tuple(_step(value, f"{where}[{index}]") for index, value in enumerate(values))
    for index, step in enumerate(steps[:-1]):
        if step.verb == "stop":
            raise Unfit("steps after a stop", where=f"{where}[{index}]")
    return steps


def played(steps: Sequence[Step]) -> Ending:
    """A script as an ending: every step becomes calls of the action space, on pixels."""

    async def play(environment: Driven) -> str | None:
        async def act(call: Mapping[str, Any]) -> None:
            await environment.step(call)

        hand = WordHand(lambda: environment.page, act)
        for step in steps:
            if step.verb == "stop":
                return step.target
            await _carry_out(hand, step)
        return None

    return play


class WordHand(PageHand):
    """A hand that also finds elements by what they say, and chooses from a `<select>` by keys."""

    async def choose(self, target: str, value: str) -> None:
        """Open a drop-down and take the option `value`."""
        options = (await self._find(target))["options"]
        if options is None:
            await self.click(target)
            await self.click(
                value if not await self.see(f"{target}:{value}") else f"{target}:{value}"
            )
            return
        free = [option for option in options if not option["off"]]
        named = [i for i, o in enumerate(free) if value in (o["text"].strip(), o["value"])]
        if not named:
            raise TargetMissing(f"{target!r} has no option {value!r}")
        await self.click(target)
        for key in ("Home", *["ArrowDown"] * named[0], "Enter"):
            await self.press(key)

    async def see(self, target: str) -> bool:
        """Whether an element is on the page."""
        return await self._page().evaluate(_FIND, target) is not None

    async def _find(self, target: str) -> dict[str, Any]:
        found: dict[str, Any] | None = await self._page().evaluate(_FIND, target)
        if found is None:
            raise TargetMissing(f"no element {target!r} on {self._page().url}")
        if "many" in found:
            raise TargetMissing(f"{found['many']} elements are called {target!r}; give it a data-k")
        return found


async def _carry_out(hand: PageHand, step: Step) -> None:
    if step.verb == "click":
        await hand.click(step.target)
    elif step.verb == "hover":
        await hand.hover(step.target)
    elif step.verb == "type":
        await hand.type(step.target, step.values["text"], enter=step.values.get("enter", False))
    elif step.verb == "choose":
        await hand.choose(step.target, step.values["option"])
    elif step.verb == "drag":
        await hand.drag(step.target, step.values["to"])
    elif step.verb == "press":
        await hand.press(step.target)
    else:
        await hand.back()


def _step(value: Any, where: str) -> Step:
    verbs = [key for key in value if key in _FORMS] if isinstance(value, dict) else []
    if len(verbs) != 1:
        hint = near_match(str(next(iter(value), "")), _FORMS) if isinstance(value, dict) else ""
        raise Unfit("a step is an object with one verb", where=where, next=hint)
    verb = verbs[0]
    target = value[verb]
    if verb == "back":
        target = "" if target is True else None
    if (
        not isinstance(target, str)
        or len(target) > MAX_WORDS
        or not (target or verb in ("back", "stop"))
    ):
        raise Unfit(f"{verb!r} needs a text of at most {MAX_WORDS} characters", where=where)
    form, given = _FORMS[verb], {key: inner for key, inner in value.items() if key != verb}
    for key in given:
        if key not in form:
            raise Unfit(f"{verb!r} takes no {key!r}", where=where, next=near_match(key, form))
    for key, kind in form.items():
        if key not in given and key in _OPTIONAL:
            continue
        if not isinstance(given.get(key), kind) or len(str(given[key])) > MAX_WORDS:
            raise Unfit(f"{verb!r} needs {key!r}, a {kind.__name__}", where=where)
    return Step(verb, target, given)
