"""Messages between scheduler and trainer process: length-prefixed msgpack maps on a socket pair."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import msgpack

from mintact_platform.errors import TrainerError
from mintact_platform.training.trainer import RowRef, StepRequest, SupervisedRequest, TrainerSpec

HEADER = struct.Struct(">Q")
LIMIT = 1 << 30
"""Bytes a message may have; a header beyond it means that the stream is out of step."""


def pack(message: Mapping[str, Any]) -> bytes:
    """A frame; dataclasses become maps."""
    body: bytes = msgpack.packb(message, default=_plain)
    return HEADER.pack(len(body)) + body


def body_length(header: bytes) -> int:
    """Length of the body that follows.

    Raises:
        TrainerError: an implausible length.
    """
    length: int = HEADER.unpack(header)[0]
    if length > LIMIT:
        raise TrainerError(f"a message of {length} bytes", where="trainer", next="stream is broken")
    return length


def unpack(body: bytes) -> dict[str, Any]:
    """The message of a frame's body; sequences come back as lists."""
    message: dict[str, Any] = msgpack.unpackb(body, strict_map_key=False)
    return message


def step_request(values: Mapping[str, Any]) -> StepRequest:
    """Read a step request."""
    rows = tuple(RowRef(**{**row, "turn_rewards": _tuple(row)}) for row in values["rows"])
    return StepRequest(**{**values, "rows": rows})


def supervised_request(values: Mapping[str, Any]) -> SupervisedRequest:
    """Read a supervised request."""
    return SupervisedRequest(**{**values, "rows": tuple(values["rows"])})


def trainer_spec(values: Mapping[str, Any]) -> TrainerSpec:
    """Read a trainer's specification."""
    return TrainerSpec(**values)


def _tuple(row: Mapping[str, Any]) -> tuple[float, ...] | None:
    rewards = row["turn_rewards"]
    return None if rewards is None else tuple(rewards)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"cannot send a {type(value).__name__}")
