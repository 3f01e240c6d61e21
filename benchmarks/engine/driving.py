"""Loads over `/generate`, and what they took: of the clock, and of the server's processors."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import httpx
from servers import Server
from workload import Call, Episode


class Cost(NamedTuple):
    """What a load took.

    Attributes:
        tokens: generated.
        prompt: prompt tokens asked for.
        computed: of them, those not found in the cache.
        cpu: seconds of processor time of the server.
        wall: seconds.
    """

    tokens: int
    prompt: int
    computed: int
    cpu: float
    wall: float

    @property
    def rate(self) -> float:
        """Tokens a second of processor time."""
        return self.tokens / self.cpu


class Client:
    """Calls of one server; counts tokens.

    Args:
        server: called.
        concurrency: connections.
    """

    def __init__(self, server: Server, concurrency: int) -> None:
        self.server = server
        limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
        self._http = httpx.AsyncClient(base_url=server.url, timeout=600, limits=limits)
        self._tokens = self._prompt = self._cached = 0

    async def generate(self, call: Call) -> list[int]:
        """The generated ids, exactly as many as asked for."""
        body = {
            "input_ids": call.ids,
            "image_data": [base64.b64encode(image).decode() for image in call.images] or None,
            "return_logprob": True,
            "sampling_params": {
                "max_new_tokens": call.tokens,
                "ignore_eos": True,
                "temperature": 1.0,
                "sampling_seed": call.seed,
            },
        }
        reply = await self.post("/generate", body)
        ids: list[int] = reply["output_ids"]
        if len(ids) != call.tokens or len(reply["meta_info"]["output_token_logprobs"]) != len(ids):
            raise RuntimeError(f"{len(ids)} tokens where {call.tokens} were asked for")
        self._tokens += len(ids)
        self._prompt += reply["meta_info"]["prompt_tokens"]
        self._cached += reply["meta_info"]["cached_tokens"]
        return ids

    async def post(self, route: str, body: dict[str, Any]) -> Any:
        """The reply of a route; an error ends the benchmark."""
        response = await self._http.post(route, json=body)
        response.raise_for_status()
        return response.json() if "json" in response.headers.get("content-type", "") else None

    async def measure(self, load: Callable[[], Awaitable[Any]]) -> Cost:
        """Do a load, from an empty cache."""
        await self.post("/flush_cache", {})
        self._tokens = self._prompt = self._cached = 0
        cpu, start = self.server.cpu(), time.perf_counter()
        await load()
        wall, spent = time.perf_counter() - start, self.server.cpu() - cpu
        return Cost(self._tokens, self._prompt, self._prompt - self._cached, spent, wall)

    async def together(self, calls: Sequence[Call]) -> None:
        """All at once."""
        await asyncio.gather(*map(self.generate, calls))

    async def play(self, episodes: Sequence[Episode]) -> None:
        """Each episode turn after turn, all episodes at once."""

        async def one(episode: Episode) -> None:
            for turn in range(len(episode.lengths)):
                episode.reply(await self.generate(episode.call(turn)))

        await asyncio.gather(*map(one, episodes))

    async def sync(self, path: str, version: str) -> None:
        """The sequence of a weight update, as a run does it."""
        await self.post("/pause_generation", {"mode": "abort"})
        await self.post("/flush_cache", {})
        await self.post("/begin_weight_update", {})
        body = {"model_path": path, "weight_version": version}
        await self.post("/update_weights_from_disk", body)
        await self.post("/end_weight_update", {})
        await self.post("/continue_generation", {})

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
