"""The second protocol an environment may be written in: gymnasium's methods, awaited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class AsyncEnvironment(Protocol):
    """A `gymnasium.Env` whose methods are coroutines; its worker runs one event loop.

    Parameters are keyword-only arguments of the constructor. `metadata["mintact"]` names
    `domain`, `action_space`, and how many may share a worker (`instances_per_worker`). An optional
    `async evaluate() -> StateCheck` reads the final state outside the agent's reach.
    """

    metadata: Mapping[str, Any]

    async def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start the episode of `options["task"]`: observation and info."""
        ...

    async def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Carry out one call: observation, reward, terminated, truncated, info."""
        ...

    async def close(self) -> None:
        """Give back what the environment holds."""
        ...
