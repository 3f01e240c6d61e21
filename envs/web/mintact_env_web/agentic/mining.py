"""Capability mining: what recorded rollouts needed, merged into groups that sites are written for.

The flywheel of Weblica-Synth: what the policy meets often and fails at is what the next sites
train. Two files come out: `observed.jsonl`, one line a rollout, and `capabilities.toml`, the
groups, which `mintact web write --mined` draws from and people may edit.
"""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from mintact_env_web.agentic import prompts
from mintact_env_web.agentic.answers import AnswerError, read_json
from mintact_env_web.agentic.client import ChatModel, Message, said
from mintact_env_web.agentic.groups import (
    Observed,
    batches,
    composed,
    read_groups,
    read_names,
    tally,
)
from mintact_env_web.agentic.rollouts import Deed, Picture, RecordedRun, Recording
from mintact_env_web.agentic.sampler import Group
from mintact_platform.errors import ConfigurationError, StorageError, first_cause

OBSERVED = "observed.jsonl"
GROUPS = "capabilities.toml"
PER_QUESTION = 6
"""Actions of a rollout that one question shows."""
PER_MERGE = 80
"""Names that one question asks to merge."""
_ROUNDS = 5
_HEADER = """\
# Capability groups, mined from recorded rollouts; `mintact web write --mined` draws from them.
# weight = sqrt(seen) * (0.1 + (failed + 1) / (judged + 2)): often met, and not yet mastered.
"""


async def mine(
    model: ChatModel,
    run: RecordedRun,
    directory: Path,
    *,
    done: Callable[[Observed], None] = lambda observed: None,
) -> list[Group]:
    """Read the rollouts that were not read yet, and group all capabilities anew.

    Args:
        model: sees the screenshots, and merges.
        run: recorded rollouts.
        directory: of the two files; what lies there is added to.
        done: told of each rollout at once.

    Raises:
        ModelServerError: the endpoint does not answer; rollouts read so far are kept.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / OBSERVED
    observed = read_observed(path)
    known = {one.rollout for one in observed}
    with path.open("a", encoding="utf-8") as file:

        def keep(one: Observed) -> None:
            file.write(_line(one))
            file.flush()
            observed.append(one)
            done(one)

        await observe(model, (r for r in run if r.id not in known), run.image, keep)
    names = {name for one in observed for name in one.capabilities}
    groups = tally(observed, await merge(model, names))
    (directory / GROUPS).write_text(to_toml(groups, len(observed)), encoding="utf-8")
    return groups


async def observe(
    model: ChatModel,
    recordings: Iterable[Recording],
    image: Callable[[Picture], bytes],
    keep: Callable[[Observed], None],
) -> None:
    """Ask what each rollout needed; as many at a time as the model takes questions."""
    waiting = iter(recordings)

    async def worker() -> None:
        for recording in waiting:
            keep(await _observed(model, recording, image))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(model.endpoint.concurrency):
                group.create_task(worker())
    except BaseExceptionGroup as failures:
        raise first_cause(failures) from None


async def merge(model: ChatModel, names: Iterable[str], *, size: int = PER_MERGE) -> dict[str, str]:
    """Group by name: in batches first, then the batches' groups among each other.

    Args:
        model: merges.
        names: folded.
        size: of a batch.
    """
    group_of = {name: name for name in names}
    for _ in range(_ROUNDS):
        current = sorted(set(group_of.values()))
        parts = batches(current, size)
        answers = await asyncio.gather(*(_merged(model, part) for part in parts))
        step = {name: group for answer in answers for name, group in answer.items()}
        group_of = composed(group_of, step)
        if len(parts) <= 1 or len(set(group_of.values())) == len(current):
            break
    return dict(sorted(group_of.items()))


def read_observed(path: Path) -> list[Observed]:
    """What was read from rollouts so far; the last line may have been cut off and is left out.

    Raises:
        ConfigurationError: another line is none.
    """
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = []
    for number, line in enumerate(lines, 1):
        try:
            values = json.loads(line)
            names = tuple(map(str, values["capabilities"]))
            found.append(Observed(str(values["rollout"]), values["success"], names))
        except (ValueError, KeyError, TypeError):
            if number < len(lines):
                raise ConfigurationError("not a rollout", where=f"{path}:{number}") from None
            path.write_text("".join(f"{kept}\n" for kept in lines[:-1]), encoding="utf-8")
    return found


def to_toml(groups: Sequence[Group], rollouts: int) -> str:
    """The groups as people read and edit them."""
    blocks = [f"{_HEADER}format = 1\nrollouts = {rollouts}\n"]
    for group in groups:
        skills = "".join(f"  {_text(skill)},\n" for skill in group.skills)
        blocks.append(
            f"[[group]]\nname = {_text(group.name)}\nseen = {group.seen}\n"
            f"judged = {group.judged}\nfailed = {group.failed}\n"
            f"capabilities = [\n{skills}]\n"
        )
    return "\n".join(blocks)


def read_groups_file(path: Path) -> list[Group]:
    """Groups from a file that mining wrote, or a person.

    Raises:
        ConfigurationError: it cannot be read, or has no group.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        groups = [
            Group(
                str(one["name"]),
                tuple(map(str, one["capabilities"])),
                *(_number(one, key, start) for key, start in _COUNTS.items()),
            )
            for one in values["group"]
        ]
    except FileNotFoundError:
        raise ConfigurationError("no such file", where=str(path), next="mintact web mine") from None
    except KeyError as error:
        raise ConfigurationError(f"{error} is missing", where=str(path)) from None
    except (ValueError, TypeError) as error:
        raise ConfigurationError(str(error), where=str(path)) from None
    if not groups:
        raise ConfigurationError("no groups", where=str(path))
    return groups


_COUNTS = {"seen": 1, "judged": 0, "failed": 0}


async def _observed(
    model: ChatModel, recording: Recording, image: Callable[[Picture], bytes]
) -> Observed:
    names: list[str] = []
    for first in range(0, len(recording.deeds), PER_QUESTION):
        shown = recording.deeds[first : first + PER_QUESTION + 1]
        try:
            question = await asyncio.to_thread(_question, recording.goal, shown, image)
        except StorageError:
            continue
        names += read_names(await _json(model, [said("system", prompts.EXTRACT), question]))
    return Observed(recording.id, recording.success, tuple(dict.fromkeys(names)))


def _question(goal: str, deeds: Sequence[Deed], image: Callable[[Picture], bytes]) -> Message:
    """Screenshots in order, and between them what was done; the last one shows the result."""
    told = deeds if len(deeds) <= PER_QUESTION else deeds[:-1]
    lines = [f"The agent was asked: {goal}", f"{len(deeds)} screenshots follow, in order."]
    lines += [f"After screenshot {i}: {deed.action}" for i, deed in enumerate(told, 1)]
    return said("user", "\n".join(lines), *(image(deed.before) for deed in deeds))


async def _merged(model: ChatModel, names: Sequence[str]) -> dict[str, str]:
    question = said("user", "\n".join(f"- {name}" for name in names))
    return read_groups(await _json(model, [said("system", prompts.MERGE), question]), names)


async def _json(model: ChatModel, messages: Sequence[Message]) -> Any:
    """The JSON of an answer; asked once more when there is none, then None."""
    for _ in range(2):
        reply = await model.ask(messages)
        try:
            return read_json(reply.text)
        except AnswerError:
            messages = [
                *messages,
                said("assistant", reply.text[:2000]),
                said("user", "Answer with the JSON object only."),
            ]
    return None


def _number(values: Any, key: str, start: int) -> int:
    value = values.get(key, start)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{key!r} must be a whole number, got {value!r}")
    return value


def _line(one: Observed) -> str:
    values = {
        "rollout": one.rollout,
        "success": one.success,
        "capabilities": list(one.capabilities),
    }
    return json.dumps(values, ensure_ascii=False) + "\n"


def _text(text: str) -> str:
    return json.dumps(text)
