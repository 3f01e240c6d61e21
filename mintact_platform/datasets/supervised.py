"""From demonstrations to supervised rows: the very tokens that a rollout would hold.

A row may carry guidance: for tokens that depend on a place of the screen, which word names the
place and which image tokens show it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from mintact_platform.actions.space import ActionSpace
from mintact_platform.errors import ConfigurationError, about, near_match, shown
from mintact_platform.models.chat import ChatFormat
from mintact_platform.models.vision import VisionSize
from mintact_platform.records.demonstration import (
    Box,
    Demonstration,
    DemonstrationTurn,
    Focus,
)
from mintact_platform.records.demonstration import (
    Pixels as Pixels,
)
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import ImageSpan, Segment
from mintact_platform.registry import parameters
from mintact_platform.registry.names import Registry
from mintact_platform.rollouts.context import StoredImage, TokenContext
from mintact_platform.rollouts.seeds import seed_of

_COORDINATE = re.compile(r'"coordinate2?": ?\[[^\]]*\]')
_THOUGHT_END = "</think>"
_GOLDEN = (5**0.5 - 1) / 2
_OVERLAP = 0.25
"""Share of a cell, or of a smaller box, that must overlap for the cell to show the box."""


@dataclass(frozen=True, slots=True)
class Guidance:
    """Where the token at `query` should look to predict the next one.

    Attributes:
        query: index of the attending token in the collapsed ids.
        word: index of the token that names the place.
        image: which of the row's images shows it.
        cells: its image tokens there, row-major.
    """

    query: int
    word: int
    image: int
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SupervisedRow:
    """A token context with the demonstrator's tokens masked in.

    Attributes:
        ids: int32 `[tokens]`, collapsed.
        mask: bool `[tokens]`, true where the loss is taken.
        images: where each image stands.
        pixels: uint8 `[height, width, 3]` of each image.
        guidance: where tokens should look.
        domain: of the demonstration.
    """

    ids: npt.NDArray[np.int32]
    mask: npt.NDArray[np.bool_]
    images: tuple[ImageSpan, ...]
    pixels: tuple[Pixels, ...]
    guidance: tuple[Guidance, ...]
    domain: str


@dataclass(frozen=True)
class Renderer:
    """Turns demonstrations into rows exactly as a rollout would have recorded them.

    Attributes:
        chat: the model family's chat format.
        vision: the model's image geometry.
        space: the action space of that registered name, with the run's parameters.
    """

    chat: ChatFormat
    vision: VisionSize
    space: Callable[[str], ActionSpace]

    def rows(self, demonstration: Demonstration) -> tuple[SupervisedRow, ...]:
        """One row a segment; every response is supervised in exactly one of them."""
        drawing = _Drawing(self, demonstration)
        for index, turn in enumerate(demonstration.turns):
            drawing.turn(turn, first=index == 0)
        return drawing.rows()


@dataclass
class _Drawing:
    """A demonstration being written down."""

    renderer: Renderer
    demonstration: Demonstration
    pixels: list[Pixels] = field(default_factory=list)
    guidance: dict[int, list[Guidance]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        demonstration = self.demonstration
        self._space = self.renderer.space(demonstration.action_space)
        self._task = Task("demonstration", demonstration.goal, demonstration.domain)
        self._tools: tuple[Mapping[str, Any], ...] = demonstration.tools
        self._scale = (1.0, 1.0)
        self._context = TokenContext(
            self.renderer.chat, self.renderer.vision, self._prompt(demonstration.tools)
        )

    def turn(self, turn: DemonstrationTurn, *, first: bool) -> None:
        chat, context = self.renderer.chat, self._context
        if turn.tools is not None and tuple(turn.tools) != self._tools:
            self._tools = tuple(turn.tools)
            context.fork(self._prompt(self._tools))
        shown = turn.earlier if turn.screenshot is None else (*turn.earlier, turn.screenshot)
        images = [self._show(picture) for picture in shown]
        goal = self.demonstration.goal if first else ""
        context.observe("\n".join(filter(None, (goal, turn.text))), images)
        response = chat.encode(turn.response)
        if turn.focus is not None and self.pixels:
            start = len(context.ids)
            here = self.guidance.setdefault(context.segment, [])
            here += self._guide(response, turn.focus, start)
        ids = [*response, chat.end_id]
        context.sampled(ids, [0.0] * len(ids), [0] * len(ids))

    def rows(self) -> tuple[SupervisedRow, ...]:
        return tuple(
            self._row(segment, tuple(self.guidance.get(index, ())))
            for index, segment in enumerate(self._context.build())
            if segment.mask.any()
        )

    def _row(self, segment: Segment, guidance: tuple[Guidance, ...]) -> SupervisedRow:
        return SupervisedRow(
            segment.ids,
            segment.mask,
            segment.images,
            tuple(self.pixels[: len(segment.images)]),
            guidance,
            self.demonstration.domain,
        )

    def _prompt(self, tools: Sequence[Mapping[str, Any]]) -> str:
        return self._space.system_prompt(self._task, tools)

    def _show(self, screenshot: Pixels) -> StoredImage:
        height, width = screenshot.shape[:2]
        wide, high = self.renderer.vision.fit(width, height)
        if (wide, high) != (width, height):
            resized = Image.fromarray(screenshot).resize((wide, high), Image.Resampling.LANCZOS)
            screenshot = np.asarray(resized)
        self._scale = (wide / width, high / height)
        self.pixels.append(screenshot)
        return StoredImage(str(len(self.pixels) - 1), "", wide, high)

    def _guide(self, response: Sequence[int], focus: Focus, start: int) -> list[Guidance]:
        if not self.renderer.vision.regular:
            return []
        place = locate(self.renderer.chat, response, focus.word)
        image = len(self.pixels) - 1
        cell = self.renderer.vision.factor
        scale = (*self._scale, *self._scale)
        x0, y0, x1, y1 = (edge * by for edge, by in zip(focus.box, scale, strict=True))
        cells = overlapping((x0, y0, x1, y1), self.pixels[image].shape[:2], cell)
        if place is None or not cells:
            return []
        return [
            Guidance(start + token - 1, start + place.word, image, cells) for token in place.tokens
        ]


@dataclass(frozen=True, slots=True)
class Place:
    """Tokens of a response: the last of the naming word, and those that depend on the place."""

    word: int
    tokens: tuple[int, ...]


def locate(chat: ChatFormat, response: Sequence[int], word: str) -> Place | None:
    """The naming word's last token before the call, and the tokens that depend on the place.

    These are the digits of coordinates; without a coordinate, the thought's last word: what was
    read off the screen. None when the response does not hold the word.
    """
    text = chat.decode(response)
    ends = [len(chat.decode(response[: k + 1])) for k in range(len(response))]
    thought_end = text.find(_THOUGHT_END)
    at = text.rfind(word, 0, len(text) if thought_end < 0 else thought_end)
    if at < 0:
        return None
    named = _token_at(ends, at + len(word) - 1)
    spans = [match.span() for match in _COORDINATE.finditer(text)]
    digits = tuple(
        token
        for token, end in enumerate(ends)
        if any(low < end <= high for low, high in spans)
        and chat.decode([response[token]]).strip().isdigit()
    )
    if digits or thought_end <= 0:
        return Place(named, digits)
    last = _token_at(ends, thought_end - 1)
    return Place(named, (last,) if last > named else ())


def overlapping(box: Box, size: tuple[int, ...], cell: int) -> tuple[int, ...]:
    """Cells of an image (row-major) that show a box.

    Args:
        box: x0, y0, x1, y1 in pixels.
        size: height and width in pixels.
        cell: side of a cell in pixels.
    """
    x0, y0, x1, y1 = box
    needed = _OVERLAP * min(cell * cell, (x1 - x0) * (y1 - y0))
    rows, columns = size[0] // cell, size[1] // cell
    wide = [min(x1, (c + 1) * cell) - max(x0, c * cell) for c in range(columns)]
    high = [min(y1, (r + 1) * cell) - max(y0, r * cell) for r in range(rows)]
    return tuple(
        row * columns + column
        for row, column in itertools.product(range(rows), range(columns))
        if wide[column] > 0 and high[row] > 0 and wide[column] * high[row] >= needed
    )


@dataclass(frozen=True)
class Source:
    """Registered demonstrations and their share of every batch.

    Attributes:
        name: registered name.
        open: `seed -> endless demonstrations`, parameters bound.
        share: relative to the other sources.
    """

    name: str
    open: Callable[..., Iterator[Demonstration]]
    share: float = 1.0


def sources(data: Sequence[Mapping[str, Any]], registry: Registry) -> tuple[Source, ...]:
    """Read `[sft] data`: entries `{name, params, share}`.

    Raises:
        ConfigurationError: no entry, an unknown key, a share that is not positive.
        PluginNotFound: a name no plugin registers.
    """
    if not data:
        raise ConfigurationError(
            "no demonstrations", where="sft.data", next="add { name = '…', share = 1.0 }"
        )
    return tuple(_source(entry, registry, f"sft.data[{i}]") for i, entry in enumerate(data))


def batch(sources: Sequence[Source], *, step: int, size: int, seed: int) -> list[Demonstration]:
    """The demonstrations of one step, a function of its arguments alone.

    Shares hold over the steps together: a share of 3.2 gives 3 or 4. Within a source, the domains
    alternate as the source gives them.

    Args:
        sources: where they come from.
        step: 1-based.
        size: demonstrations a step.
        seed: of the run.
    """
    total = sum(source.share for source in sources)
    ends = [size * part / total for part in itertools.accumulate(s.share for s in sources)]
    # an offset that fills [0, 1) evenly over the steps decides who gets a fractional slot
    offset = step * _GOLDEN % 1
    slots = [0, *(int(end + offset) for end in ends[:-1]), size]
    counts = [end - start for start, end in itertools.pairwise(slots)]
    drawn: list[Demonstration] = []
    for source, count in zip(sources, counts, strict=True):
        stream = source.open(seed=seed_of(seed, source.name, step))
        drawn += itertools.islice(stream, count)
    return drawn


def _token_at(ends: Sequence[int], character: int) -> int:
    return next(token for token, end in enumerate(ends) if end > character)


def _source(entry: Mapping[str, Any], registry: Registry, where: str) -> Source:
    known = ("name", "params", "share")
    for key in entry:
        if key not in known:
            raise ConfigurationError(
                f"unknown key {key!r}", where=where, next=near_match(key, known)
            )
    name, share, params = entry.get("name"), entry.get("share", 1.0), entry.get("params", {})
    if not isinstance(name, str):
        raise ConfigurationError("a name is needed", where=where, next="add name = '…'")
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < math.inf:
        raise ConfigurationError(f"share must be positive, got {shown(share)}", where=where)
    if not isinstance(params, Mapping):
        raise ConfigurationError(f"params are a table, got {shown(params)}", where=where)
    with about(where):
        target = registry.get("demonstrations", name)
    checked = parameters.check(target, {"seed": 0, **params}, where=f"{where} {name!r}")
    checked.pop("seed")

    def open_stream(*, seed: int) -> Iterator[Demonstration]:
        demonstrations: Iterator[Demonstration] = target(seed=seed, **checked)
        return demonstrations

    return Source(name, open_stream, float(share))
