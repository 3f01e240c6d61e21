"""The real SGLang on a CPU: our requests are its own, and weights reach it by every way.

`pytest -m real_sglang tests/plugins/sglang`, with the environment of `make sglang-venv`; another
place of it is told by MINTACT_SGLANG_VENV.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from mintact_plugin_sglang.engine import SGLangEngine
from PIL import Image

from mintact_platform.models.protocol import EngineSpec, ImageFile, WeightsRef
from mintact_platform.trees import marked

pytestmark = [
    pytest.mark.real_sglang,
    pytest.mark.timeout(1800),
    pytest.mark.asyncio(loop_scope="module"),
]

MARK = f"sglang-real-{os.getpid()}"
NEAR = 2e-5


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> ImageFile:
    path = tmp_path_factory.mktemp("images") / "one.png"
    pixels = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return ImageFile(path, blake2b(path.read_bytes()).hexdigest())


def engine_spec(model: Path, version: int, folder: Path, part: str) -> EngineSpec:
    return EngineSpec(
        weights=WeightsRef(model, version),
        run_directory=folder,
        temperature=1.0,
        active=8,
        deadline=600.0,
        generate_deadline=300.0,
        extra={"mark": f"{MARK}-{part}"},
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(sglang_python, models, tmp_path_factory):
    engine = SGLangEngine(python=sglang_python, device="cpu", dtype="float32", health_seconds=5)
    await engine.start(engine_spec(models[0], 1, tmp_path_factory.mktemp("run"), "launch"))
    yield engine
    await engine.close()
    assert marked(MARK) == []
    assert not list(Path("/dev/shm").glob("torch_*"))


def worker_url(engine) -> str:
    (url,) = engine._fleet.servers.workers.urls
    return url


async def greedy(engine, ask, image) -> list[float]:
    request = ask("greedy", tokens=6)
    tokenizer = json.loads((engine._fleet.servers.weights.path / "tokenizer.json").read_text())
    special = {entry["content"]: entry["id"] for entry in tokenizer["added_tokens"]}
    names = ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>")
    ids = np.array([*(special[name] for name in names), *request.ids], dtype=np.int32)
    sampling = replace(request.sampling, temperature=0.0, seed=None, stop_token_ids=(0,))
    generation = await engine.generate(
        replace(request, ids=ids, images=(image,), sampling=sampling)
    )
    # 64 × 96 pixels are 2 × 3 merged patches of 32; five tokens of text and two markers
    assert generation.prompt_tokens == 6 + 7
    return generation.logprobs.tolist()


async def test_what_we_send_is_what_sglang_reads(
    sglang_python, stand_in, spec, running, ask, models, image, monkeypatch
):
    worker = stand_in()
    here = {"mode": "attach", "worker_urls": [worker.url], "python": sys.executable}
    for transfer in ("disk", "tensor"):
        async with running(
            SGLangEngine(**here, transfer=transfer), spec(WeightsRef(models[0], 1))
        ) as engine:
            await engine.generate(replace(ask(), images=(image,)))
            await engine.generate(replace(ask(), sampling=replace(ask().sampling, temperature=0)))
            for version, mode in enumerate(("abort", "retract", "in_place"), start=2):
                await engine.update(WeightsRef(models[1], version), mode=mode)
            await engine._fleet.servers.abort("r")
    questions = ("/server_info", "/model_info", "/flush_cache", "/v1/loads")
    calls = [(route, body) for route, body in worker.calls if route not in questions]
    assert {"/generate", "/update_weights_from_tensor"} <= {route for route, _ in calls}
    script = Path(__file__).with_name("in_sglang.py")
    done = await asyncio.to_thread(
        subprocess.run,
        [sglang_python, str(script)],
        input=json.dumps(calls),
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []


async def test_a_launched_server_is_the_tested_release(engine):
    (able,) = engine._fleet.capabilities.values()
    assert (able.version, able.ranks, able.device) == ("0.5.23", 1, "cpu")
    assert await engine.healthy()


async def test_weights_arrive_by_every_way_and_are_the_same(
    engine, ask, image, sglang_python, models, tmp_path, record_property
):
    first = await greedy(engine, ask, image)
    await engine.update(WeightsRef(models[1], 2))
    second = await greedy(engine, ask, image)
    assert max(np.abs(np.subtract(first, second))) > 0.01
    clock = asyncio.get_running_loop().time
    for version, (transfer, part) in enumerate(
        [("tensor", 512), ("tensor", 1), ("distributed", 512), ("distributed", 1), ("disk", 1)],
        start=3,
    ):
        other = SGLangEngine(
            mode="attach",
            worker_urls=[worker_url(engine)],
            python=sglang_python,
            transfer=transfer,
            transfer_megabytes=part,
        )
        # attaching sends the first model, the update the second: both go this way
        await other.start(engine_spec(models[0], 10 * version, tmp_path, f"other-{version}"))
        try:
            assert await greedy(other, ask, image) == pytest.approx(first, abs=NEAR)
            begun = clock()
            await other.update(WeightsRef(models[1], 10 * version + 1))
            record_property("note", f"weights by {transfer}: {clock() - begun:.1f} s")
            assert await greedy(other, ask, image) == pytest.approx(second, abs=NEAR)
            assert await other.healthy()
        finally:
            await other.close()


@pytest.mark.parametrize("mode", ["abort", "retract", "in_place"])
async def test_running_requests_meet_an_update_as_the_mode_says(engine, ask, models, until, mode):
    fleet = engine._fleet
    old = await fleet.servers.workers._served(worker_url(engine))
    new = max(100, old) + 1
    asked = asyncio.create_task(
        engine.generate(replace(ask(f"long-{mode}", tokens=400), rid=f"long-{mode}"))
    )

    async def runs() -> bool:
        reply = await fleet._http.get(f"{worker_url(engine)}/v1/loads")
        return reply.json()["loads"][0]["num_running_reqs"] > 0

    await until(runs)
    await engine.update(WeightsRef(models[0], new), mode=mode)
    generation = await asked
    versions = generation.versions.tolist()
    assert versions == sorted(versions)
    if mode == "abort":
        assert generation.finish == "abort"
        assert set(versions) == {old}
    else:
        assert generation.finish == "length"
        assert set(versions) == {old, new}
