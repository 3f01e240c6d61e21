"""The engine as its HTTP routes use it: a policy, its scheduler, its images."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mintact_plugin_torch.engine.images import ImageStore, RequestImage
from mintact_plugin_torch.engine.metrics import exposition
from mintact_plugin_torch.engine.request import (
    GenerateBody,
    Job,
    make_prompt,
    random_stream,
)
from mintact_plugin_torch.engine.runner import Limits, Runner
from mintact_plugin_torch.engine.scheduler import Scheduler
from mintact_plugin_torch.engine.weights import read_weights, write_weights
from mintact_plugin_torch.policy import Policy

_COLDEST = 1e-6


class Engine:
    """A policy that is served.

    Args:
        policy: the model, in the precision it is served in.
        model_path: where its weights came from.
        version: of these weights.
        limits: sizes.
        deterministic: one row a forward, nothing reused between requests.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        model_path: str,
        version: str,
        limits: Limits,
        deterministic: bool = False,
    ) -> None:
        self.policy, self.model_path, self.limits = policy, model_path, limits
        self.deterministic = deterministic
        self.scheduler = Scheduler(Runner(policy, limits, deterministic=deterministic), version)
        self.images = ImageStore(policy, limits.image_bytes)
        text = policy.text.config
        self._vocabulary = int(text.vocab_size)
        self._ends = _ids(getattr(text, "eos_token_id", None))

    async def prepare(self, body: GenerateBody, changed: Callable[[Job], None]) -> Job:
        """Make a job of a request: images opened in threads, the prompt expanded.

        Raises:
            BadRequest: ids or lengths that cannot be served.
            BadImage: an image that cannot be used.
        """
        sources = [body.image_data] if isinstance(body.image_data, str) else body.image_data or []
        images = await asyncio.to_thread(self._open, sources) if sources else []
        sampling = body.sampling_params
        prompt = make_prompt(
            body.input_ids,
            images,
            room=sampling.max_new_tokens,
            context=self.limits.context,
            image_token=self.policy.image_token_id,
            vocabulary=self._vocabulary,
            layout=self.policy.layout,
        )
        stops = frozenset(sampling.stop_token_ids or ())
        return Job(
            rid=body.rid or secrets.token_hex(16),
            prompt=prompt,
            # below this, logits would overflow: SGLang takes it as greedy too
            temperature=sampling.temperature if sampling.temperature >= _COLDEST else 0.0,
            max_new_tokens=sampling.max_new_tokens,
            stops=stops if sampling.ignore_eos else stops | self._ends,
            rng=random_stream(sampling.sampling_seed),
            changed=changed,
            stream=body.stream,
        )

    def _open(self, sources: list[str]) -> list[RequestImage]:
        return [self.images.open(source) for source in sources]

    async def load(self, path: str, version: str | None, *, abort: bool) -> None:
        """Serve the weights of a directory, once nothing runs or while paused.

        Args:
            path: model directory.
            version: of the weights; None keeps the present one.
            abort: end what runs instead of waiting for it.

        Raises:
            BadWeights: the old weights stay.
        """
        tensors = await asyncio.to_thread(read_weights, Path(path), self.policy)
        if abort:
            self.scheduler.abort(lambda job: True)
        write = partial(write_weights, self.policy, tensors)
        await self.scheduler.ask(
            partial(self.scheduler.change_weights, write, version), drained=True
        )
        self.model_path = path

    def information(self) -> dict[str, Any]:
        """What `/model_info` says."""
        return {
            "model_path": self.model_path,
            "tokenizer_path": self.model_path,
            "served_model_name": Path(self.model_path).name,
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": self.scheduler.version,
            "has_image_understanding": self.policy.family.sees,
            "has_audio_understanding": False,
            "model_type": self.policy.model.config.model_type,
            "architectures": [type(self.policy.model).__name__],
        }

    def load_figures(self) -> dict[str, Any]:
        """What `/v1/loads` says."""
        slots = self.scheduler.runner.slots
        return {
            "dp_rank": 0,
            "num_running_reqs": self.scheduler.running,
            "num_waiting_reqs": self.scheduler.waiting,
            "num_used_slots": slots.busy,
            "num_used_tokens": slots.held_tokens,
            "token_usage": slots.busy / slots.count,
            "cache_hit_rate": self.scheduler.counts.hit_rate,
        }

    def metrics(self) -> str:
        """What `/metrics` says."""
        name = Path(self.model_path).name
        return exposition(self.load_figures(), self.scheduler.counts, name)


def _ids(value: int | list[int] | None) -> frozenset[int]:
    if value is None:
        return frozenset()
    return frozenset(value if isinstance(value, list) else [value])
