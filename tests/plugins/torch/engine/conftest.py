import asyncio
import base64
import io
import os
import sys
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mintact_plugin_torch.engine.engine import Engine
from mintact_plugin_torch.engine.generation import Replies
from mintact_plugin_torch.engine.request import GenerateBody
from mintact_plugin_torch.engine.runner import Limits
from mintact_plugin_torch.layout import expand
from mintact_plugin_torch.policy import ImageFeatures, Policy
from PIL import Image

from mintact_platform import processes

Ask = Callable[..., Awaitable[dict[str, Any]]]
OpenEngine = Callable[..., Any]


@pytest.fixture(scope="session")
def picture() -> Callable[..., bytes]:
    def make(seed: int, width: int = 64, height: int = 64, kind: str = "PNG") -> bytes:
        pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, kind)
        return buffer.getvalue()

    return make


@pytest.fixture(scope="session")
def inline() -> Callable[[bytes], str]:
    return lambda content: base64.b64encode(content).decode()


@pytest.fixture
def open_engine(tiny_model_dir: Path) -> OpenEngine:
    @asynccontextmanager
    async def opened(*, deterministic: bool = False, **limits: int) -> AsyncIterator[Engine]:
        engine = Engine(
            Policy.load(tiny_model_dir),
            model_path=str(tiny_model_dir),
            version="1",
            limits=Limits(**{"slots": 8, "context": 1024, **limits}),
            deterministic=deterministic,
        )
        engine.scheduler.start()
        try:
            yield engine
        finally:
            await asyncio.to_thread(engine.scheduler.stop)

    return opened


@pytest.fixture(scope="session")
def server_process(tiny_model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a real server in a process of its own, shared by the session's tests."""
    spec = {
        "threads": 1,
        "dtype": "float32",
        "device": "cpu",
        # no prompt is cut in two, to be computed under one version and sampled from under the next
        "limits": {"slots": 32, "context": 512, "forward_tokens": 4096},
        "model_path": str(tiny_model_dir),
        "version": "1",
        "deterministic": False,
    }
    child = asyncio.run(
        processes.spawn(
            [sys.executable, "-m", "mintact_plugin_torch.engine.server"],
            spec,
            log=tmp_path_factory.mktemp("server") / "engine.log",
            mark=f"engine-tests-{os.getpid()}",
            deadline=120,
        )
    )
    yield str(child.ready["url"])
    child.kill()


@pytest.fixture(scope="session")
def standing() -> Callable[..., Any]:
    """`async with standing(engine, requests, tokens)`: its thread waits while the block runs.

    It does so between two forwards, once so many requests have generated so many tokens each; what
    the block sends to it is read next. Nothing sent before may have run when it is entered.
    """

    @asynccontextmanager
    async def held(engine: Engine, requests: int = 1, tokens: int = 1) -> AsyncIterator[None]:
        runner, reached, go = engine.scheduler.runner, threading.Event(), threading.Event()
        step = runner.step

        def step_and_wait(jobs: Any, version: str) -> None:
            step(jobs, version)
            if len(jobs) >= requests and all(job.generated >= tokens for job in jobs):
                runner.step = step
                reached.set()
                go.wait()

        runner.step = step_and_wait
        try:
            assert await asyncio.to_thread(reached.wait, 60)
            yield
        finally:
            go.set()

    return held


@pytest.fixture(scope="session")
def sent() -> Callable[..., Awaitable[None]]:
    """Wait until a thread that stands has been sent so many messages."""

    async def wait(engine: Engine, messages: int = 1) -> None:
        async with asyncio.timeout(60):
            while engine.scheduler._inbox.qsize() < messages:
                await asyncio.sleep(0.001)

    return wait


@pytest.fixture(scope="session")
def ask() -> Ask:
    async def generate(
        engine: Engine,
        ids: list[int],
        images: list[str] | None = None,
        *,
        rid: str | None = None,
        **sampling: Any,
    ) -> dict[str, Any]:
        # by its prompt: what is sampled is the same in every run
        sampling = {"sampling_seed": zlib.crc32(repr(ids).encode()), **sampling}
        body = GenerateBody.model_validate(
            {
                "rid": rid,
                "input_ids": ids,
                "image_data": images,
                "return_logprob": True,
                "sampling_params": {"max_new_tokens": 8, "ignore_eos": True, **sampling},
            }
        )
        replies = Replies(lambda: engine.scheduler.version, logprobs=True)
        engine.scheduler.submit(await engine.prepare(body, replies.push))
        return await replies.next()

    return generate


@pytest.fixture
def recompute(tiny_model_dir: Path) -> Callable[..., list[float]]:
    """Log-probabilities of the last ids of a conversation by one full forward."""
    policy = Policy.load(tiny_model_dir)

    @torch.no_grad()
    def logprobs(
        ids: list[int],
        images: list[bytes],
        places: list[int],
        *,
        last: int,
        temperature: float = 1.0,
        model: Policy = policy,
    ) -> list[float]:
        cut = [model.patches(image) for image in images]
        sizes = [
            (place, patches.grid[2] * model.layout.patch, patches.grid[1] * model.layout.patch)
            for place, patches in zip(places, cut, strict=True)
        ]
        expanded = expand(ids, sizes, model.layout)
        features = ImageFeatures.join([model.encode([one]) for one in cut]) if cut else None
        hidden = model.hidden(
            torch.from_numpy(expanded.ids)[None],
            torch.from_numpy(expanded.positions)[:, None],
            torch.from_numpy(expanded.is_image)[None],
            features,
        )[0]
        targets = torch.from_numpy(expanded.ids[-last:])
        values: list[float] = model.logprobs(hidden[-last - 1 : -1], targets, temperature).tolist()
        return values

    return logprobs
