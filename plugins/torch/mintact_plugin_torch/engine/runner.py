"""One forward over packed rows of several requests, prefill and decode alike, then sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mintact_plugin_torch.engine.attention import Plan, Row, order
from mintact_plugin_torch.engine.decoder import Attend, Decoder
from mintact_plugin_torch.engine.encoder import Encoder, rows
from mintact_plugin_torch.engine.images import RequestImage
from mintact_plugin_torch.engine.request import Job
from mintact_plugin_torch.engine.sampling import sample
from mintact_plugin_torch.engine.slots import Slots
from mintact_plugin_torch.policy import ImageFeatures, Policy

_PACKED_TOKENS = 640
"""Tokens of a forward, unless one row has more: what is computed of them stays in a core's cache,
and of 2048 at once every token takes half as long again."""


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


@dataclass(slots=True)
class Repeat:
    """A forward of one-token rows that all sampled: where nobody comes or goes, the next is alike.

    Attributes:
        jobs: as the step was given them.
        order: the same in slot order.
        clock: of the slots.
        plan: of the attention.
        longest: tokens of the longest row.
        ids: sampled, in slot order.
        positions: of these ids, `[T]`; None until they are needed.
    """

    jobs: list[Job]
    order: list[Job]
    clock: int
    plan: Plan
    longest: int
    ids: Tensor
    positions: Tensor | None = None

    def unless_ended(self) -> Repeat | None:
        """None where a job ended: the next step differs, and nothing is to hold its images."""
        return self if all(job.finish is None for job in self.order) else None


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
        self._encoder = Encoder(policy, limits.feature_bytes, alone=deterministic)
        self._last: Repeat | None = None

    def forget(self) -> None:
        """Empty idle slots and image features: the weights changed."""
        self.slots.empty()
        self._encoder.clear()

    @torch.inference_mode()
    def step(self, jobs: Sequence[Job], version: str) -> None:
        """Compute the next tokens of the jobs, at most `forward_tokens`, and sample.

        Args:
            jobs: running ones.
            version: of the weights, noted on what is sampled.
        """
        last, self._last = self._last, None
        if last is not None and self._repeats(last, jobs):
            self._repeat(last, version)
            self._last = last.unless_ended()
            return
        work = self._plan(jobs)
        batches = [[item] for item in work] if self.deterministic else self._packed(work)
        if len(batches) > 1 and not self.deterministic:
            # what several of them need is encoded in as few calls as ever
            self._encoder.features([image for *_, image in self._placed(work)])
        for batch in batches:
            sampled = sorted((item for item in batch if item.samples), key=_slot)
            hidden, plan = self._forward(batch, sampled)
            for item in batch:
                self.slots.advance(item.row.slot, item.row.tokens)
            if sampled:
                order = [item.job for item in sampled]
                ids = self._sample(order, hidden, version)
                if len(order) == len(jobs) and batch[-1].row.tokens == 1:
                    longest = max(item.row.start for item in batch) + 1
                    last = Repeat(list(jobs), order, self.slots.clock, plan, longest, ids)
                    self._last = last.unless_ended()

    def _repeats(self, last: Repeat, jobs: Sequence[Job]) -> bool:
        """Whether this step is the last one again, each row one token further."""
        return (
            last.clock == self.slots.clock
            and last.longest < self.slots.capacity
            and last.jobs == jobs
        )

    def _repeat(self, last: Repeat, version: str) -> None:
        last.plan.advance()
        last.longest += 1
        if last.positions is None:
            places = [job.prompt.positions[0, job.total - 1] for job in last.order]
            last.positions = self._tensor(np.array(places))
        attend = self._attend(last.plan, last.plan)
        hidden = self.decoder.forward(self.decoder.embed(last.ids), last.positions, attend)
        last.positions += 1
        for job in last.order:
            self.slots.advance(job.slot, 1)
        last.ids = self._sample(last.order, hidden, version)

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

    def _packed(self, work: Sequence[Work]) -> list[list[Work]]:
        """Cut the work of a step, one-token rows first, into forwards."""
        batches: list[list[Work]] = []
        room = 0
        for item in work:
            if item.row.tokens > room:
                batches.append([])
                room = _PACKED_TOKENS
            batches[-1].append(item)
            room -= item.row.tokens
        return batches

    def _forward(self, batch: Sequence[Work], sampled: Sequence[Work]) -> tuple[Tensor, Plan]:
        """Hidden states `[n, H]` of the last token of each work that samples; how it attended."""
        slices = [
            (item.job.prompt, slice(item.row.start, item.row.start + item.row.tokens))
            for item in batch
        ]
        ids = self._tensor(np.concatenate([prompt.ids[part] for prompt, part in slices]))
        positions = self._positions(
            np.concatenate([prompt.positions[:, part] for prompt, part in slices], axis=1)
        )
        self.slots.fit(max(item.row.start + item.row.tokens for item in batch))
        plan, ends, kept = self._attention(batch, sampled)
        attend = self._attend(plan, ends)
        states = self.decoder.embed(ids)
        images = self._images(batch)
        if images is None:
            return self.decoder.forward(states, positions, attend, kept=kept), plan
        tokens, features = images
        states[tokens] = features.tokens
        deepstack = features.deepstack
        return self.decoder.forward(states, positions, attend, tokens, deepstack, kept), plan

    def _attention(
        self, batch: Sequence[Work], sampled: Sequence[Work]
    ) -> tuple[Plan, Plan, Tensor | None]:
        """How a forward attends, and how the tokens that its last layer is asked for do."""
        plan = Plan([item.row for item in batch], self._dtype, self._device)
        if len(sampled) == len(batch) and batch[-1].row.tokens == 1:
            return plan, plan, None
        packed = np.cumsum([item.row.tokens for item in batch]) - 1
        places = {item.row.slot: place for item, place in zip(batch, packed, strict=True)}
        kept = self._tensor(np.array([places[item.row.slot] for item in sampled], dtype=int))
        ends = Plan([item.end for item in sampled], self._dtype, self._device)
        return plan, ends, kept

    def _attend(self, plan: Plan, ends: Plan) -> Attend:
        """Attention of one plan, of the other one in the last layer."""
        keys, values, last = self.slots.keys, self.slots.values, self.decoder.layers - 1

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            plan.write(key, value, keys[layer], values[layer])
            return (ends if layer == last else plan).attend(query, keys[layer], values[layer])

        return attend

    def _positions(self, positions: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Tensor:
        """`[T]` where the three positions of every token are equal, else `[3, T]`."""
        text = bool((positions[1:] == positions[0]).all())
        return self._tensor(positions[0] if text else positions)

    def _images(self, batch: Sequence[Work]) -> tuple[Tensor, ImageFeatures] | None:
        """Packed indices of the image tokens of a batch, and what stands there."""
        places = self._placed(batch)
        if not places:
            return None
        encoded = self._encoder.features([image for *_, image in places])
        parts = [rows(encoded[image.digest], a, b) for _, a, b, image in places]
        indices = np.concatenate([np.arange(at, at + b - a) for at, a, b, _ in places])
        return self._tensor(indices), ImageFeatures.join(parts)

    def _placed(self, batch: Sequence[Work]) -> list[tuple[int, int, int, RequestImage]]:
        """Images in a batch: packed index, and which of its tokens `[a, b)` stand there."""
        places: list[tuple[int, int, int, RequestImage]] = []
        packed = 0
        for item in batch:
            first, last = item.row.start, item.row.start + item.row.tokens
            for start, end, image in item.job.prompt.spans:
                a, b = max(start, first), min(end, last)
                if a < b:
                    places.append((packed + a - first, a - start, b - start, image))
            packed += item.row.tokens
        return places

    def _sample(self, jobs: Sequence[Job], hidden: Tensor, version: str) -> Tensor:
        """Sample a token for each job; their ids."""
        sampled = sample(
            self.decoder.logits(hidden),
            self._tensor(np.array([job.temperature for job in jobs], dtype=np.float32)),
            self._tensor(np.array([job.rng.random() for job in jobs])),
        )
        drawn = zip(jobs, sampled.ids.tolist(), sampled.logprobs.tolist(), strict=True)
        for job, token, logprob in drawn:
            job.append(token, logprob, version)
        return sampled.ids

    def _tensor(self, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Tensor:
        return torch.from_numpy(array).to(self._device)


def _slot(item: Work) -> int:
    return item.row.slot


def _tokens(missing: tuple[int, Job]) -> int:
    return missing[0]
