"""The real SGLang on a CPU: weights reach it by every way, in every mode of an update.

`pytest -m real_sglang tests/plugins/sglang`, with the environment of `make sglang-venv`; another
place of it is told by MINTACT_SGLANG_VENV.
"""

from __future__ import annotations

import asyncio
import json
import os
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


def touched(image: ImageFile) -> ImageFile:
    """The same picture but for one colour of one pixel."""
    pixels = np.asarray(Image.open(image.path)).copy()
    pixels[0, 0, 0] ^= 1
    path = image.path.with_name("touched.png")
    Image.fromarray(pixels).save(path)
    return ImageFile(path, blake2b(path.read_bytes()).hexdigest())


def distance(one: list[float], other: list[float]) -> float:
    return float(np.abs(np.subtract(one, other)).max())


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
    assert distance(first, second) > 0.1
    # a picture that looks the same and was never seen: nothing kept of the old weights is in it
    assert distance(second, await greedy(engine, ask, touched(image))) < 0.01
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
    asked = [
        asyncio.create_task(
            engine.generate(replace(ask(f"{mode}-{i}", tokens=400), rid=f"{mode}-{i}"))
        )
        for i in range(6)
    ]

    async def runs() -> bool:
        reply = await fleet._http.get(f"{worker_url(engine)}/v1/loads")
        return reply.json()["loads"][0]["num_running_reqs"] > len(asked) // 2

    await until(runs)
    await engine.update(WeightsRef(models[0], new), mode=mode)
    generations = await asyncio.gather(*asked)
    versions = [one.versions.tolist() for one in generations]
    assert all(one == sorted(one) for one in versions)
    # some may have ended by themselves before the update
    if mode == "abort":
        assert "abort" in {one.finish for one in generations}
        assert {version for one in versions for version in one} == {old}
    else:
        assert {one.finish for one in generations} <= {"stop", "length"}
        assert [old, new] in [sorted(set(one)) for one in versions]
