"""Sample trajectories as strips of screenshots, each with its action drawn on it."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from PIL import Image

from mintact_platform.dashboard.history import History, Rollout
from mintact_platform.errors import StorageError
from mintact_platform.records.trajectory import Trajectory, Turn
from mintact_platform.storage.trajectories import load

TURNS = 12
"""Turns shown of one trajectory."""
WIDEST = 640
"""Screenshots wider than this are shrunk, so that a report stays small."""
DIRECTIONS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}

STYLE = """
.strip { display: flex; gap: .75rem; overflow-x: auto; padding: .25rem 0 .75rem;
  scroll-snap-type: x proximity; }
.strip figure { margin: 0; flex: none; width: min(10.5rem, 60vw); scroll-snap-align: start; }
.screen { position: relative; border: 1px solid var(--rule); border-radius: 8px;
  overflow: hidden; background: var(--card); }
.screen img { display: block; width: 100%; }
.screen img.small { image-rendering: pixelated; }
.screen svg { position: absolute; inset: 0; width: 100%; height: 100%; }
.screen pre { margin: 0; padding: .6rem; min-height: 6rem; }
.halo { fill: none; stroke: #fff; } .ink { fill: none; stroke: #e11d48; } .dot { fill: #e11d48; }
figure pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .72rem; margin: .35rem 0;
  max-height: 9rem; overflow-y: auto; color: var(--faint); }
figcaption { font-size: .85rem; margin-top: .35rem; }
figcaption code { font-weight: 600; color: var(--ink); overflow-wrap: anywhere; }
.error { color: var(--bad); }
"""


class Screen(NamedTuple):
    """A screenshot ready to be embedded."""

    data: bytes
    kind: str
    width: int
    height: int
    shown_width: int


def pick(history: History) -> list[Rollout]:
    """The newest success and the newest failure of each domain, evaluations first."""
    chosen: list[Rollout] = []
    newest = [*reversed(history.evaluations), *reversed(history.rollouts)]
    for domain in history.domains:
        live = [r for r in newest if r.domain == domain and r.live and r.turns]
        for wanted in (True, False):
            chosen += [r for r in live if r.success is wanted][:1]
    return chosen


def strip(history: History, rollout: Rollout) -> str:
    """A trajectory as HTML: one figure a turn, scrolling sideways."""
    try:
        trajectory = load(history.path / rollout.path)
    except StorageError as error:
        return f'<p class="error">{escape(str(error))}</p>'
    figures = list(_figures(history, trajectory))
    more = len(trajectory.turns) - len(figures)
    rest = f"<figure><p>… and {more} turns more</p></figure>" if more > 0 else ""
    return f'<div class="strip" tabindex="0">{"".join(figures)}{rest}</div>'


def words(call: Mapping[str, Any]) -> str:
    """A call as a person would say it.

    Example:
        >>> words({"name": "mobile_use", "arguments": {"action": "click", "coordinate": [5, 9]}})
        'click (5, 9)'
    """
    arguments = dict(call.get("arguments") or {})
    verb = arguments.pop("action", None)
    if not isinstance(verb, str):
        inside = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in arguments.items())
        return f"{call.get('name', '?')}({inside})"
    return " ".join([verb, *(_value(name, value) for name, value in arguments.items())])


def marks_of(
    call: Mapping[str, Any],
    pointer: tuple[float, float] | None,
    size: tuple[int, int] | None,
) -> tuple[str, tuple[float, float] | None]:
    """What one call draws over a screenshot, as SVG shapes, and where it leaves the pointer.

    Args:
        call: in pixels.
        pointer: where the call before left it.
        size: width and height of the screenshot; None where there is none to draw on.
    """
    arguments = call.get("arguments") or {}
    start, end = _point(arguments.get("coordinate")), _point(arguments.get("coordinate2"))
    if size is None:
        return "", end or start or pointer
    width, height = size
    radius = max(width, height) / 28
    if "drag" in str(arguments.get("action", "")) and start and not end:
        start, end = pointer or start, start
    if end is None and (way := DIRECTIONS.get(str(arguments.get("direction", "")))):
        start = start or (width / 2, height / 2)
        end = (start[0] + way[0] * radius * 5, start[1] + way[1] * radius * 5)
        return _arrow(start, end, radius), pointer
    if start and end:
        return _arrow(start, end, radius), end
    if start:
        return _target(start, radius), start
    return "", pointer


def _value(name: str, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        numbers = all(isinstance(item, (int, float)) for item in value)
        return f"({', '.join(map(str, value))})" if numbers else "+".join(map(str, value))
    typed = name in ("text", "response")
    return json.dumps(value, ensure_ascii=False) if typed else str(value)


def _figures(history: History, trajectory: Trajectory) -> Iterator[str]:
    pointer: tuple[float, float] | None = None
    for turn in trajectory.turns[:TURNS]:
        screen = _screen(history, trajectory, turn)
        marks = []
        for call in turn.pixel_calls:
            drawn, pointer = marks_of(call, pointer, screen and (screen.width, screen.height))
            marks.append(drawn)
        yield _figure(turn, screen, "".join(marks))


def _figure(turn: Turn, screen: Screen | None, marks: str) -> str:
    if screen is None:
        view = f"<pre>{escape(turn.observation or '(no new observation)')}</pre>"
    else:
        source = f"data:image/{screen.kind};base64,{base64.b64encode(screen.data).decode()}"
        small = ' class="small"' if screen.shown_width < 256 else ""
        overlay = f'<svg viewBox="0 0 {screen.width} {screen.height}">{marks}</svg>'
        view = f'<img{small} alt="screenshot of turn {turn.index + 1}" src="{source}">{overlay}'
    said = escape(turn.response.replace("<|im_end|>", "").strip())
    calls = turn.pixel_calls or turn.calls
    done = " · ".join(f"<code>{escape(words(call))}</code>" for call in calls)
    wrong = f'<div class="error">{escape(turn.error)}</div>' if turn.error else ""
    caption = f"{turn.index + 1}. {done or 'no action'}{wrong}"
    return (
        f'<figure><div class="screen">{view}</div>'
        f"<figcaption>{caption}</figcaption><pre>{said}</pre></figure>"
    )


def _screen(history: History, trajectory: Trajectory, turn: Turn) -> Screen | None:
    if not turn.images:
        return None
    digest = turn.images[-1]
    extension = trajectory.image_extensions.get(digest, "png")
    try:
        data = history.directory.images.get(digest, extension)
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size
            if width <= WIDEST:
                kind = "jpeg" if extension == "jpg" else extension
                return Screen(data, kind, width, height, width)
            shrunk = image.convert("RGB").resize((WIDEST, round(height * WIDEST / width)))
    except (StorageError, OSError):
        return None
    buffer = io.BytesIO()
    shrunk.save(buffer, "JPEG", quality=75)
    return Screen(buffer.getvalue(), "jpeg", width, height, WIDEST)


def _target(at: tuple[float, float], size: float) -> str:
    place = f'cx="{at[0]:g}" cy="{at[1]:g}"'
    ring = f'{place} r="{size:.1f}"'
    return (
        f'<circle class="halo" {ring} stroke-width="{size / 2:.2f}"/>'
        f'<circle class="ink" {ring} stroke-width="{size / 4:.2f}"/>'
        f'<circle class="dot" {place} r="{size / 4:.2f}"/>'
    )


def _arrow(start: tuple[float, float], end: tuple[float, float], size: float) -> str:
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    ux, uy = dx / length * size * 1.6, dy / length * size * 1.6
    base = (end[0] - ux, end[1] - uy)
    corners = (end, (base[0] - uy / 2, base[1] + ux / 2), (base[0] + uy / 2, base[1] - ux / 2))
    head = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    ends = f'x1="{start[0]:g}" y1="{start[1]:g}" x2="{base[0]:.1f}" y2="{base[1]:.1f}"'
    return (
        f'<line class="halo" {ends} stroke-width="{size * 0.8:.2f}"/>'
        f'<line class="ink" {ends} stroke-width="{size * 0.4:.2f}"/>'
        f'<polygon class="dot" points="{head}"/>'
        f'<circle class="dot" cx="{start[0]:g}" cy="{start[1]:g}" r="{size / 3:.2f}"/>'
    )


def _point(value: Any) -> tuple[float, float] | None:
    pair = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2
    if not pair or not all(isinstance(item, (int, float)) for item in value):
        return None
    return float(value[0]), float(value[1])
