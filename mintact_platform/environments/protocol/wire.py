"""What crosses a border: observations, errors, media types, frames, and how large each may be.

Worker-side light: standard library, numpy-free, msgpack. Images travel as bytes between our own
sides and as base64 to anyone with curl.
"""

from __future__ import annotations

import base64
import json
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
MAX_OPEN_CALLS = 1024
"""Calls of one stream that may be open; a client beyond it is not read from."""
MAX_BATCH = 1 << 20
"""Bytes in one message of a stream, unless a single call or reply is larger."""
WRITE_EVERY = 8
"""Calls or replies after which a batch between a server and its worker is cut: the other side
begins with them while this one goes on."""
MAX_IMAGE = 16 << 20
"""Bytes of one encoded image."""
MAX_TEXT = 1_000_000
"""Characters of an observation's text."""
MAX_ERROR = 2000
"""Characters of an error's message."""

PHASES = {
    "create": "create",
    "reset": "reset",
    "step": "step",
    "evaluate": "evaluate",
    "release": "close",
    "heartbeat": "close",
    "cancel": "create",
}
"""The phase of an episode, for deadlines and failures, by what a call does."""

ImageFormat = Literal["png", "jpeg"]
_MAGIC: dict[str, bytes] = {"png": b"\x89PNG\r\n\x1a\n", "jpeg": b"\xff\xd8\xff"}


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


@dataclass(frozen=True)
class Observation:
    """What an environment returns from `reset` and `step`.

    Attributes:
        text: text part, "" for none.
        images: in order; the last is the screenshot whose pixels the next call names.
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
            "images": [pack_image(image) for image in self.images],
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
            images, tools = values["images"], values["tools"]
            fields = {
                "text": values["text"],
                "images": tuple([_image(image) for image in images]) if images else (),
                "tools": None if tools is None else tuple(tools),
                "reward": float(values["reward"]),
                "terminated": bool(values["terminated"]),
                "truncated": bool(values["truncated"]),
                "info": dict(values["info"]),
            }
        except (KeyError, TypeError, ValueError) as error:
            raise WireError(f"not an observation: {error!r}") from None
        # what a frozen dataclass does in its constructor, in a tenth of the time
        observation = object.__new__(cls)
        object.__setattr__(observation, "__dict__", fields)
        return observation


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
        retry_after_s: seconds after which asking again makes sense, left out where unknown.
    """

    kind: str
    phase: str
    message: str
    retryable: bool = True
    log_tail: str = ""
    retry_after_s: float | None = None

    def pack(self) -> dict[str, Any]:
        """The body as wire values."""
        values = asdict(self)
        line = " ".join(self.message.split())[:MAX_ERROR]
        values["message"] = line.encode(errors="replace").decode()
        if self.retry_after_s is None:
            del values["retry_after_s"]
        return {"error": values}

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


class Packer:
    """`pack` for one thread: it keeps its buffer, which halves the time for small messages.

    Args:
        limit: bytes of a message, None for any size.
    """

    def __init__(self, limit: int | None = MAX_MESSAGE) -> None:
        self._limit = limit
        self._packer = msgpack.Packer()

    def pack(self, message: Any) -> bytes:
        """Wire values as msgpack.

        Raises:
            WireError: a value that msgpack cannot carry, or too many bytes.
        """
        try:
            data: bytes = self._packer.pack(message)
        except (TypeError, ValueError, OverflowError) as error:
            raise WireError(f"cannot be sent: {error}") from None
        if self._limit is not None and len(data) > self._limit:
            raise WireError(f"message of {len(data)} bytes is over the cap of {self._limit}")
        return data


def unpack(data: bytes | bytearray | memoryview) -> Any:
    """Msgpack to wire values.

    Raises:
        WireError: these bytes are no message.
    """
    try:
        return msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise WireError(f"not msgpack: {error}") from None


def unpacker(limit: int = 2 * MAX_MESSAGE) -> msgpack.Unpacker:
    """For the stream of messages between a server and a worker; see `messages`.

    Args:
        limit: bytes it may hold of messages that are not complete.
    """
    return msgpack.Unpacker(strict_map_key=False, read_size=1 << 16, max_buffer_size=limit)


def messages(stream: msgpack.Unpacker, data: bytes, shape: list[type]) -> list[list[Any]]:
    """The messages completed by these bytes, each an array of values of exactly these types.

    Raises:
        WireError: they are not; nothing more can be read from this stream.
    """
    try:
        stream.feed(data)
        found = [*stream]
        for message in found:
            if [*map(type, message)] != shape:
                raise TypeError(f"unexpected message of {[*map(type, message)]}")
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise WireError(f"not our messages: {error!r}") from None
    return found


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
        values = unpack(body) if media == MSGPACK else _from_json(body)
    except WireError:
        raise
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from None
    if not isinstance(values, dict):
        raise WireError(f"expected a map, got {type(values).__name__}")
    return values


def pack_image(image: EncodedImage) -> dict[str, Any]:
    """An image as wire values."""
    return {
        "data": image.data,
        "format": image.format,
        "width": image.width,
        "height": image.height,
    }


def _image(values: Mapping[str, Any]) -> EncodedImage:
    data, kind = values["data"], values["format"]
    if isinstance(data, str):
        data = base64.b64decode(data)
    if not data.startswith(_MAGIC.get(kind, b"?")):
        raise WireError(f"an image says it is {kind!r} and is not")
    if len(data) > MAX_IMAGE:
        raise WireError(f"image of {len(data)} bytes is over the cap of {MAX_IMAGE}")
    return EncodedImage(data, kind, int(values["width"]), int(values["height"]))


def _from_json(body: bytes) -> Any:
    return json.loads(body or b"{}", parse_constant=_no_number)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def _base64(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is no JSON value")
