"""One forward over packed rows of several requests, prefill and decode alike, then sampling."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mintact_plugin_torch.engine.attention import Plan, Row, order
from mintact_plugin_torch.engine.decoder import Attend, Decoder
from mintact_plugin_torch.engine.images import ByteCache, RequestImage
from mintact_plugin_torch.engine.request import Job
from mintact_plugin_torch.engine.sampling import sample
from mintact_plugin_torch.engine.slots import Slots
from mintact_plugin_torch.policy import ImageFeatures, Policy

_ENCODE_PATCHES = 16384
"""Patches of one call of the vision tower."""


class Limits(NamedTuple):
    """Sizes of the engine.

    Attributes:
        slots: requests that run at once, and conversations kept for a next turn.
        context: tokens of a slot.
        slot_bytes: upper bound of all slots; fewer are made where they would not fit.
        forward_tokens: tokens of one forward; longer prompts take several.
        feature_bytes: image features kept.
        image_bytes: decoded images kept.
    """

    slots: int = 64
    context: int = 4096
    slot_bytes: int = 4 * 2**30
    forward_tokens: int = 2048
    feature_bytes: int = 256 * 2**20
    image_bytes: int = 256 * 2**20


class Work(NamedTuple):
    """Tokens of a job that one forward computes."""

    job: Job
    row: Row

    @property
    def samples(self) -> bool:
        """Whether its last token is the job's last: then the next one is sampled."""
        return self.row.start + self.row.tokens == self.job.total

    @property
    def end(self) -> Row:
        """Its last token alone."""
        return Row(self.row.slot, self.row.start + self.row.tokens - 1, 1)


class Runner:
    """The model with its cache slots and image features.

    Args:
        policy: the model.
        limits: sizes.
        deterministic: one row a forward and nothing reused, so that what is sampled depends on
            the request alone.
    """

    def __init__(self, policy: Policy, limits: Limits, *, deterministic: bool = False) -> None:
        self.policy, self.limits, self.deterministic = policy, limits, deterministic
        self.decoder = Decoder(policy)
        weight = policy.model.lm_head.weight
        self._dtype, self._device = weight.dtype, weight.device
        size = self.decoder.key_heads * self.decoder.head_size * self._dtype.itemsize
        slot_bytes = 2 * self.decoder.layers * limits.context * size
        self.slots = Slots(
            max(1, min(limits.slots, limits.slot_bytes // slot_bytes)),
            limits.context,
            layers=self.decoder.layers,
            heads=self.decoder.key_heads,
            head_size=self.decoder.head_size,
            dtype=self._dtype,
            device=self._device,
            reuse=not deterministic,
        )
        self._features: ByteCache[str, ImageFeatures] = ByteCache(limits.feature_bytes)

    def forget(self) -> None:
        """Empty idle slots and image features: the weights changed."""
        self.slots.empty()
        self._features.clear()

    @torch.inference_mode()
    def step(self, jobs: Sequence[Job], version: str) -> None:
        """Compute the next tokens of the jobs, at most `forward_tokens`, and sample.

        Args:
            jobs: running ones.
            version: of the weights, noted on what is sampled.
        """
        work = self._plan(jobs)
        batches = [[item] for item in work] if self.deterministic else [work]
        for batch in batches:
            sampled = sorted((item for item in batch if item.samples), key=_slot)
            hidden = self._forward(batch, sampled)
            for item in batch:
                self.slots.advance(item.row.slot, item.row.tokens)
            if sampled:
                self._sample([item.job for item in sampled], hidden, version)

    def _plan(self, jobs: Sequence[Job]) -> list[Work]:
        """What each job computes now: those that decode first, then prompts as far as it goes."""
        work, budget = [], self.limits.forward_tokens
        lengths = self.slots.lengths
        missing = [(job.total - lengths[job.slot], job) for job in jobs]
        if len(missing) > 1 and sum(tokens for tokens, _ in missing) > budget:
            missing.sort(key=_tokens)
        for wanted, job in missing:
            # chunks of a prompt must not depend on the other requests when deterministic
            room = self.limits.forward_tokens if self.deterministic else budget
            tokens = min(wanted, room)
            if tokens:
                work.append(Work(job, Row(job.slot, lengths[job.slot], tokens)))
                budget -= tokens
        return sorted(work, key=lambda item: order(item.row))

    def _forward(self, batch: Sequence[Work], sampled: Sequence[Work]) -> Tensor:
        """Hidden states `[n, H]` of the last token of each work that samples."""
        slices = [
            (item.job.prompt, slice(item.row.start, item.row.start + item.row.tokens))
            for item in batch
        ]
        ids = self._tensor(np.concatenate([prompt.ids[part] for prompt, part in slices]))
        positions = self._positions(
            np.concatenate([prompt.positions[:, part] for prompt, part in slices], axis=1)
        )
        self.slots.fit(max(item.row.start + item.row.tokens for item in batch))
        attend, kept = self._attention(batch, sampled)
        states = self.decoder.embed(ids)
        images = self._images(batch)
        if images is None:
            return self.decoder.forward(states, positions, attend, kept=kept)
        tokens, features = images
        states[tokens] = features.tokens
        return self.decoder.forward(states, positions, attend, tokens, features.deepstack, kept)

    def _attention(
        self, batch: Sequence[Work], sampled: Sequence[Work]
    ) -> tuple[Attend, Tensor | None]:
        """How a forward attends, and the packed tokens that its last layer is asked for."""
        plan = ends = Plan([item.row for item in batch], self._dtype, self._device)
        keys, values = self.slots.keys, self.slots.values
        kept, last = None, self.decoder.layers - 1
        if len(sampled) < len(batch) or batch[-1].row.tokens > 1:
            packed = np.cumsum([item.row.tokens for item in batch]) - 1
            places = {item.row.slot: place for item, place in zip(batch, packed, strict=True)}
            kept = self._tensor(np.array([places[item.row.slot] for item in sampled], dtype=int))
            ends = Plan([item.end for item in sampled], self._dtype, self._device)

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            plan.write(key, value, keys[layer], values[layer])
            return (ends if layer == last else plan).attend(query, keys[layer], values[layer])

        return attend, kept

    def _positions(self, positions: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Tensor:
        """`[T]` where the three positions of every token are equal, else `[3, T]`."""
        text = bool((positions[1:] == positions[0]).all())
        return self._tensor(positions[0] if text else positions)

    def _images(self, batch: Sequence[Work]) -> tuple[Tensor, ImageFeatures] | None:
        """Packed indices of the image tokens of a batch, and what stands there."""
        places: list[tuple[int, int, int, RequestImage]] = []
        packed = 0
        for item in batch:
            first, last = item.row.start, item.row.start + item.row.tokens
            for start, end, image in item.job.prompt.spans:
                a, b = max(start, first), min(end, last)
                if a < b:
                    places.append((packed + a - first, a - start, b - start, image))
            packed += item.row.tokens
        if not places:
            return None
        encoded = self._encode([image for *_, image in places])
        parts = [_rows(encoded[image.digest], a, b) for _, a, b, image in places]
        indices = np.concatenate([np.arange(at, at + b - a) for at, a, b, _ in places])
        return self._tensor(indices), ImageFeatures.join(parts)

    def _encode(self, images: Sequence[RequestImage]) -> dict[str, ImageFeatures]:
        """Features by digest; the unknown ones are computed in few calls, by size."""
        known: dict[str, ImageFeatures] = {}
        missing: dict[str, RequestImage] = {}
        for image in images:
            features = self._features.get(image.digest)
            if features is None:
                missing[image.digest] = image
            else:
                known[image.digest] = features
        wanted = sorted(missing.values(), key=_size)
        for _, same in groupby(wanted, key=_size):
            for chunk in self._chunks(list(same)):
                known.update(self._encode_chunk(chunk))
        return known

    def _chunks(self, images: list[RequestImage]) -> list[list[RequestImage]]:
        patches = self.policy.layout.patches(images[0].width, images[0].height)
        step = 1 if self.deterministic else max(1, _ENCODE_PATCHES // patches)
        return [images[i : i + step] for i in range(0, len(images), step)]

    def _encode_chunk(self, images: list[RequestImage]) -> dict[str, ImageFeatures]:
        cut = [image.patches() for image in images]
        features = self.policy.encode(cut)
        counts = [len(features.tokens) // len(images)] * len(images)
        encoded = {}
        for image, part in zip(images, features.split(counts), strict=True):
            owned = _rows(part, 0, counts[0], copy=True)
            size = sum(tensor.nbytes for tensor in (owned.tokens, *owned.deepstack))
            self._features.put(image.digest, owned, size)
            encoded[image.digest] = owned
        return encoded

    def _sample(self, jobs: Sequence[Job], hidden: Tensor, version: str) -> None:
        sampled = sample(
            self.decoder.logits(hidden),
            self._tensor(np.array([job.temperature for job in jobs], dtype=np.float32)),
            self._tensor(np.array([job.rng.random() for job in jobs])),
        )
        drawn = zip(jobs, sampled.ids.tolist(), sampled.logprobs.tolist(), strict=True)
        for job, token, logprob in drawn:
            job.append(token, logprob, version)

    def _tensor(self, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Tensor:
        return torch.from_numpy(array).to(self._device)


def _slot(item: Work) -> int:
    return item.row.slot


def _tokens(missing: tuple[int, Job]) -> int:
    return missing[0]


def _size(image: RequestImage) -> tuple[int, int]:
    return image.width, image.height


def _rows(features: ImageFeatures, first: int, last: int, *, copy: bool = False) -> ImageFeatures:
    parts = [tensor[first:last] for tensor in (features.tokens, *features.deepstack)]
    tokens, *deepstack = [part.clone() for part in parts] if copy else parts
    return ImageFeatures(tokens, tuple(deepstack))
