"""A person as the model: text as its own token ids, one id a character, screenshots untouched.

An episode cannot tell it from a model family's chat format, so a person plays through the very
code of a rollout, and what the page shows as the agent's messages is read back from the context
that a model would have been sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from mintact_platform.models.vision import VisionSize

_BEYOND = 0x110000
"""The first number that is no character."""
_SYSTEM, _USER, _ASSISTANT, _IMAGE, _END = range(_BEYOND, _BEYOND + 5)
Role = Literal["system", "user", "assistant"]
_ROLES: dict[int, Role] = {_SYSTEM: "system", _USER: "user", _ASSISTANT: "assistant"}


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a context.

    Attributes:
        role: whose.
        text: verbatim.
        images: how many are shown before the text.
    """

    role: Role
    text: str
    images: int = 0


class PlainChat:
    """A chat format whose ids are characters."""

    image_id = _IMAGE
    end_id = _END
    reserved_ids: tuple[int, ...] = (_SYSTEM, _USER, _ASSISTANT, _IMAGE)
    stop_ids: tuple[int, ...] = (_END, *reserved_ids)

    def begin(self, system: str) -> list[int]:
        """The system message."""
        return [_SYSTEM, *self.encode(system), _END]

    def user(self, text: str, images: int) -> list[int]:
        """One user message, images before text, and the assistant's opening."""
        return [_USER, *[_IMAGE] * images, *self.encode(text), _END, _ASSISTANT]

    def close_assistant(self, ids: Sequence[int]) -> list[int]:
        """The end of turn if the ids lack it."""
        return [] if len(ids) and int(ids[-1]) == _END else [_END]

    def encode(self, text: str) -> list[int]:
        """A text alone."""
        return [ord(character) for character in text]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; markers have none."""
        return "".join(chr(i) for i in map(int, ids) if i < _BEYOND)

    def strip(self, ids: Sequence[int]) -> str:
        """The text of a response."""
        return self.decode(ids)


@dataclass(frozen=True, slots=True)
class TrueSize(VisionSize):
    """Screenshots as the environment sent them, one token each."""

    patch: int = 1
    merge: int = 1
    area: int = 1 << 60

    def tokens(self, width: int, height: int) -> int:
        """One."""
        return 1


def read_messages(ids: Iterable[int]) -> tuple[Message, ...]:
    """The messages of a context of `PlainChat`, without the answer that is still awaited."""
    messages: list[Message] = []
    role: Role = "system"
    held: list[str] = []
    images = 0
    for i in map(int, ids):
        if i in _ROLES:
            role, held, images = _ROLES[i], [], 0
        elif i == _IMAGE:
            images += 1
        elif i == _END:
            messages.append(Message(role, "".join(held), images))
        else:
            held.append(chr(i))
    return tuple(messages)
