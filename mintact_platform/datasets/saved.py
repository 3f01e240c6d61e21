"""Episodes kept as demonstrations: one JSON line each, their screenshots in a folder beside it.

`play.jsonl` has its images in `play.images/`. A line holds the whole episode as it happened, also
responses that could not be used; the demonstration made of it leaves these out, since they did
nothing to the environment.
"""

from __future__ import annotations

import io
import json
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from PIL import Image
from pydantic import AfterValidator

from mintact_platform.errors import ConfigurationError
from mintact_platform.records.demonstration import Demonstration, DemonstrationTurn, Pixels
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.records.verdict import Verdict
from mintact_platform.storage.images import ImageStore

FORMAT = 1
Row = Mapping[str, Any]


def image_folder(path: Path) -> Path:
    """The folder that holds the screenshots of a file of episodes."""
    return path.with_suffix(".images")


def save(
    path: Path,
    trajectory: Trajectory,
    *,
    action_space: str,
    tools: Sequence[tuple[Mapping[str, Any], ...]],
    images: ImageStore,
    verdict: Verdict | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Append an episode to a file, which is made if need be.

    Args:
        path: a `.jsonl` file.
        trajectory: the episode.
        action_space: registered name of the space its responses are worded in.
        tools: the tools that could be called at each turn.
        images: where the trajectory's screenshots are.
        verdict: the judge's, if it was judged.
        extra: free annotations; JSON values.

    Raises:
        OSError: the file cannot be written.
    """
    store = ImageStore(image_folder(path))
    for digest, extension in trajectory.image_extensions.items():
        store.put(images.get(digest, extension), extension)
    check = trajectory.state_check
    row = {
        "format": FORMAT,
        "id": trajectory.id,
        "saved_at": time.time(),
        "task": trajectory.task.to_json(),
        "action_space": action_space,
        "outcome": str(trajectory.outcome),
        "state_check": None if check is None else asdict(check),
        "verdict": None if verdict is None else verdict.to_json(),
        "turns": list(rows_of_turns(trajectory, tools)),
        "extra": dict(extra or {}),
    }
    _append(path, json.dumps(row, ensure_ascii=False).encode())


def files_at(path: Path) -> list[Path]:
    """The files of saved episodes at a path, itself or those in it.

    Raises:
        ValueError: there is none.
    """
    path = path.expanduser()
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise ValueError("no saved episodes there; save some with `mintact play ENV`")
    return files


def _existing(path: Path) -> Path:
    files_at(path)
    return path


def episodes(
    *,
    seed: int,
    path: Annotated[Path, AfterValidator(_existing)],
    verdict: Literal["success", "any"] = "success",
) -> Iterator[Demonstration]:
    """Saved episodes in random order, over and over.

    Args:
        seed: of the order.
        path: a `.jsonl` file of `mintact play`, or a folder of such files.
        verdict: `success` takes only episodes that a judge, or else the state check, calls one.

    Raises:
        ValueError: no such file.
        ConfigurationError: a line that is no episode, or none that may be used.
    """
    lines = [(file, k, line) for file in files_at(path) for k, line in _lines(file)]
    order = random.Random(seed)
    while True:
        order.shuffle(lines)
        given = 0
        for file, number, line in lines:
            row = _read(file, number, line)
            if verdict == "any" or succeeded(row):
                demonstration = demonstration_of(row, ImageStore(image_folder(file)))
                if demonstration.turns:
                    given += 1
                    yield demonstration
        if not given:
            raise ConfigurationError(
                f"none of {len(lines)} episodes may be used",
                where=str(path),
                next="save one that succeeds, or set verdict = 'any'",
            )


def succeeded(row: Row) -> bool:
    """Whether an episode was a success: by its judge, by its state check where none judged."""
    for judged, key, wanted in (("verdict", "label", "success"), ("state_check", "success", True)):
        if row[judged] is not None:
            return bool(row[judged][key] == wanted)
    return False


def demonstration_of(row: Row, images: ImageStore) -> Demonstration:
    """The episode as a demonstrator would have given it, without the slips."""
    turns: list[DemonstrationTurn] = []
    first = tools = tuple(row["turns"][0]["tools"]) if row["turns"] else ()
    seen: Row | None = None
    for turn in row["turns"]:
        # after a slip the agent was shown an error; what it should have answered came before
        seen = seen or turn
        if turn["error"]:
            continue
        now = tuple(turn["tools"])
        *earlier, last = (*(_pixels(images, name) for name in seen["images"]),) or (None,)
        turns.append(
            DemonstrationTurn(
                text=seen["observation"],
                screenshot=last,
                response=turn["response"],
                tools=None if now == tools else now,
                earlier=tuple(image for image in earlier if image is not None),
            )
        )
        tools, seen = now, None
    return Demonstration(
        domain=row["task"]["domain"],
        action_space=row["action_space"],
        goal=row["task"]["goal"],
        turns=tuple(turns),
        tools=first,
        extra={"id": row["id"], **row["extra"]},
    )


def rows_of_turns(
    trajectory: Trajectory, tools: Sequence[tuple[Mapping[str, Any], ...]]
) -> Iterator[dict[str, Any]]:
    """The turns of an episode as they are saved; the goal stands apart."""
    goal = trajectory.task.goal
    for turn, callable_now in zip(trajectory.turns, tools, strict=True):
        text = turn.observation
        if turn.index == 0 and goal:
            # the first message is the goal, then the observation
            text = text.removeprefix(goal).removeprefix("\n")
        yield {
            "observation": text,
            "images": [f"{d}.{trajectory.image_extensions.get(d, 'png')}" for d in turn.images],
            "tools": [dict(tool) for tool in callable_now],
            "response": turn.response,
            "error": turn.error,
            "calls": [dict(call) for call in turn.calls],
            "pixel_calls": [dict(call) for call in turn.pixel_calls],
            "reward": turn.reward,
        }


def _append(path: Path, line: bytes) -> None:
    """Append a line; one that a crash cut short is ended first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = b"\n" + line
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _lines(file: Path) -> list[tuple[int, str]]:
    text = file.read_text(encoding="utf-8")
    return [(k, line) for k, line in enumerate(text.split("\n"), 1) if line.strip()]


def _read(file: Path, number: int, line: str) -> Row:
    try:
        row: Row = json.loads(line)
        if row["format"] != FORMAT:
            raise ValueError(f"format {row['format']!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"line {number} is no saved episode ({type(error).__name__}: {error})",
            where=str(file),
            next=f"remove the line; this version reads format {FORMAT}",
        ) from None
    return row


def _pixels(images: ImageStore, name: str) -> Pixels:
    digest, _, extension = name.partition(".")
    with Image.open(io.BytesIO(images.get(digest, extension))) as image:
        return np.asarray(image.convert("RGB"))
