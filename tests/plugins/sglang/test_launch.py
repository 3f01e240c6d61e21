"""Embedded servers launched as the workers behind the real router."""

import asyncio
import os
import signal
from collections import Counter

import pytest
import pytest_asyncio
from mintact_plugin_sglang.engine import SGLangEngine

from mintact_platform.errors import ConfigurationError, ModelServerError
from mintact_platform.models.protocol import EngineSpec, Generation, WeightsRef
from mintact_platform.trees import marked

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

MARK = f"sglang-launch-{os.getpid()}"
SMALL = {"slots": 16, "context": 512, "slot_megabytes": 128, "forward_tokens": 256}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(models, tmp_path_factory):
    engine = SGLangEngine(worker="embedded", workers=2, server_args=SMALL)
    await engine.start(
        EngineSpec(
            weights=WeightsRef(models[0], 1),
            run_directory=tmp_path_factory.mktemp("run"),
            temperature=1.0,
            active=32,
            deadline=300.0,
            generate_deadline=120.0,
            extra={"mark": MARK},
        )
    )
    yield engine
    await engine.close()
    assert marked(MARK) == []


async def versions(engine) -> list[bool]:
    return [
        await engine._fleet.servers.workers._served(url)
        for url in engine._fleet.servers.workers.urls
    ]


async def test_generation_goes_through_the_router(engine, ask):
    generations = await asyncio.gather(*(engine.generate(ask(f"r{i}")) for i in range(8)))
    first = generations[0]
    assert all(one.ids.tolist() == first.ids.tolist() for one in generations)
    assert first.versions.tolist() == [1] * len(first.ids)
    assert await engine.healthy()


async def test_an_update_reaches_every_worker(engine, ask, models):
    old = await engine.generate(ask())
    await engine.update(WeightsRef(models[1], 2))
    new = await engine.generate(ask())
    assert await versions(engine) == [2, 2]
    assert new.versions.tolist() == [2] * len(new.ids)
    assert new.logprobs.tolist() != old.logprobs.tolist()


async def test_weights_that_cannot_be_read_leave_the_old_ones(engine, ask, tmp_path):
    with pytest.raises(ModelServerError, match="no safetensors file"):
        await engine.update(WeightsRef(tmp_path, 3))
    assert await versions(engine) == [2, 2]
    assert await engine.healthy()


async def test_a_worker_killed_under_load_costs_no_request_and_comes_back_current(
    engine, ask, models, until
):
    fleet = engine._fleet
    workers = fleet.servers.workers
    asked: list[asyncio.Task[Generation]] = []

    async def busy() -> bool:
        if all(call.done() for call in asked):
            # none was asked yet, or all ended before anyone looked
            await asyncio.gather(*asked)
            requests = [ask(f"k{i}", tokens=64) for i in range(24)]
            asked[:] = [asyncio.create_task(engine.generate(one)) for one in requests]
        loads = [await fleet._http.get(f"{url}/v1/loads") for url in workers.urls]
        runs = all(one.json()["loads"][0]["num_running_reqs"] for one in loads)
        return runs and not all(call.done() for call in asked)

    await until(busy)
    place = fleet._places[0]
    dead = place.url
    os.kill(place.worker.child.process.pid, signal.SIGKILL)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    kinds = Counter(type(answer) for answer in answers)
    assert set(kinds) <= {Generation, ModelServerError}
    assert kinds[Generation] >= 20
    # new weights come while it is away; it must not take work with those it was started with
    await engine.update(WeightsRef(models[0], 3))
    await until(lambda: len(workers.urls) == 2)
    assert dead not in workers.urls
    assert await versions(engine) == [3, 3]
    assert list((await fleet.router.worker_states()).values()) == [True, True]
    later = await asyncio.gather(*(engine.generate(ask(f"l{i}")) for i in range(8)))
    assert {version for one in later for version in one.versions.tolist()} == {3}


async def test_a_router_that_dies_is_launched_again(engine, ask):
    router = engine._fleet.router
    router.child.kill()
    generation = await engine.generate(ask("after"))
    assert generation.versions.tolist() == [3] * len(generation.ids)
    assert engine._fleet.router is not router
    assert await engine.healthy()


async def test_a_worker_that_does_not_start_ends_the_start_with_its_last_words(spec, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho this build has no CPU; exit 3\n")
    python.chmod(0o755)
    mark = f"{MARK}-bad"
    engine = SGLangEngine(python=str(python), device="cpu", workers=2)
    with pytest.raises(ModelServerError, match=r"worker \d: .*this build has no CPU"):
        await engine.start(spec(extra={"mark": mark}))
    assert marked(mark) == []


async def test_an_interpreter_without_sglang_is_told_before_the_start(spec):
    with pytest.raises(ConfigurationError, match="make sglang-venv"):
        await SGLangEngine().start(spec(extra={"mark": f"{MARK}-none"}))
    assert marked(f"{MARK}-none") == []
