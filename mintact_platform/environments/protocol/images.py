"""Ready-encoded images: told apart by their first bytes, their size read from their header."""

from __future__ import annotations

from mintact_platform.environments.protocol.wire import MAX_IMAGE, EncodedImage, WireError

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_NO_FRAME = frozenset((0xC4, 0xC8, 0xCC))
"""JPEG markers between C0 and CF that begin no frame header."""


def read_image(data: bytes) -> EncodedImage:
    """The bytes of a PNG or JPEG file as an image; its pixels are not decoded.

    Raises:
        WireError: another format, no readable size, or over `MAX_IMAGE` bytes.
    """
    if len(data) > MAX_IMAGE:
        raise WireError(f"image of {len(data)} bytes is over the cap of {MAX_IMAGE}")
    if data.startswith(_PNG) and data[12:16] == b"IHDR" and len(data) >= 24:
        width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
        return EncodedImage(data, "png", width, height)
    if data.startswith(_JPEG):
        width, height = _jpeg_size(data)
        return EncodedImage(data, "jpeg", width, height)
    raise WireError(f"neither PNG nor JPEG: bytes begin with {data[:8].hex(' ')}")


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Width and height from the frame header, the first segment C0…CF that is one."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height, width = data[at + 5 : at + 7], data[at + 7 : at + 9]
            return int.from_bytes(width, "big"), int.from_bytes(height, "big")
        # fill bytes may precede a marker; a segment's length counts itself
        at += 1 if marker == 0xFF else 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    raise WireError("a JPEG without a frame header")
