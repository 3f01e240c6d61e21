"""Which row a task names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mintact_platform.errors import ConfigurationError
from mintact_plugin_verifiers.rollout import Playable


def row_of(environment: Playable, task: Mapping[str, Any] | None, seed: int | None) -> Any:
    """The row that a task of `tasks` names; without one the seed chooses among the first part's.

    Raises:
        ConfigurationError: no such row.
    """
    params = (task or {}).get("params") or {}
    if "row" not in params:
        rows = _any_rows(environment)
        return rows[(seed or 0) % len(rows)]
    part, number = str(params.get("part", "train")), int(params["row"])
    rows = environment.rows(part)
    if not 0 <= number < len(rows):
        raise ConfigurationError(
            f"row {number} of {len(rows)} in its {part} dataset",
            where="verifiers environment",
            next="tasks and environment must have the same `args`",
        )
    return rows[number]


def _any_rows(environment: Playable) -> Any:
    try:
        return environment.rows("train")
    except ConfigurationError:
        return environment.rows("eval")
