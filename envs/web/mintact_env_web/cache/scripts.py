"""Scripts: the calls of a visit, one a line, by which it can be made again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mintact_env_web.cache.store import read_lines
from mintact_platform.errors import ConfigurationError

Call = Mapping[str, Any]
"""Arguments of a `browser_use` call, coordinates in pixels: `{"action": "click", …}`."""

SCRIPT = "script.jsonl"


def read_script(path: Path) -> list[Call]:
    """Calls of a file of JSON lines: bare arguments, or `{"name": …, "arguments": {…}}`.

    Raises:
        ConfigurationError: a line is no call.
    """
    calls: list[Call] = []
    for number, line in enumerate(read_lines(path), 1):
        call = line.get("arguments", line)
        if not isinstance(call, dict) or "action" not in call:
            raise ConfigurationError(
                "not a call", where=f"{path}:{number}", next='write {"action": "click", …}'
            )
        calls.append(call)
    return calls


def write_script(directory: Path, calls: Sequence[Call]) -> None:
    """Keep the calls of a visit."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(call, ensure_ascii=False) for call in calls)
    (directory / SCRIPT).write_text("".join(f"{line}\n" for line in lines))
