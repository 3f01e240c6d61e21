"""Servers that others started: found, brought to the current weights, lost and found again."""

import asyncio
import os

import pytest
from mintact_plugin_sglang.engine import SGLangEngine
from mintact_plugin_sglang.router import Router, control_client, launch_router

from mintact_platform.errors import ConfigurationError, ModelServerError
from mintact_platform.models.protocol import WeightsRef

MARK = f"sglang-attach-{os.getpid()}"


def attached(*workers, **params) -> SGLangEngine:
    params = {"health_seconds": 0.1, "worker_urls": [one.url for one in workers], **params}
    return SGLangEngine(mode="attach", **params)


@pytest.fixture(scope="module")
def running_router(tmp_path_factory):
    log = tmp_path_factory.mktemp("router") / "log"

    async def started():
        router = await launch_router([], log=log, mark=MARK, deadline=120)
        await router.http.aclose()
        return router

    router = asyncio.run(started())
    yield router
    router.child.kill()


@pytest.fixture
async def router(running_router):
    """A router of others, without workers."""
    router = Router(running_router.url, control_client(None))
    yield router
    for url in await router.worker_states():
        await router.remove_worker(url)
    await router.aclose()


async def test_one_worker_is_asked_directly(stand_in, spec, running, ask, tmp_path):
    worker = stand_in()
    async with running(attached(worker), spec(WeightsRef(tmp_path, 4))) as engine:
        generation = await engine.generate(ask(tokens=3))
        assert generation.versions.tolist() == [4, 4, 4]
        assert await engine.healthy()
        await engine.update(WeightsRef(tmp_path / "next", 5), mode="in_place")
        assert (worker.weights, worker.path) == ("5", str(tmp_path / "next"))
        assert worker.asked("/pause_generation")[-1] == {"mode": "in_place"}


async def test_what_a_foreign_worker_serves_is_not_taken_from_its_version(
    stand_in, spec, running, tmp_path
):
    worker = stand_in()
    worker.weights, worker.path = "4", "/of/another/run"
    async with running(attached(worker), spec(WeightsRef(tmp_path, 4))):
        assert worker.path == str(tmp_path)


async def test_the_key_goes_to_workers_and_router(
    stand_in, spec, running, ask, tmp_path, monkeypatch
):
    monkeypatch.setenv("MINTACT_TEST_KEY", "secret")
    workers = stand_in(key="secret"), stand_in(key="secret")
    engine = attached(*workers, api_key_env="MINTACT_TEST_KEY")
    async with running(engine, spec(WeightsRef(tmp_path, 1))):
        assert len((await engine.generate(ask())).ids) == 4
        assert [one.weights for one in workers] == ["1", "1"]


async def test_several_workers_share_the_work_behind_a_router_of_ours(
    stand_in, spec, running, ask, tmp_path
):
    workers = stand_in(), stand_in()
    for one in workers:
        one.hold.clear()
    async with running(attached(*workers), spec(WeightsRef(tmp_path, 1))) as engine:
        asked = [asyncio.create_task(engine.generate(ask(str(i), prompt=20))) for i in range(16)]
        async with asyncio.timeout(60):
            while sum(len(one.asked("/generate")) for one in workers) < 16:
                await asyncio.sleep(0.02)
        for one in workers:
            one.hold.set()
        await asyncio.gather(*asked)
        # prompts that begin alike would all go to one worker with the router's own thresholds
        assert min(len(one.asked("/generate")) for one in workers) >= 4


async def test_a_worker_that_comes_back_serves_the_current_weights_before_it_takes_work(
    router, stand_in, spec, running, ask, until, tmp_path
):
    first, second = stand_in(), stand_in()
    for one in (first, second):
        await router.add_worker(one.url)
    engine = attached(router_url=router.url)
    async with running(engine, spec(WeightsRef(tmp_path, 1))):
        await second.die()
        await engine.update(WeightsRef(tmp_path, 2))
        assert await router.worker_states() == {first.url: True}
        assert not await engine.healthy()
        assert (await engine.generate(ask())).versions.tolist() == [2] * 4
        again = stand_in(second.port)
        await until(engine.healthy)
        routes = [route for route, _ in again.calls]
        assert again.weights == "2"
        assert "/generate" not in routes[: routes.index("/update_weights_from_disk")]
        assert await router.worker_states() == {first.url: True, second.url: True}


async def test_a_worker_that_others_add_is_noticed_by_its_old_weights(
    router, stand_in, spec, running, ask, until, tmp_path
):
    first, late = stand_in(), stand_in()
    late.weights = "1"
    await router.add_worker(first.url)
    engine = attached(router_url=router.url, health_seconds=60)
    async with running(engine, spec(WeightsRef(tmp_path, 7))):
        await router.add_worker(late.url)
        await router.remove_worker(first.url)
        assert (await engine.generate(ask())).versions.tolist() == [7] * 4
        assert late.weights == "7"


async def test_a_sick_worker_is_taken_out(router, stand_in, spec, running, until, tmp_path):
    well, sick = stand_in(), stand_in()
    for one in (well, sick):
        await router.add_worker(one.url)
    async with running(attached(router_url=router.url), spec()):
        sick.healthy = False

        async def taken_out() -> bool:
            return list(await router.worker_states()) == [well.url]

        await until(taken_out)


async def test_without_any_worker_a_request_fails_with_the_reason(
    stand_in, spec, running, ask, until, tmp_path
):
    worker = stand_in()
    async with running(attached(worker), spec()) as engine:
        # now that it has started: nobody will come
        engine._fleet._deadline = 0.5
        await worker.die()
        with pytest.raises(ModelServerError, match=r"worker|connection|Connect") as caught:
            await engine.generate(ask())
        assert caught.value.kind == "unreachable"
        with pytest.raises(ModelServerError):
            await engine.update(WeightsRef(tmp_path, 2))


async def test_a_server_that_refuses_weights_keeps_the_old_ones_everywhere(
    stand_in, spec, running, ask, tmp_path
):
    good, bad = stand_in(), stand_in()
    async with running(attached(good, bad), spec(WeightsRef(tmp_path, 1))) as engine:
        answer, bad._answer = bad._answer, None

        async def refuse(route, body):
            reply = await answer(route, body)
            if route == "/update_weights_from_disk" and body["weight_version"] == "2":
                reply.status_code, bad.weights = 400, "1"
            return reply

        bad._answer = refuse
        with pytest.raises(ModelServerError, match="HTTP 400"):
            await engine.update(WeightsRef(tmp_path, 2))
        assert (good.weights, bad.weights) == ("1", "1")
        assert await engine.healthy()


async def test_nobody_at_the_address_is_told_at_the_start(spec, stand_in):
    gone = stand_in()
    await gone.die()
    engine = attached(gone)
    with pytest.raises(ModelServerError, match=gone.url) as caught:
        await engine.start(spec())
    assert caught.value.kind == "unreachable"


async def test_a_router_without_workers_is_refused(router, spec):
    with pytest.raises(ConfigurationError, match="has no worker"):
        await attached(router_url=router.url).start(spec())


async def test_a_worker_in_place_of_a_router_is_told_from_one(stand_in, spec):
    with pytest.raises(ModelServerError, match="/workers: HTTP 404"):
        await attached(router_url=stand_in().url).start(spec())


async def test_a_late_start_is_a_timeout(stand_in, spec):
    worker = stand_in(busy_flushes=10_000)
    with pytest.raises(ModelServerError, match="not ready within 1 s") as caught:
        await attached(worker).start(spec(deadline=1.0))
    assert caught.value.kind == "timeout"


async def test_a_worker_deaf_during_an_update_is_left_out_and_brought_back(
    router, stand_in, spec, running, ask, until, tmp_path
):
    quick, deaf = stand_in(), stand_in()
    for one in (quick, deaf):
        await router.add_worker(one.url)
    engine = attached(router_url=router.url, health_seconds=1.0)
    async with running(engine, spec(WeightsRef(tmp_path, 1))):
        deaf.healthy = False
        await engine.update(WeightsRef(tmp_path, 2))
        assert (quick.weights, deaf.weights) == ("2", "1")
        deaf.healthy = True
        await until(engine.healthy)
        assert deaf.weights == "2"
