"""A session as the JSON values that the page draws."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from mintact_platform.actions.space import Call
from mintact_platform.dashboard.samples import marks_of, words
from mintact_platform.play.panel import panel
from mintact_platform.play.round import Round
from mintact_platform.play.session import PlaySession


def view(session: PlaySession) -> dict[str, Any]:
    """Everything the page shows, but for the bytes of screenshots."""
    round, settings = session.round, session.settings
    limit = min(settings.max_turns, round.task.max_turns or settings.max_turns)
    turns = list(_turns(round))
    errors = sum(bool(turn["error"]) for turn in turns)
    return {
        "revision": session.revision,
        "phase": session.phase,
        "seconds": time.monotonic() - session.since,
        "environment": settings.pool.environment,
        "instance": round.instance,
        "server": round.server,
        "task": round.task.to_json(),
        "turn": {"done": len(turns), "limit": limit},
        "errors": {"made": errors, "limit": settings.max_error_turns},
        "reward": round.reward,
        "space": _space(session),
        "boot_deadline": settings.deadlines.create,
        "step_deadline": settings.deadlines.step,
        **_seen(round),
        "turns": turns,
        "info": dict(round.info),
        **_end(session),
    }


def _space(session: PlaySession) -> dict[str, Any] | None:
    space = session.space
    if space is None:
        return None
    offered = panel(space, session.round.tools_now)
    call = Call("name", {})
    for first in offered["actions"][:1]:
        call = Call(first["name"], first["arguments"])
    example = space.render("what I see, what is left", call)
    return {"name": space.name, "domain": space.domain, "example": example, **offered}


def _seen(round: Round) -> dict[str, Any]:
    """The messages, and which of the screenshots belong to the last one."""
    digests = [image.digest for image in round.images]
    messages, at = [], 0
    for message in round.messages:
        shown, at = digests[at : at + message.images], at + message.images
        messages.append({"role": message.role, "text": message.text, "images": shown})
    text = round.messages[-1].text if messages else ""
    if len(messages) == 2 and round.task.goal:
        # the first message of the user is the goal, then the observation
        text = text.removeprefix(round.task.goal).removeprefix("\n")
    return {
        "messages": messages,
        "observation": {
            "text": text,
            "new": messages[-1]["images"] if messages else [],
            "screenshot": digests[-1] if digests else None,
            "size": round.size,
        },
    }


def _turns(round: Round) -> Iterator[dict[str, Any]]:
    pointer: tuple[float, float] | None = None
    for turn in round.episode.turns if round.episode else ():
        marks = []
        size = round.sizes[turn.index] if turn.images else None
        for call in turn.pixel_calls:
            drawn, pointer = marks_of(call, pointer, size)
            marks.append(drawn)
        yield {
            "index": turn.index,
            "image": turn.images[-1] if turn.images else None,
            "size": size,
            "marks": "".join(marks),
            "observation": turn.observation,
            "response": turn.response,
            "does": [words(call) for call in turn.pixel_calls or turn.calls],
            "error": turn.error,
            "reward": turn.reward,
            "seconds": turn.step_seconds,
        }


def _end(session: PlaySession) -> dict[str, Any]:
    round = session.round
    check = round.trajectory.state_check if round.trajectory else None
    return {
        "outcome": None if round.outcome is None else str(round.outcome),
        "failure": None if round.failure is None else round.failure.to_json(),
        "said": round.said,
        "state_check": None if check is None else asdict(check),
        "judge": session.settings.judge_name or None,
        "verdict": None if round.verdict is None else round.verdict.to_json(),
        "judge_error": round.judge_error,
        "save_to": str(session.settings.save),
        "saved": None if round.saved is None else str(round.saved),
    }
