"""What the rollouter asks of model servers: SGLang's native HTTP routes, as values.

Routes used: `/generate`, `/model_info`, `/health`, `/pause_generation`, `/continue_generation`,
`/flush_cache`, `/abort_request`, `/begin_weight_update`, `/update_weights_from_disk`,
`/end_weight_update`. Control calls go to each worker, generation to `generate_url`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

SyncMode = Literal["drain", "abort_resume", "retract", "in_place"]
"""What becomes of running requests while weights move.

* `drain`: none runs; the caller waited for them.
* `abort_resume`: they end, and their callers ask for the rest under the new weights.
* `retract`: they wait on the server and go on with keys and values computed anew.
* `in_place`: they wait on the server and go on with the keys and values they have.
"""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of one generation; training uses top_p=1, top_k=-1, no penalties.

    Attributes:
        temperature: > 0; 0 is greedy (evaluation only).
        max_new_tokens: budget.
        stop_token_ids: end of turn and the reserved vision ids.
        seed: per-request seed, or None.
    """

    temperature: float
    max_new_tokens: int
    stop_token_ids: tuple[int, ...]
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image of a request: stored file, used by path or read and sent inline."""

    path: Path
    digest: str


@dataclass(frozen=True, slots=True, eq=False)
class GenerateRequest:
    """One generation. `ids` hold one placeholder an image.

    Attributes:
        rid: our own id; results key on it, a repeat carries the same one.
        ids: int32 `[tokens]`, collapsed.
        images: in the order of their placeholders.
        sampling: see `Sampling`.
    """

    rid: str
    ids: npt.NDArray[np.int32]
    images: Sequence[ImageFile]
    sampling: Sampling


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """What a model server generated.

    Attributes:
        ids: int32 sampled ids, the stop token included when one was sampled.
        logprobs: float32, after temperature, of exactly those ids.
        versions: int32 weight version that sampled each id.
        finish: `stop`, `length` or `abort`.
        prompt_tokens: the server's own count, images expanded.
        cached_tokens: prompt tokens served from cache.
    """

    ids: npt.NDArray[np.int32]
    logprobs: npt.NDArray[np.float32]
    versions: npt.NDArray[np.int32]
    finish: str
    prompt_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class WeightsRef:
    """Weights on disk in Hugging Face layout, with the version they carry."""

    path: Path
    version: int


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What a rollout engine gets at its start.

    Attributes:
        weights: what to serve first.
        run_directory: for logs and image paths.
        temperature: of training rollouts.
        active: upper bound of concurrent requests.
        image_transport: `auto`, `path` or `inline`.
        deadline: seconds until it must be ready.
        generate_deadline: seconds a request may take.
        incarnation: of the scheduler; marks the child processes.
        deterministic: one row a forward, sampling by seed alone.
        extra: for engines of other makers.
    """

    weights: WeightsRef
    run_directory: Path
    temperature: float
    active: int
    image_transport: str = "auto"
    deadline: float = 300.0
    generate_deadline: float = 120.0
    incarnation: int = 0
    deterministic: bool = False
    extra: dict[str, Any] = field(default_factory=dict)


class RolloutEngine(Protocol):
    """Starts or attaches to model servers; the only thing the rollouter generates through.

    Built from its keyword-only parameters (`rollout.params`). An engine that can do more than
    `drain` says so in a class attribute `sync_modes`, a tuple of `SyncMode`. With `abort_resume`
    an update ends what runs, and a request so ended returns what it has, finish `abort`. With
    `retract` or `in_place` its `update` takes a keyword argument `mode`, and is given one of them.
    One that knows how many tokens of a conversation it holds says so in an attribute `context`; a
    run file that asks for more is refused.
    """

    async def start(self, spec: EngineSpec) -> None:
        """Start or attach; returns when the servers serve `spec.weights`."""
        ...

    async def generate(self, request: GenerateRequest) -> Generation:
        """Generate; raises ModelServerError. Cancelling aborts the request on the server."""
        ...

    async def update(self, weights: WeightsRef) -> None:
        """Serve these weights on every server, or raise and keep the old ones.

        The caller has drained its own requests. Sequence: pause (abort, as a barrier), flush
        cache, begin, update from disk, end, check the version, continue.
        """
        ...

    async def healthy(self) -> bool:
        """Whether every server answers and serves the current version; restarts a dead child."""
        ...

    async def close(self) -> None:
        """Stop what it started; nothing is left behind."""
        ...


def sync_modes(engine: object) -> tuple[str, ...]:
    """The modes that an engine, or its class, declares; `drain` alone where it says nothing."""
    declared = getattr(engine, "sync_modes", ("drain",))
    return tuple(declared)
