"""Images of requests as data, for model servers that cannot read our files."""

from __future__ import annotations

import asyncio
import base64
from collections import OrderedDict

from mintact_platform.models.protocol import ImageFile


class InlineImages:
    """Data URLs of image files by digest, the most recently used ones kept.

    Args:
        limit: characters kept in all.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0
        self._encoded: OrderedDict[str, str] = OrderedDict()

    async def encode(self, image: ImageFile) -> str:
        """A data URL of the file's bytes, read and encoded in a thread."""
        known = self._encoded.get(image.digest)
        if known is not None:
            self._encoded.move_to_end(image.digest)
            return known
        text = await asyncio.to_thread(_data_url, image)
        if image.digest not in self._encoded:
            self._encoded[image.digest] = text
            self._held += len(text)
        while self._held > self._limit:
            self._held -= len(self._encoded.popitem(last=False)[1])
        return text


def _data_url(image: ImageFile) -> str:
    content = image.path.read_bytes()
    kind = "png" if content.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"
