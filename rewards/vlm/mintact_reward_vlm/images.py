"""Which screenshots a model is shown, and how they travel."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from mintact_platform.judging.judge import JudgeView
from mintact_platform.records.trajectory import Turn

Select = Literal["changes", "evenly"]


class Shown(NamedTuple):
    """One image of a trajectory.

    Attributes:
        turn: 0-based turn before whose response the agent saw it; the number of turns for what was
            shown at the end, after the last.
        place: 0-based place among the images of that turn.
    """

    turn: int
    place: int


def choose(
    turns: Sequence[Turn],
    limit: int,
    *,
    final: Sequence[str] = (),
    select: Select = "changes",
) -> tuple[Shown, ...]:
    """The images to show, in order: the first, the last, and some in between.

    Args:
        turns: of the trajectory.
        final: digests of the images shown at the end.
        limit: images at most; one is the last, none are none.
        select: `changes` leaves out images equal to the one before, `evenly` does not; what is
            too many after that is thinned out evenly.
    """
    every = [
        (Shown(turn, place), digest)
        for turn, images in enumerate([*(one.images for one in turns), final])
        for place, digest in enumerate(images)
    ]
    if select == "changes":
        earlier = [None, *(digest for _, digest in every)]
        every = [found for found, before in zip(every, earlier, strict=False) if found[1] != before]
    shown = [place for place, _ in every]
    if limit <= 0 or not shown:
        return ()
    if limit == 1 or len(shown) == 1:
        return (shown[-1],)
    if len(shown) <= limit:
        return tuple(shown)
    last = len(shown) - 1
    return tuple(shown[round(k * last / (limit - 1))] for k in range(limit))


def load(view: JudgeView, chosen: Sequence[Shown], *, detail: str) -> dict[Shown, dict[str, Any]]:
    """The chosen images as parts of a message; reads files, so blocks."""
    parts = {}
    for shown in chosen:
        ended = shown.turn == len(view.turns)
        data = (view.final_images() if ended else view.images(shown.turn))[shown.place]
        url = f"data:{media_type(data)};base64,{base64.b64encode(data).decode()}"
        parts[shown] = {"type": "image_url", "image_url": {"url": url, "detail": detail}}
    return parts


def media_type(data: bytes) -> str:
    """By the first bytes: PNG, WebP or JPEG."""
    if data.startswith(b"\x89PNG"):
        return "image/png"
    return "image/webp" if data[8:12] == b"WEBP" else "image/jpeg"
