"""Judgements kept by content: what was judged the same way is not paid for twice.

The key covers everything a verdict may depend on, and nothing else: the judge (name, code, version,
parameters), the task, the turns, the bytes of the images, the state check and the outcome. The
rollout's own ids and times are left out, so the same one is found again in another run.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import blake2b
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from mintact_platform.judging.judge import JudgeView
from mintact_platform.records.verdict import Verdict
from mintact_platform.registry.families import Member

_FORMAT = 1
_TIMES = ("generate_seconds", "step_seconds")
_log = logging.getLogger(__name__)


class JudgementCache:
    """Verdicts on disk, one JSON file a key. All methods block.

    A file that cannot be read or written is a miss, never an error. Abstentions are not kept: the
    judge may know better next time.

    Args:
        directory: made when the first verdict is put there.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def get(self, key: str) -> Verdict | None:
        """The verdict kept under a key; None when there is none that can be read."""
        try:
            kept = json.loads(self._path(key).read_bytes())
            return Verdict.from_json(kept["verdict"]) if kept["key"] == key else None
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

    def put(self, key: str, verdict: Verdict) -> None:
        """Keep a verdict; whole or not at all, and whoever comes last wins."""
        if verdict.label == "abstain":
            return
        path = self._path(key)
        try:
            content = json.dumps({"key": key, "verdict": verdict.to_json()}, allow_nan=False)
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_aside(path, content.encode())
        except (OSError, ValueError, TypeError) as error:
            _log.warning("a judgement is not cached: %s: %s", type(error).__name__, error)

    def _path(self, key: str) -> Path:
        return self.directory / key[:2] / f"{key}.json"


def judgement_key(identity: Mapping[str, Any], view: JudgeView) -> str | None:
    """The key of a judgement; None when something in it has no stable text.

    Args:
        identity: who judges, see `identity_of`.
        view: what is judged.
    """
    check = view.state_check
    turns = [asdict(turn) for turn in view.turns]
    content = {
        "format": _FORMAT,
        "judge": identity,
        "task": view.task.to_json(),
        "turns": [{k: v for k, v in turn.items() if k not in _TIMES} for turn in turns],
        "state_check": None if check is None else asdict(check),
        "outcome": str(view.outcome),
        "final": [view.final_observation, view.trajectory.final_images],
    }
    try:
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError):
        return None
    return blake2b(text.encode(), digest_size=20).hexdigest()


def identity_of(name: str, target: Any) -> dict[str, Any]:
    """Who judges: name, code, distribution version and bound parameters. Reads files, so blocks.

    Args:
        name: the judge's registered name.
        target: the judge as its runner was given it, parameters bound with `functools.partial`.
    """
    params: dict[str, Any] = {}
    while isinstance(target, functools.partial):
        params = {**target.keywords, **params}
        target = target.func
    if isinstance(target, Member):
        target = target.target
    code = target if inspect.isclass(target) or inspect.isroutine(target) else type(target)
    module = getattr(code, "__module__", "") or ""
    return {
        "name": name,
        "code": f"{module}:{getattr(code, '__qualname__', '')}",
        "source": _source(module),
        "version": _versions(module.partition(".")[0]),
        "params": params,
    }


def _source(module: str) -> str:
    """A digest of the judge's file and, in a package, of the files beside it."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return ""
    own = Path(file)
    packaged = "." in module or own.name == "__init__.py"
    digest = blake2b(digest_size=8)
    try:
        for path in sorted(own.parent.glob("*.py")) if packaged else [own]:
            digest.update(path.name.encode() + path.read_bytes())
    except OSError:
        return ""
    return digest.hexdigest()


def _versions(package: str) -> list[str]:
    """The plugin distributions that a package belongs to; a loose file belongs to none."""
    points = entry_points(group="mintact")
    owners = [p.dist for p in points if p.dist and p.value.split(".")[0].split(":")[0] == package]
    return sorted({f"{owner.name} {owner.version}" for owner in owners})


def _plain(value: Any) -> Any:
    """What JSON has no word for; an object's address in its text only makes a key of its own."""
    dumped = getattr(value, "model_dump", None)
    return dumped(mode="json") if callable(dumped) else repr(value)


def _write_aside(path: Path, data: bytes) -> None:
    descriptor, aside = tempfile.mkstemp(prefix=".aside-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise
