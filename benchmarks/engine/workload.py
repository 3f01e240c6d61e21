"""What every contestant is asked: prompts, episodes and their images, the same for all."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from PIL import Image

TEXT = range(30, 200)
"""Ids of plain text in the tiny model's vocabulary."""
CONTEXT, TOKENS = 200, 64
"""Of the prompts of equal length: tokens before, and tokens generated."""
EPISODES, TURNS, GROUP = 64, 4, 8
LONG_TURNS = 30
MEMBERS, SHARED = 8, 1500


class Call(NamedTuple):
    """One generation: collapsed ids, an image each placeholder, exactly `tokens` new ones."""

    ids: list[int]
    images: list[bytes]
    tokens: int
    seed: int


@dataclass
class Episode:
    """An append-only conversation with one image and some text a turn.

    Attributes:
        ids: the conversation so far, collapsed.
        observations: text and image of every turn.
        lengths: tokens generated in every turn.
        placeholder: id of an image.
        seed: of what is sampled.
        images: of the conversation so far.
    """

    ids: list[int]
    observations: list[tuple[list[int], bytes]]
    lengths: list[int]
    placeholder: int
    seed: int
    images: list[bytes] = field(default_factory=list)

    def call(self, turn: int) -> Call:
        """Take the turn's observation, and ask for its tokens."""
        text, image = self.observations[turn]
        self.ids = [*self.ids, self.placeholder, *text]
        self.images = [*self.images, image]
        return Call(self.ids, self.images, self.lengths[turn], self.seed + turn)

    def reply(self, ids: Sequence[int]) -> None:
        """Take what was generated; a sampled placeholder would stand for no image."""
        self.ids = [*self.ids, *(i if i in TEXT else TEXT.start for i in ids)]


def batch(count: int, draw: int) -> list[Call]:
    """Prompts of equal length that share nothing, neither with each other nor between draws."""
    rng = np.random.default_rng((1, draw, count))
    return [Call(_text(rng, CONTEXT), [], TOKENS, 1000 * draw + k) for k in range(count)]


def ragged(placeholder: int, draw: int, episodes: int = EPISODES) -> list[Episode]:
    """Episodes in groups of `GROUP` that share a system prompt, a task and a first screenshot.

    Output lengths differ from 8 to 64 tokens a turn.
    """
    rng = np.random.default_rng((2, draw))
    system = _text(rng, 120)
    made: list[Episode] = []
    while len(made) < episodes:
        task, first = _text(rng, 40), (_text(rng, 12), picture(rng, 192, 192))
        for _ in range(min(GROUP, episodes - len(made))):
            later = [(_text(rng, 12), picture(rng, 192, 192)) for _ in range(TURNS - 1)]
            lengths = rng.integers(8, 65, TURNS).tolist()
            seed = 100_000 * (draw + 1) + 100 * len(made)
            made.append(Episode([*system, *task], [first, *later], lengths, placeholder, seed))
    return made


def long_episode(placeholder: int, draw: int, turns: int = LONG_TURNS) -> Episode:
    """One conversation of screenshots: 108 image tokens, 12 of text and 12 generated a turn."""
    rng = np.random.default_rng((3, draw))
    observations = [(_text(rng, 12), picture(rng, 384, 288)) for _ in range(turns)]
    return Episode(_text(rng, 60), observations, [12] * turns, placeholder, 7000 * (draw + 1))


def group(placeholder: int, draw: int, *, shared: bool) -> list[Call]:
    """The members of a group: one long prompt for all, or one of its length for each."""
    rng = np.random.default_rng((4, draw, shared))
    image = picture(rng, 256, 256)
    texts = [_text(rng, SHARED) for _ in range(MEMBERS)]
    prompts = [[*texts[0 if shared else k], placeholder] for k in range(MEMBERS)]
    return [Call(ids, [image], 1, 9000 + k) for k, ids in enumerate(prompts)]


def picture(rng: np.random.Generator, width: int, height: int) -> bytes:
    """A JPEG of coloured cells."""
    cells = rng.integers(0, 256, (height // 32, width // 32, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(cells.repeat(32, 0).repeat(32, 1)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def _text(rng: np.random.Generator, count: int) -> list[int]:
    ids: list[int] = rng.integers(TEXT.start, TEXT.stop, count).tolist()
    return ids
