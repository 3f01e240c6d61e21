"""What crosses a border: observations, errors, media types, frames, and how large each may be.

Worker-side light: standard library, numpy-free, msgpack. Images travel as bytes between our own
sides and as base64 to anyone with curl.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import msgpack

PROTOCOL = 1
PROTOCOL_HEADER = "mintact-protocol"
TOKEN_HEADER = "mintact-lease-token"
MSGPACK = "application/msgpack"
JSON = "application/json"

MAX_REQUEST = 8 << 20
"""Bytes of a request's body."""
MAX_MESSAGE = 64 << 20
"""Bytes of a reply or a frame."""
MAX_IMAGE = 16 << 20
"""Bytes of one encoded image."""
MAX_TEXT = 1_000_000
"""Characters of an observation's text."""

ImageFormat = Literal["png", "jpeg"]
_MAGIC: dict[str, bytes] = {"png": b"\x89PNG\r\n\x1a\n", "jpeg": b"\xff\xd8\xff"}
_LENGTH = struct.Struct("<I")


class WireError(ValueError):
    """Bytes from the other side that are no message of this protocol."""


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An image as it travels.

    Attributes:
        data: encoded bytes, at most `MAX_IMAGE`.
        format: `png` or `jpeg`, checked against the first bytes when read from the wire.
        width: pixels.
        height: pixels.
    """

    data: bytes
    format: ImageFormat
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Observation:
    """What an environment returns from `reset` and `step`.

    Attributes:
        text: text part, "" for none.
        images: screenshots in order.
        tools: schemas of the callable tools when they changed, else None.
        reward: of this step; 0 from `reset`.
        terminated: the episode reached an end of the task.
        truncated: the episode was cut.
        info: JSON values; anything else was turned into text.
    """

    text: str = ""
    images: tuple[EncodedImage, ...] = ()
    tools: tuple[dict[str, Any], ...] | None = None
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = field(default_factory=dict)

    def pack(self) -> dict[str, Any]:
        """The observation as wire values; image data stays bytes."""
        return {
            "text": self.text,
            "images": [
                {"data": i.data, "format": i.format, "width": i.width, "height": i.height}
                for i in self.images
            ],
            "tools": None if self.tools is None else list(self.tools),
            "reward": self.reward,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "info": self.info,
        }

    @classmethod
    def unpack(cls, values: Mapping[str, Any]) -> Observation:
        """Read wire values.

        Raises:
            WireError: a key is missing or an image is not what it says.
        """
        try:
            tools = values["tools"]
            return cls(
                text=values["text"],
                images=tuple(_image(image) for image in values["images"]),
                tools=None if tools is None else tuple(tools),
                reward=float(values["reward"]),
                terminated=bool(values["terminated"]),
                truncated=bool(values["truncated"]),
                info=dict(values["info"]),
            )
        except (KeyError, TypeError) as error:
            raise WireError(f"not an observation: {error!r}") from None


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """An error as it travels: `{"error": {…}}`.

    Attributes:
        kind: `timeout`, `crash`, `invalid`, `full`, `conflict`, `configuration`, … or the
            environment's exception type.
        phase: `create`, `reset`, `step`, `evaluate` or `close`.
        message: one line.
        retryable: whether another instance may well succeed.
        log_tail: last lines of the worker's output.
    """

    kind: str
    phase: str
    message: str
    retryable: bool = True
    log_tail: str = ""

    def pack(self) -> dict[str, Any]:
        """The body as wire values."""
        return {"error": asdict(self)}

    @classmethod
    def unpack(cls, values: Mapping[str, Any]) -> ErrorBody:
        """Read wire values.

        Raises:
            WireError: this is no error body.
        """
        try:
            return cls(**values["error"])
        except (KeyError, TypeError) as error:
            raise WireError(f"not an error body: {error!r}") from None


def pack(message: Any) -> bytes:
    """Wire values as msgpack.

    Raises:
        WireError: a value that msgpack cannot carry, or too many bytes.
    """
    try:
        data: bytes = msgpack.packb(message)
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"cannot be sent: {error}") from None
    if len(data) > MAX_MESSAGE:
        raise WireError(f"message of {len(data)} bytes is over the cap of {MAX_MESSAGE}")
    return data


def unpack(data: bytes) -> Any:
    """Msgpack to wire values.

    Raises:
        WireError: these bytes are no message.
    """
    try:
        return msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, msgpack.UnpackException) as error:
        raise WireError(f"not msgpack: {error}") from None


def dumps(message: Any, media: str) -> bytes:
    """Wire values as a body of that media type; bytes become base64 in JSON."""
    if media == MSGPACK:
        return pack(message)
    return json.dumps(message, default=_base64, ensure_ascii=False).encode(errors="replace")


def loads(body: bytes, media: str) -> dict[str, Any]:
    """A body of that media type to wire values.

    Raises:
        WireError: it is not a map in that encoding.
    """
    try:
        values = unpack(body) if media == MSGPACK else json.loads(body or b"{}")
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from None
    if not isinstance(values, dict):
        raise WireError(f"expected a map, got {type(values).__name__}")
    return values


def frame(data: bytes) -> bytes:
    """Bytes with their length before them, for a stream between a server and its worker."""
    return _LENGTH.pack(len(data)) + data


class FrameReader:
    """Cuts a stream of bytes into frames.

    Example:
        >>> FrameReader().feed(frame(b"one") + frame(b"two"))
        [b'one', b'two']
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames completed by these bytes.

        Raises:
            WireError: a frame says it is larger than `MAX_MESSAGE`.
        """
        self._buffer += data
        frames, position = [], 0
        while len(self._buffer) - position >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._buffer, position)
            if size > MAX_MESSAGE:
                raise WireError(f"frame of {size} bytes is over the cap of {MAX_MESSAGE}")
            end = position + _LENGTH.size + size
            if len(self._buffer) < end:
                break
            frames.append(bytes(self._buffer[position + _LENGTH.size : end]))
            position = end
        del self._buffer[:position]
        return frames


def _image(values: Mapping[str, Any]) -> EncodedImage:
    data, kind = values["data"], values["format"]
    if isinstance(data, str):
        data = base64.b64decode(data)
    if not data.startswith(_MAGIC.get(kind, b"?")):
        raise WireError(f"an image says it is {kind!r} and is not")
    if len(data) > MAX_IMAGE:
        raise WireError(f"image of {len(data)} bytes is over the cap of {MAX_IMAGE}")
    return EncodedImage(data, kind, int(values["width"]), int(values["height"]))


def _base64(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is no JSON value")
