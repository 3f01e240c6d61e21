"""Supervised episodes: what a demonstrator saw and answered, with grounding annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in pixels of the screenshot."""
Pixels = npt.NDArray[np.uint8]
"""uint8 `[height, width, 3]`."""


@dataclass(frozen=True, slots=True)
class Focus:
    """What a response refers to: a word of the response and the screen region it names.

    Attributes:
        word: the word, as it stands in the response before the call.
        box: the region in pixels of the last screenshot shown.
    """

    word: str
    box: Box


@dataclass(frozen=True, slots=True, eq=False)
class DemonstrationTurn:
    """One supervised turn.

    Attributes:
        text: observation text before the response, as the action space words it ("" for none).
        screenshot: uint8 `[height, width, 3]`, None where no new image is shown.
        response: the assistant's text: thinking and call, without end-of-turn token.
        focus: grounding annotation of the response, if any.
        elements: named regions of the screenshot, for alignment of scratch models.
        tools: callable tools from this turn on (schemas); None where they did not change.
        earlier: further images, shown before the screenshot.
    """

    text: str
    screenshot: Pixels | None
    response: str
    focus: Focus | None = None
    elements: tuple[tuple[str, Box], ...] = ()
    tools: tuple[Mapping[str, Any], ...] | None = None
    earlier: tuple[Pixels, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Demonstration:
    """One supervised episode in the words of its action space.

    Attributes:
        domain: as in a task.
        action_space: registered name; renders the system prompt.
        goal: the instruction shown with the first observation ("" for none).
        turns: in order.
        tools: callable tools shown in the prompt (schemas), for `tool_use`.
        extra: free annotations.
    """

    domain: str
    action_space: str
    goal: str
    turns: tuple[DemonstrationTurn, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
