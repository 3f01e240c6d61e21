"""Images of requests: read, hashed and decoded once a digest, off the event loop."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from mintact_platform.errors import MintactError
from mintact_plugin_torch.policy import Patches, Policy

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_KNOWN = 65536
"""Files and digests whose identity is remembered: a hundred bytes each."""

_INLINE_BYTES = 64 * 2**20
"""Base64 text that is remembered: every turn of a conversation sends its images again."""


class BadImage(MintactError):
    """An image of a request cannot be read or does not divide into image tokens."""


class ByteCache(Generic[Key, Value]):
    """The most recently used values up to a sum of sizes; the newest one is always kept."""

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """The value, now the most recently used."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Keep a value of that size."""
        if key in self._entries:
            self._held -= self._entries.pop(key)[1]
        self._entries[key] = (value, size)
        self._held += size
        while self._held > self._limit and len(self._entries) > 1:
            self._held -= self._entries.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._held = 0


@dataclass(frozen=True, slots=True)
class RequestImage:
    """One image of a request.

    Attributes:
        digest: SHA-256 of its encoded bytes.
        width: pixels.
        height: pixels.
        patches: cuts it into patches, decoding again only when the store has forgotten it.
    """

    digest: str
    width: int
    height: int
    patches: Callable[[], Patches]


class ImageStore:
    """Decoded images, kept by digest up to a number of bytes; safe to use from several threads.

    Args:
        policy: cuts images into patches.
        limit: bytes of patches kept.
    """

    def __init__(self, policy: Policy, limit: int) -> None:
        self._policy = policy
        self._patches: ByteCache[str, Patches] = ByteCache(limit)
        self._sizes: ByteCache[str, tuple[int, int]] = ByteCache(_KNOWN)
        self._files: ByteCache[tuple[str, int, int], str] = ByteCache(_KNOWN)
        self._inline: ByteCache[str, str] = ByteCache(_INLINE_BYTES)
        self._lock = threading.Lock()

    def open(self, source: str) -> RequestImage:
        """Open an image; call it in a thread.

        Args:
            source: a path, a data URL or base64 data.

        Raises:
            BadImage: not readable, not an image, or of a size that does not divide.
        """
        digest, content = self._identify(source)
        with self._lock:
            size = self._sizes.get(digest)
        if size is None:
            patches = self._decode(digest, content if content is not None else _read(source))
            size = patches.size
            with self._lock:
                self._sizes.put(digest, size, 1)
        return RequestImage(digest, *size, lambda: self._recall(digest, source))

    def _identify(self, source: str) -> tuple[str, bytes | None]:
        """The digest, and the bytes where they had to be read for it."""
        if not _is_path(source):
            return self._identify_inline(source)
        status = _status(source)
        key = (source, status.st_mtime_ns, status.st_size)
        with self._lock:
            known = self._files.get(key)
        if known is not None:
            return known, None
        content = _read(source)
        digest = hashlib.sha256(content).hexdigest()
        with self._lock:
            self._files.put(key, digest, 1)
        return digest, content

    def _identify_inline(self, source: str) -> tuple[str, bytes | None]:
        with self._lock:
            known = self._inline.get(source)
        if known is not None:
            return known, None
        content = _read(source)
        digest = hashlib.sha256(content).hexdigest()
        with self._lock:
            self._inline.put(source, digest, len(source))
        return digest, content

    def _recall(self, digest: str, source: str) -> Patches:
        with self._lock:
            known = self._patches.get(digest)
        return known if known is not None else self._decode(digest, _read(source))

    def _decode(self, digest: str, content: bytes) -> Patches:
        try:
            patches = self._policy.patches(content)
        except Exception as error:
            # decoders answer broken files with errors of any kind
            raise BadImage(f"not a usable image: {error}", where=f"image {digest[:12]}") from None
        with self._lock:
            self._patches.put(digest, patches, patches.pixels.nbytes)
        return patches


def _is_path(source: str) -> bool:
    # base64 of a JPEG file begins with a slash too
    return source.startswith(("/", "file://")) and not source.startswith("/9j/")


def _status(source: str) -> os.stat_result:
    """Of a regular file: reading a device or a pipe might never end."""
    try:
        status = os.stat(source.removeprefix("file://"))
    except (OSError, ValueError) as error:
        raise BadImage(f"cannot be read: {error}", where=f"image {source[:200]!r}") from None
    if not stat.S_ISREG(status.st_mode):
        raise BadImage("not a file", where=f"image {source[:200]!r}")
    return status


def _read(source: str) -> bytes:
    if _is_path(source):
        try:
            with open(source.removeprefix("file://"), "rb") as file:
                return file.read()
        except OSError as error:
            raise BadImage(f"cannot be read: {error.strerror}", where=source) from None
    data = source.partition(",")[2] if source.startswith("data:") else source
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise BadImage(
            "neither an absolute path nor base64 data", where=f"image {source[:40]!r}"
        ) from None
