"""What a client may ask of an environment server: the bodies of its requests, checked."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mintact_platform.errors import ConfigurationError, near_match


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


M = TypeVar("M", bound=_Message)


class CreateRequest(_Message):
    """Ask for an exclusive instance."""

    key: str = Field(min_length=1, max_length=200)
    """Made by the client; the same key always gets the same lease."""
    environment: str = Field(min_length=1, max_length=200)
    """Registered name, or `module:attribute`."""
    params: dict[str, Any] = Field(default_factory=dict)
    ttl_s: float = Field(default=60.0, gt=0, le=86_400)
    """Seconds the lease lives without a call or a heartbeat."""
    image_format: Literal["png", "jpeg"] = "png"
    python: str | None = Field(default=None, max_length=4096)
    """Interpreter of the worker, one of those the server allows; None is the server's own."""
    requires: list[str] = Field(default_factory=list, max_length=64)
    """What the environment's distribution must be, as pip takes it: `acme-maze==1.2`."""
    deadline_s: float | None = Field(default=None, gt=0)


class ResetRequest(_Message):
    """Start an episode; idempotent by its name."""

    episode: str = Field(min_length=1, max_length=200)
    task: dict[str, Any] = Field(default_factory=dict)
    seed: int = 0
    deadline_s: float | None = Field(default=None, gt=0)


class StepRequest(_Message):
    """Carry out one call; idempotent by its number, counted from 0 after each reset."""

    step: int = Field(ge=0)
    action: dict[str, Any]
    episode: str | None = None
    """Refuses the step when another episode is running."""
    deadline_s: float | None = Field(default=None, gt=0)


class EvaluateRequest(_Message):
    """Read the final state."""

    deadline_s: float | None = Field(default=None, gt=0)


class HeartbeatRequest(_Message):
    """Keep idle leases alive."""

    leases: dict[str, str]
    """Token by lease."""
    deadline_s: float | None = Field(default=None, gt=0)


class CancelRequest(_Message):
    """Give back what this key made, and let it make nothing later."""

    key: str = Field(min_length=1, max_length=200)
    deadline_s: float | None = Field(default=None, gt=0)


def read_step(
    values: dict[str, Any],
) -> tuple[int, dict[str, Any], str | None, float | None]:
    """The same as `read(StepRequest, values)`, without pydantic where nothing needs converting.

    Returns:
        Step, action, episode, deadline.

    Raises:
        ConfigurationError: one line for the first mistake.
    """
    step, action = values.get("step"), values.get("action")
    episode, seconds = values.get("episode"), values.get("deadline_s")
    if (
        type(step) is int
        and step >= 0
        and type(action) is dict
        and (episode is None or type(episode) is str)
        and (seconds is None or (type(seconds) is float and 0 < seconds < math.inf))
        and len(values) == 2 + ("episode" in values) + ("deadline_s" in values)
        and _are_names(action)
    ):
        return step, action, episode, seconds
    request = read(StepRequest, values)
    return request.step, request.action, request.episode, request.deadline_s


def _are_names(keys: Iterable[Any]) -> bool:
    for key in keys:
        if type(key) is not str:
            return False
    return True


def read(model: type[M], values: dict[str, Any]) -> M:
    """Check a request.

    Raises:
        ConfigurationError: one line for the first mistake.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise ConfigurationError(
                f"unknown key {name!r}", where="request", next=near_match(name, model.model_fields)
            ) from None
        raise ConfigurationError(f"{name}: {first['msg'].lower()}", where="request") from None
