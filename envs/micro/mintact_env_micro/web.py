"""The web form: type the word into the named field, submit, stop.

The live page is `page.py` in a browser; this state mirrors it for demonstrators and tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from mintact_env_micro.scene import (
    Decision,
    Elements,
    Layout,
    ending,
    hit,
    pointing,
    right_first,
    scored,
    stream,
    unusable,
)
from mintact_platform.actions.space import Call
from mintact_platform.records.demonstration import Box
from mintact_platform.records.verdict import StateCheck

TOOL = "browser_use"
WORDS = ("cat", "dog", "sun", "sky", "map", "box")


@dataclass(frozen=True, slots=True)
class WebState:
    """Three coloured text fields and a submit button in one of four places.

    Attributes:
        fields: colours of the fields, top to bottom.
        place: column of the submit button, 0 to 3.
        field: the field to fill.
        word: the word to type.
        focus: the field that has the keyboard.
        typed: text of each field.
        sent: whether the form was submitted.
    """

    fields: tuple[str, str, str]
    place: int
    field: str
    word: str
    focus: str | None = None
    typed: tuple[str, str, str] = ("", "", "")
    sent: bool = False
    ended: bool = False
    note: str = ""
    text: str = ""

    domain: ClassVar[str] = "web"
    action_space: ClassVar[str] = "browser_use"
    template: ClassVar[str] = "type {word} into {field} and submit"
    max_turns: ClassVar[int] = 5

    @classmethod
    def start(cls, seed: int, layout: Layout) -> WebState:
        """The page as it loads."""
        rng = stream(cls.domain, seed)
        first, second, third = rng.sample(layout.palette, 3)
        fields = (first, second, third)
        return cls(fields, rng.randint(0, 3), field=rng.choice(fields), word=rng.choice(WORDS))

    @property
    def goal(self) -> str:
        """The instruction."""
        return self.template.format(word=self.word, field=self.field)

    def apply(self, name: str, arguments: Mapping[str, Any]) -> WebState:
        """The state after a call."""
        state = replace(self, note="")
        match name, arguments.get("action"):
            case "browser_use", "stop":
                return replace(state, ended=True)
            case "browser_use", "click":
                return state._click(arguments.get("coordinate"))
            case "browser_use", "type":
                if arguments.get("coordinate") is not None:
                    state = state._click(arguments.get("coordinate"))
                return state._type(str(arguments.get("text", "")), bool(arguments.get("enter")))
            case "browser_use", "wait":
                return state
        return replace(state, note=unusable(name, arguments))

    def decisions(self) -> tuple[Decision, ...]:
        """Choose a field, type a word, submit, or end once the form was sent."""
        if self.sent:
            return ending(TOOL, {"action": "stop", "response": "done"})
        if any(self.typed):
            return (pointing("press submit", TOOL, "click", "submit", button_box(self.place)),)
        if self.focus is not None:
            words = sorted(WORDS, key=lambda word: word != self.word)
            return tuple(
                Decision(f"type {word}", Call(TOOL, {"action": "type", "text": word}))
                for word in words
            )
        options = right_first(self.elements()[:-1], self.field)
        return tuple(pointing(f"field {k}", TOOL, "click", k, box) for k, box in options)

    def elements(self) -> Elements:
        """The fields' colour blocks and the button."""
        blocks = tuple((name, block_box(i)) for i, name in enumerate(self.fields))
        return (*blocks, ("submit", button_box(self.place)))

    def inside(self) -> WebState:
        """There is only one screen."""
        return self

    def check(self) -> StateCheck:
        """The word alone stands in the right field alone, and the form was sent."""
        wanted = tuple(self.word if name == self.field else "" for name in self.fields)
        return scored(self.ended, text=self.typed == wanted, sent=self.sent)

    def _click(self, coordinate: Any) -> WebState:
        labels = tuple((name, label_box(i)) for i, name in enumerate(self.fields))
        target = hit((*labels, ("submit", button_box(self.place))), coordinate)
        if target == "submit":
            return replace(self, focus=None, sent=True)
        return replace(self, focus=target)

    def _type(self, text: str, enter: bool) -> WebState:
        if self.focus is None:
            return self
        typed = self.typed
        if not self.sent:
            i = self.fields.index(self.focus)
            typed = (*typed[:i], typed[i] + text, *typed[i + 1 :])  # type: ignore[assignment]
        return replace(self, typed=typed, sent=self.sent or enter)


def label_box(i: int) -> Box:
    """Colour block and input of a field: a click anywhere in it moves the keyboard there."""
    return 3.0, 3.0 + i * 32, 124.0, 29.0 + i * 32


def block_box(i: int) -> Box:
    """The colour block of a field."""
    return 3.0, 3.0 + i * 32, 29.0, 29.0 + i * 32


def button_box(place: int) -> Box:
    """The submit button."""
    return place * 32 + 1.0, 100.0, place * 32 + 30.0, 124.0
