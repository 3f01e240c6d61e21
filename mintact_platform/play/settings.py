"""How to play, as the command line says it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mintact_platform.config import Deadlines, Plugin
from mintact_platform.environments.pools.pool import PoolSpec
from mintact_platform.errors import MintactError


class NotNow(MintactError):
    """The session is doing something else, or there is nothing to do it with."""


@dataclass(frozen=True)
class PlaySettings:
    """How to play.

    Attributes:
        pool: the environment and where it runs.
        save: file that saved episodes are appended to.
        logs: for the output of the environment.
        action_space: None takes the environment's own.
        judge: bound judge, None for none.
        judge_name: its registered name.
        max_turns: turns an episode may take, where the task does not say less.
        max_error_turns: unusable responses after which an episode ends.
        seed: of tasks that have none.
        deadlines: of every phase but the person's.
    """

    pool: PoolSpec
    save: Path
    logs: Path
    action_space: Plugin | None = None
    judge: Callable[..., Any] | None = None
    judge_name: str = ""
    max_turns: int = 30
    max_error_turns: int = 3
    seed: int = 0
    deadlines: Deadlines = field(default_factory=Deadlines)
