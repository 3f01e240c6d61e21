"""Features of images: computed in few calls of the vision tower, and kept."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mintact_plugin_torch.engine.images import ByteCache, RequestImage
from mintact_plugin_torch.policy import ImageFeatures, Policy

_PATCHES = 16384
"""Patches of one call of the vision tower."""


class Encoder:
    """The vision tower, and what it has made of images lately.

    Args:
        policy: the model.
        limit: bytes of features kept.
        alone: one image a call, so that its features depend on nothing else.
    """

    def __init__(self, policy: Policy, limit: int, *, alone: bool) -> None:
        self._policy, self._alone = policy, alone
        self._kept: ByteCache[str, ImageFeatures] = ByteCache(limit)

    def clear(self) -> None:
        """Forget all features: the weights changed."""
        self._kept.clear()

    def features(self, images: Sequence[RequestImage]) -> dict[str, ImageFeatures]:
        """Features by digest; the unknown ones are computed in few calls, by size."""
        known: dict[str, ImageFeatures] = {}
        missing: dict[str, RequestImage] = {}
        for image in images:
            features = self._kept.get(image.digest)
            if features is None:
                missing[image.digest] = image
            else:
                known[image.digest] = features
        wanted = sorted(missing.values(), key=_size)
        for _, same in groupby(wanted, key=_size):
            for chunk in self._chunks(list(same)):
                known.update(self._encode(chunk))
        return known

    def _chunks(self, images: list[RequestImage]) -> list[list[RequestImage]]:
        patches = self._policy.layout.patches(images[0].width, images[0].height)
        step = 1 if self._alone else max(1, _PATCHES // patches)
        return [images[i : i + step] for i in range(0, len(images), step)]

    def _encode(self, images: list[RequestImage]) -> dict[str, ImageFeatures]:
        cut = [image.patches() for image in images]
        features = self._policy.encode(cut)
        counts = [len(features.tokens) // len(images)] * len(images)
        encoded = {}
        for image, part in zip(images, features.split(counts), strict=True):
            owned = rows(part, 0, counts[0], copy=True)
            size = sum(tensor.nbytes for tensor in (owned.tokens, *owned.deepstack))
            self._kept.put(image.digest, owned, size)
            encoded[image.digest] = owned
        return encoded


def rows(features: ImageFeatures, first: int, last: int, *, copy: bool = False) -> ImageFeatures:
    """The image tokens `[first, last)`: views, or copies."""
    parts = [tensor[first:last] for tensor in (features.tokens, *features.deepstack)]
    tokens, *deepstack = [part.clone() for part in parts] if copy else parts
    return ImageFeatures(tokens, tuple(deepstack))


def _size(image: RequestImage) -> tuple[int, int]:
    return image.width, image.height
