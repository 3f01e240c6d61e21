"""The append-only token context of one rollout: token-in, token-out, never re-tokenised.

A context is a system prompt followed by pieces, each encoded alone at special-token borders or
sampled by the model. When the callable tools change, the system prompt does: the context forks
into a new segment that holds the same pieces under the new prompt, and every sampled token is
supervised in exactly one segment, the one it was sampled in (paper, tool-registry-aware segments).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mintact_platform.models.chat import ChatFormat
from mintact_platform.models.vision import VisionSize
from mintact_platform.records.trajectory import ImageSpan, Segment


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image of the run's store."""

    digest: str
    extension: str
    width: int
    height: int


@dataclass(slots=True)
class _Piece:
    ids: list[int]
    sampled: int = 0
    logprobs: Sequence[float] = ()
    versions: Sequence[int] = ()
    images: list[tuple[int, StoredImage]] = field(default_factory=list)


class TokenContext:
    """Builds the ids of the next request and, at the end, the training segments.

    Args:
        chat: the model family's append-only format.
        vision: what an image costs in tokens.
        system: system prompt of the first segment.
    """

    def __init__(self, chat: ChatFormat, vision: VisionSize, system: str) -> None:
        self._chat, self._vision = chat, vision
        self._pieces: list[_Piece] = []
        self._prompts: list[list[int]] = [list(chat.begin(system))]
        self._starts: list[int] = [0]

    @property
    def segment(self) -> int:
        """Index of the current segment."""
        return len(self._prompts) - 1

    @property
    def ids(self) -> npt.NDArray[np.int32]:
        """Collapsed ids of the current segment."""
        parts = [self._prompts[-1], *(piece.ids for piece in self._pieces)]
        return np.concatenate([np.asarray(part, np.int32) for part in parts])

    @property
    def images(self) -> list[StoredImage]:
        """Images of the current segment, in order."""
        return [image for piece in self._pieces for _, image in piece.images]

    @property
    def tokens(self) -> int:
        """Length of the current segment with images expanded, as a model server counts it."""
        collapsed = len(self._prompts[-1]) + sum(len(piece.ids) for piece in self._pieces)
        return collapsed + sum(self._vision.tokens(i.width, i.height) - 1 for i in self.images)

    def observe(self, text: str, images: Sequence[StoredImage] = ()) -> None:
        """Append an observation as a user message and open the assistant's turn."""
        ids = list(self._chat.user(text, len(images)))
        places = [k for k, token in enumerate(ids) if token == self._chat.image_id]
        if len(places) != len(images):
            raise ValueError(f"{len(places)} placeholders for {len(images)} images")
        self._pieces.append(_Piece(ids, images=list(zip(places, images, strict=True))))

    def sampled(
        self, ids: Sequence[int], logprobs: Sequence[float], versions: Sequence[int]
    ) -> list[int]:
        """Append what the model sampled, verbatim; returns the ids that were kept.

        A reserved vision id that ended the turn is cut from context and loss.
        """
        kept = list(ids)
        if kept and kept[-1] in self._chat.reserved_ids:
            kept.pop()
        closing = list(self._chat.close_assistant(kept))
        n = len(kept)
        self._pieces.append(_Piece(kept + closing, n, logprobs[:n], versions[:n]))
        return kept

    def fork(self, system: str) -> None:
        """Start a new segment: the whole history under another system prompt."""
        self._prompts.append(list(self._chat.begin(system)))
        self._starts.append(len(self._pieces))

    def build(self) -> tuple[Segment, ...]:
        """The training segments; every sampled token is supervised in exactly one."""
        ends = [*self._starts[1:], len(self._pieces)]
        return tuple(
            self._segment(prompt, start, end)
            for prompt, start, end in zip(self._prompts, self._starts, ends, strict=True)
        )

    def _segment(self, prompt: list[int], start: int, end: int) -> Segment:
        length = len(prompt) + sum(len(piece.ids) for piece in self._pieces[:end])
        ids = np.zeros(length, np.int32)
        mask = np.zeros(length, np.bool_)
        logprobs = np.zeros(length, np.float32)
        versions = np.full(length, -1, np.int32)
        ids[: len(prompt)] = prompt
        spans, at = [], len(prompt)
        for index, piece in enumerate(self._pieces[:end]):
            ids[at : at + len(piece.ids)] = piece.ids
            if piece.sampled and index >= start:
                stop = at + piece.sampled
                mask[at:stop] = True
                logprobs[at:stop] = piece.logprobs
                versions[at:stop] = piece.versions
            for place, image in piece.images:
                spans.append(
                    ImageSpan(image.digest, image.extension, at + place, image.width, image.height)
                )
            at += len(piece.ids)
        return Segment(ids, mask, logprobs, versions, tuple(spans))
