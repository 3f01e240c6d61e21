"""The engine as the rollouter uses it: a real child process over HTTP."""

import asyncio
import hashlib
import os
import signal
from pathlib import Path

import httpx
import numpy as np
import pytest
import pytest_asyncio
from mintact_plugin_torch.engine.embedded import EmbeddedEngine
from mintact_plugin_torch.policy import Policy
from mintact_plugin_torch.warmstart.tiny import make_tiny

from mintact_platform import processes
from mintact_platform.errors import ModelServerError
from mintact_platform.models.gate import Gate
from mintact_platform.models.protocol import (
    EngineSpec,
    GenerateRequest,
    ImageFile,
    Sampling,
    WeightsRef,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARK = f"engine-test-{os.getpid()}"


@pytest.fixture(scope="module")
def next_weights(tmp_path_factory):
    return WeightsRef(make_tiny(tmp_path_factory.mktemp("next") / "tiny", seed=1), 2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tiny_model_dir, tmp_path_factory):
    engine = EmbeddedEngine(slots=8, context=1024)
    spec = EngineSpec(
        WeightsRef(tiny_model_dir, 1),
        tmp_path_factory.mktemp("run"),
        temperature=1.0,
        active=8,
        deadline=150,
        generate_deadline=60,
        extra={"mark": MARK},
    )
    await engine.start(spec)
    yield engine
    await engine.close()
    assert not processes.marked(MARK)
    assert (spec.run_directory / "logs" / "engine.log").is_file()


def _request(rid, ids=range(30, 60), images=(), tokens=8, seed=0, stops=()):
    sampling = Sampling(1.0, tokens, stops, seed)
    return GenerateRequest(rid, np.array(ids, dtype=np.int32), list(images), sampling)


def _store(path: Path, content: bytes) -> ImageFile:
    path.write_bytes(content)
    return ImageFile(path, hashlib.sha256(content).hexdigest())


async def test_generates_with_images_by_path_and_knows_its_version(
    engine, tiny_model_dir, picture, tmp_path
):
    image = _store(tmp_path / "a.png", picture(0, 64, 64))
    pad = Policy.load(tiny_model_dir).image_token_id
    generation = await engine.generate(_request("a", [*range(30, 60), pad], [image]))
    assert generation.prompt_tokens == 34
    assert (len(generation.ids), generation.ids.dtype) == (8, np.int32)
    assert generation.logprobs.dtype == np.float32
    assert set(generation.versions.tolist()) == {engine._weights.version}
    assert generation.finish in ("length", "stop")
    assert await engine.healthy()


async def test_cancelling_frees_the_slot(engine):
    asked = await _generating(engine, "b")
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await _until_idle(engine)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_caller_that_goes_away_frees_the_slot(engine, stream):
    body = {
        "input_ids": list(range(30, 60)),
        "sampling_params": {"max_new_tokens": 990, "ignore_eos": True},
        "stream": stream,
    }

    async def call(_):
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            await client.post(engine._child.ready["url"] + "/generate", json=body)

    asked = await _under_way(engine, call)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await _until_idle(engine)


async def _until_idle(engine):
    while (await _loads(engine))["num_running_reqs"]:
        await asyncio.sleep(0.01)


async def _loads(engine):
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        return (await client.get(engine._child.ready["url"] + "/v1/loads")).json()["loads"][0]


async def _under_way(engine, call):
    """A call that goes on: the first of many that does not end before anyone looks."""
    for number in range(32):
        asked = asyncio.create_task(call(number))
        if await _is_sampled(engine, asked):
            return asked
        await asked
    pytest.fail("every call ended before it was seen")


async def _generating(engine, name):
    """A generation that goes on; an untrained model may end its turn before anyone looks."""

    def call(seed):
        return engine.generate(_request(f"{name}{seed}", tokens=990, seed=seed))

    return await _under_way(engine, call)


async def _is_sampled(engine, asked):
    """Wait until tokens come one after the other, or the generation ends; whether it goes on."""
    seen = set()
    # some of these values are the prompt's
    while not asked.done() and len(seen) < 8:
        seen.add((await _loads(engine))["num_used_tokens"])
        await asyncio.sleep(0.001)
    return not asked.done()


async def _standing(engine, name):
    """A generation whose server stands still in the middle of it."""
    while True:
        asked = await _generating(engine, name)
        os.kill(engine._child.process.pid, signal.SIGSTOP)
        for _ in range(50):
            # what it said before that arrives
            await asyncio.sleep(0)
        if not asked.done():
            return asked
        os.kill(engine._child.process.pid, signal.SIGCONT)
        name += "+"


async def test_a_refused_update_keeps_the_old_weights_and_generates_on(engine, tmp_path):
    before, version = await engine.generate(_request("c")), engine._weights.version
    with pytest.raises(ModelServerError, match="no safetensors file"):
        await engine.update(WeightsRef(tmp_path, 99))
    again = await engine.generate(_request("d"))
    assert again.ids.tolist() == before.ids.tolist()
    assert set(again.versions.tolist()) == {version}


async def test_an_update_is_served_and_survives_a_dead_child(engine, next_weights):
    await engine.update(next_weights)
    updated = await engine.generate(_request("e"))
    assert set(updated.versions.tolist()) == {2}
    child = engine._child
    asked = await _standing(engine, "f")
    os.kill(child.process.pid, signal.SIGKILL)
    with pytest.raises(ModelServerError) as caught:
        await asked
    assert caught.value.kind == "unreachable"
    assert await engine.healthy()
    assert engine._child is not child
    revived = await engine.generate(_request("g"))
    assert revived.ids.tolist() == updated.ids.tolist()
    assert set(revived.versions.tolist()) == {2}


@pytest.mark.parametrize("mode", ["abort_resume", "retract", "in_place"])
async def test_a_push_in_the_middle_of_a_response_shows_in_its_tokens_versions(
    engine, next_weights, tiny_model_dir, recompute, mode
):
    old, new = engine._weights, WeightsRef(tiny_model_dir, engine._weights.version + 1)
    if old.path == tiny_model_dir:
        new = WeightsRef(next_weights.path, new.version)
    gate = Gate(engine)
    prompt, pad = list(range(30, 60)), Policy.load(old.path).image_token_id
    for seed in range(32):
        # an untrained model may end its turn before the push comes, or stand for an image that
        # is none: no part of a prompt after a cut
        request = _request(f"{mode}{seed}", tokens=900, seed=seed, stops=(pad,))
        asked = asyncio.create_task(gate.generate(request))
        await _is_sampled(engine, asked)
        await gate.update(new, mode=mode, deadline=60)
        generation = await asked
        versions = generation.versions.tolist()
        if len(set(versions)) == 2:
            break
        await gate.update(WeightsRef(old.path, old.version), mode="drain", deadline=60)
    assert versions == sorted(versions)
    assert set(versions) == {old.version, new.version}
    ids, cut = generation.ids.tolist(), versions.index(new.version)
    first = recompute(prompt + ids[:cut], [], [], last=cut, model=Policy.load(old.path))
    np.testing.assert_allclose(generation.logprobs[:cut], first, atol=2e-5)
    if mode != "in_place":
        # there the keys and values of the first tokens stay those of the old weights
        rest = recompute(prompt + ids, [], [], last=len(ids) - cut, model=Policy.load(new.path))
        np.testing.assert_allclose(generation.logprobs[cut:], rest, atol=2e-5)
    assert set((await gate.generate(_request("after"))).versions.tolist()) == {new.version}


async def test_a_model_that_is_none_says_so_at_the_start(tmp_path):
    engine = EmbeddedEngine()
    spec = EngineSpec(WeightsRef(tmp_path, 0), tmp_path, 1.0, 1, deadline=100)
    with pytest.raises(ModelServerError, match=r"no config\.json"):
        await engine.start(spec)
    await engine.close()
