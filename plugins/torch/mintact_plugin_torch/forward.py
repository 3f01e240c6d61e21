"""From recorded tokens and images to log-probabilities under the current weights.

Shapes: B rows, L expanded tokens, T supervised tokens of the longest row, n of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mintact_platform.records.trajectory import ImageSpan, Segment
from mintact_platform.storage.images import ImageStore
from mintact_plugin_torch.layout import Expanded, expand
from mintact_plugin_torch.policy import ImageFeatures, Patches, Policy


@dataclass(frozen=True, slots=True, eq=False)
class TokenBatch:
    """Rows padded on the right.

    Attributes:
        ids: `[B, L]`.
        positions: `[3, B, L]`.
        is_image: bool `[B, L]`.
        images: of all rows in order.
        states: `[n]`, index into flattened `[B·L]` of the token that predicts each target.
        targets: `[n]` supervised ids.
        temperature: `[n]`.
        mask: bool `[B, T]`, true where a row has a supervised token.
        rollout_logprobs: `[B, T]`, recorded.
        versions: int64 `[B, T]`, recorded; -1 on padding.
        expanded: each row before padding.
    """

    ids: Tensor
    positions: Tensor
    is_image: Tensor
    images: tuple[ImageSpan, ...]
    states: Tensor
    targets: Tensor
    temperature: Tensor
    mask: Tensor
    rollout_logprobs: Tensor
    versions: Tensor
    expanded: tuple[Expanded, ...]


class Forward:
    """Builds token batches and runs the policy on them.

    Args:
        policy: the model.
        images: where the run's screenshots are.
        device: of the model.
        image_bytes: decoded images kept within a step; beyond it the oldest are decoded again.
    """

    def __init__(
        self,
        policy: Policy,
        images: ImageStore,
        device: torch.device,
        *,
        image_bytes: int = 1 << 30,
    ) -> None:
        self.policy, self.images, self.device = policy, images, device
        self._room = image_bytes
        self._held: dict[str, Patches] = {}
        self._decoded: dict[str, Patches] = {}
        self._bytes = 0

    def forget(self) -> None:
        """Drop the images of the last step."""
        self._held.clear()
        self._decoded.clear()
        self._bytes = 0

    def hold(self, digest: str, patches: Patches) -> None:
        """Use these patches for images of that digest until `forget`, instead of a stored file."""
        self._held[digest] = patches

    def length(self, segment: Segment) -> int:
        """Expanded tokens of a segment."""
        layout = self.policy.layout
        return len(segment.ids) + sum(
            layout.tokens(span.width, span.height) - 1 for span in segment.images
        )

    def collate(self, segments: Sequence[Segment], temperatures: Sequence[float]) -> TokenBatch:
        """Pad segments to one batch."""
        rows = [
            expand(s.ids, [(i.position, i.width, i.height) for i in s.images], self.policy.layout)
            for s in segments
        ]
        shape = (len(rows), max(len(row.ids) for row in rows))
        counts = [int(segment.mask.sum()) for segment in segments]
        ids, is_image = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
        positions = np.zeros((3, *shape), np.int64)
        compact = (len(rows), max(counts))
        logprobs, versions = np.zeros(compact, np.float32), np.full(compact, -1, np.int64)
        states = []
        for index, (row, segment, count) in enumerate(zip(rows, segments, counts, strict=True)):
            length = len(row.ids)
            ids[index, :length], is_image[index, :length] = row.ids, row.is_image
            positions[:, index, :length] = row.positions
            logprobs[index, :count] = segment.logprobs[segment.mask]
            versions[index, :count] = segment.versions[segment.mask]
            states.append(index * shape[1] + np.flatnonzero(segment.mask[row.source]) - 1)
        flat = np.concatenate(states)
        return TokenBatch(
            ids=self._tensor(ids),
            positions=self._tensor(positions),
            is_image=self._tensor(is_image),
            images=tuple(image for segment in segments for image in segment.images),
            states=self._tensor(flat),
            targets=self._tensor(ids.reshape(-1)[flat + 1]),
            temperature=self._tensor(np.repeat(np.asarray(temperatures, np.float32), counts)),
            mask=self._tensor(np.arange(compact[1]) < np.array(counts)[:, None]),
            rollout_logprobs=self._tensor(logprobs),
            versions=self._tensor(versions),
            expanded=tuple(rows),
        )

    def states(self, batch: TokenBatch, **attention: Any) -> Tensor:
        """Hidden states `[n, H]` that predict the targets; `attention` goes to the policy."""
        features = self.features(batch.images)
        hidden = self.policy.hidden(
            batch.ids, batch.positions, batch.is_image, features, **attention
        )
        return hidden.flatten(0, 1)[batch.states]

    def logprobs(self, batch: TokenBatch, *, entropy: bool = False) -> tuple[Tensor, Tensor]:
        """Log π of the targets after temperature, and the entropy there; `[B, T]`, 0 on padding.

        Args:
            batch: rows.
            entropy: whether the entropy is wanted with a gradient.
        """
        states = self.states(batch)
        logprobs = self.policy.logprobs(states, batch.targets, batch.temperature)
        with torch.set_grad_enabled(entropy and torch.is_grad_enabled()):
            entropies = self.policy.entropies(states, batch.temperature)
        return unpack(logprobs, batch.mask), unpack(entropies, batch.mask)

    def features(self, images: Sequence[ImageSpan]) -> ImageFeatures | None:
        """Features of images in order; equal ones, as in the rows of a group, are encoded once."""
        if not images:
            return None
        distinct = list(dict.fromkeys(image.digest for image in images))
        spans = {image.digest: image for image in images}
        patches = [self._cut(spans[digest]) for digest in distinct]
        features = self.policy.encode(patches)
        if len(distinct) == len(images):
            return features
        layout = self.policy.layout
        parts = features.split([layout.tokens(*patch.size) for patch in patches])
        place = {digest: index for index, digest in enumerate(distinct)}
        return ImageFeatures.join([parts[place[image.digest]] for image in images])

    def _cut(self, image: ImageSpan) -> Patches:
        known = self._held.get(image.digest) or self._decoded.get(image.digest)
        if known is not None:
            return known
        patches = self.policy.patches(self.images.get(image.digest, image.extension))
        self._decoded[image.digest] = patches
        self._bytes += patches.pixels.nbytes
        while self._bytes > self._room and len(self._decoded) > 1:
            oldest = self._decoded.pop(next(iter(self._decoded)))
            self._bytes -= oldest.pixels.nbytes
        return patches

    def _tensor(self, array: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)


def unpack(values: Tensor, mask: Tensor) -> Tensor:
    """Values `[n]` of the true places of a mask `[B, T]`, 0 elsewhere."""
    return values.new_zeros(mask.shape).masked_scatter(mask, values)
