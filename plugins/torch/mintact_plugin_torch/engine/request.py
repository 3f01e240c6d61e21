"""A generation inside the engine: the checked body of `/generate`, and the job it becomes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from mintact_plugin_torch.engine.images import RequestImage
from mintact_plugin_torch.engine.slots import Keys, image_key
from mintact_plugin_torch.layout import Layout, expand


class BadRequest(Exception):
    """The request cannot be served as asked (HTTP 400)."""


class SamplingBody(BaseModel):
    """`sampling_params`; what would change the sampled distribution is refused unless neutral."""

    model_config = ConfigDict(extra="forbid")

    max_new_tokens: int = Field(default=128, ge=1)
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    sampling_seed: int | None = None
    # neutral values only
    top_p: float = Field(default=1.0, ge=1, le=1)
    top_k: int = Field(default=-1, le=0)
    min_p: float = Field(default=0.0, ge=0, le=0)
    frequency_penalty: float = Field(default=0.0, ge=0, le=0)
    presence_penalty: float = Field(default=0.0, ge=0, le=0)
    repetition_penalty: float = Field(default=1.0, ge=1, le=1)
    min_new_tokens: int = Field(default=0, ge=0, le=0)
    n: int = Field(default=1, ge=1, le=1)
    stop: None = None
    regex: None = None
    json_schema: None = None
    ebnf: None = None
    # about text, of which there is none here
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    no_stop_trim: bool = False
    stream_interval: int | None = None


class GenerateBody(BaseModel):
    """Body of `/generate`; fields we do not know are ignored, as SGLang does."""

    model_config = ConfigDict(extra="ignore")

    rid: str | None = None
    input_ids: list[int] = Field(min_length=1)
    image_data: list[str] | str | None = None
    sampling_params: SamplingBody = SamplingBody()
    return_logprob: bool = False
    logprob_start_len: int = Field(default=-1, le=-1)
    stream: bool = False


class Span(NamedTuple):
    """An image's tokens `[start, end)` in the expanded prompt."""

    start: int
    end: int
    image: RequestImage


@dataclass(eq=False)
class Prompt:
    """An expanded prompt of `length` tokens, with room for what is generated.

    Attributes:
        ids: int64 `[room]`.
        positions: int64 `[3, room]`.
        keys: int64 `[room]`, what the prefix cache compares.
        length: tokens of the prompt.
        spans: of its images.
    """

    ids: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    keys: Keys
    length: int
    spans: list[Span]


@dataclass(eq=False)
class Job:
    """A generation on its way.

    Attributes:
        rid: the client's id.
        prompt: expanded.
        temperature: 0 is greedy.
        max_new_tokens: budget.
        stops: ids that end it.
        rng: draws one number a token.
        changed: called on the engine's thread after every token (streams) and at the end.
        stream: whether `changed` is wanted for every token.
        logprobs: of the generated ids.
        versions: `(version, first token)` of each stretch.
        slot: while running, else -1.
        cached: prompt tokens found in the cache.
        retractions: times it lost its slot.
        stale: whether its slot holds keys and values of earlier weights.
        finish: SGLang's finish reason once it ended.
    """

    rid: str
    prompt: Prompt
    temperature: float
    max_new_tokens: int
    stops: frozenset[int]
    rng: np.random.Generator
    changed: Callable[[Job], None]
    stream: bool = False
    logprobs: list[float] = field(default_factory=list)
    versions: list[tuple[str, int]] = field(default_factory=list)
    slot: int = -1
    cached: int = 0
    retractions: int = 0
    stale: bool = False
    finish: dict[str, Any] | None = None
    arrived: float = field(default_factory=time.monotonic)

    @property
    def generated(self) -> int:
        """Number of generated tokens."""
        return len(self.logprobs)

    @property
    def total(self) -> int:
        """Tokens of prompt and output."""
        return self.prompt.length + len(self.logprobs)

    def append(self, token: int, logprob: float, version: str) -> None:
        """Take a sampled token, and end if it is the last one."""
        place = self.total
        self.prompt.ids[place] = self.prompt.keys[place] = token
        if not self.versions or self.versions[-1][0] != version:
            self.versions.append((version, self.generated))
        self.logprobs.append(logprob)
        if token in self.stops:
            self.finish = {"type": "stop", "matched": token}
        elif self.generated >= self.max_new_tokens:
            self.finish = {"type": "length", "length": self.generated}

    def output_ids(self) -> list[int]:
        """The generated ids."""
        ids: list[int] = self.prompt.ids[self.prompt.length : self.total].tolist()
        return ids

    def reply(self, version: str, *, logprobs: bool) -> dict[str, Any]:
        """The reply of `/generate` so far.

        Args:
            version: weights served now.
            logprobs: whether they were asked for.
        """
        ids = self.output_ids()
        edges = [*(start for _, start in self.versions), len(ids)]
        meta: dict[str, Any] = {
            "id": self.rid,
            "finish_reason": self.finish,
            "prompt_tokens": self.prompt.length,
            "completion_tokens": len(ids),
            "cached_tokens": self.cached,
            "image_tokens": sum(span.end - span.start for span in self.prompt.spans),
            "weight_version": self.versions[-1][0] if self.versions else version,
            "weight_versions": [
                {"version": name, "start": start, "end": end}
                for (name, start), end in zip(self.versions, edges[1:], strict=True)
            ],
            "num_retractions": self.retractions,
            "e2e_latency": time.monotonic() - self.arrived,
        }
        if logprobs:
            pairs = zip(self.logprobs[: len(ids)], ids, strict=True)
            meta["output_token_logprobs"] = [[logprob, token, None] for logprob, token in pairs]
        return {"output_ids": ids, "meta_info": meta}


def make_prompt(
    ids: Sequence[int],
    images: Sequence[RequestImage],
    *,
    room: int,
    context: int,
    image_token: int,
    vocabulary: int,
    layout: Layout,
) -> Prompt:
    """Expand a prompt.

    Args:
        ids: collapsed, one placeholder an image.
        images: in the order of their placeholders.
        room: tokens that may be generated.
        context: tokens a slot holds.
        image_token: the placeholder.
        vocabulary: size of the vocabulary.
        layout: how an image becomes tokens.

    Raises:
        BadRequest: ids outside the vocabulary, placeholders that do not match the images (ids
            that are expanded already among them), or no room for prompt and output.
    """
    if len(ids) + room > context:
        raise _too_long(len(ids), room, context)
    # compared before they become an array: a number of any size can be sent
    if min(ids) < 0 or max(ids) >= vocabulary:
        raise BadRequest(f"input_ids must lie in [0, {vocabulary})")
    collapsed = np.array(ids, dtype=np.int64)
    places = np.flatnonzero(collapsed == image_token)
    if len(places) != len(images):
        raise BadRequest(
            f"{len(places)} image placeholders for {len(images)} images; send one an image, "
            "the server expands it"
        )
    sizes = [(int(p), i.width, i.height) for p, i in zip(places, images, strict=True)]
    expanded = expand(collapsed, sizes, layout)
    length = len(expanded.ids)
    if length + room > context:
        raise _too_long(length, room, context)
    keys = expanded.ids.copy()
    spans = []
    for place, image in zip(places, images, strict=True):
        start, end = np.searchsorted(expanded.source, [place, place + 1])
        keys[start:end] = image_key(image.digest)
        spans.append(Span(int(start), int(end), image))
    later = np.broadcast_to(expanded.next_position + np.arange(room), (3, room))
    return Prompt(
        ids=np.concatenate([expanded.ids, np.zeros(room, dtype=np.int64)]),
        positions=np.concatenate([expanded.positions, later], axis=1),
        keys=np.concatenate([keys, np.zeros(room, dtype=np.int64)]),
        length=length,
        spans=spans,
    )


def random_stream(seed: int | None) -> np.random.Generator:
    """The random numbers of one request: by its seed alone, or fresh ones."""
    number = secrets.randbits(64) if seed is None else seed % 2**64
    return np.random.Generator(np.random.Philox(number))


def _too_long(length: int, room: int, context: int) -> BadRequest:
    return BadRequest(
        f"a prompt of {length} tokens and {room} new ones exceed the context of {context}"
    )
