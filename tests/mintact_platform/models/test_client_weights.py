"""The client of model servers moves weights: every worker serves the same ones, or the old ones."""

import asyncio

import pytest

from mintact_platform.errors import ModelServerError
from mintact_platform.models.protocol import WeightsRef


async def test_an_update_runs_the_whole_sequence_on_every_worker(workers, connect, tmp_path):
    both = [await workers(busy_flushes=2), await workers()]
    servers = connect(*both, weights=WeightsRef(tmp_path, 4))
    assert await servers.healthy()
    await servers.update(WeightsRef(tmp_path, 5))
    control = list(both[1].control)
    assert both[1].routes() == control
    assert both[0].routes() == [control[0], *["/flush_cache"] * 3, *control[2:]]
    assert both[0].bodies("/pause_generation") == [{"mode": "abort"}]
    [body] = both[0].bodies("/update_weights_from_disk")
    assert (body["model_path"], body["weight_version"]) == (str(tmp_path), "5")
    assert servers.weights.version == 5
    assert await servers.healthy()


async def test_a_server_without_brackets_is_updated_without_them(workers, connect, tmp_path):
    worker = await workers(brackets=False)
    await connect(worker).update(WeightsRef(tmp_path, 5))
    assert worker.version == "5"
    assert "/end_weight_update" not in worker.routes()


async def test_a_refused_update_changes_nothing_and_generation_continues(
    workers, connect, tmp_path
):
    worker = await workers(refuses=("5",))
    servers = connect(worker, weights=WeightsRef(tmp_path, 4))
    with pytest.raises(ModelServerError, match="bad path"):
        await servers.update(WeightsRef(tmp_path, 5))
    assert worker.routes()[-2:] == ["/end_weight_update", "/continue_generation"]
    assert await servers.healthy()


async def test_when_one_worker_refuses_the_other_gets_its_old_weights_back(
    workers, connect, tmp_path
):
    good, bad = await workers(), await workers(refuses=("5",))
    servers = connect(good, bad, weights=WeightsRef(tmp_path, 4))
    with pytest.raises(ModelServerError, match="bad path"):
        await servers.update(WeightsRef(tmp_path, 5))
    assert good.version == bad.version == "4"
    assert good.routes()[-1] == bad.routes()[-1] == "/continue_generation"
    assert await servers.healthy()


async def test_an_update_that_is_not_served_is_an_error(workers, connect, tmp_path):
    worker = await workers(deaf_to_updates=True)
    with pytest.raises(ModelServerError, match="serves version 4 after an update to 5"):
        await connect(worker).update(WeightsRef(tmp_path, 5))


async def test_a_cancelled_update_lets_the_servers_continue(workers, connect, tmp_path):
    worker = await workers(busy_flushes=10**6)
    servers = connect(worker, weights=WeightsRef(tmp_path, 4))
    update = asyncio.create_task(servers.update(WeightsRef(tmp_path, 5)))
    while not worker.bodies("/flush_cache"):
        await asyncio.sleep(0.005)
    update.cancel()
    with pytest.raises(asyncio.CancelledError):
        await update
    assert worker.routes()[-1] == "/continue_generation"
    assert worker.version == "4"


async def test_an_update_that_takes_too_long_is_a_timeout(workers, connect, tmp_path):
    worker = await workers(busy_flushes=10**6)
    servers = connect(worker, weights=WeightsRef(tmp_path, 4), update_deadline=0.3)
    with pytest.raises(ModelServerError, match=r"deadlines\.push") as caught:
        await servers.update(WeightsRef(tmp_path, 5))
    assert caught.value.kind == "timeout"
    assert await servers.healthy()


async def test_a_worker_with_other_weights_is_not_healthy(workers, connect, tmp_path):
    worker = await workers(version="3", deaf_to_updates=True)
    assert not await connect(worker, weights=WeightsRef(tmp_path, 4)).healthy()
    assert await connect(worker).healthy()


async def test_a_server_that_came_late_or_was_restarted_gets_the_current_weights(
    workers, connect, tmp_path
):
    late, current = await workers(version="default"), await workers(version="4")
    servers = connect(late, current, weights=WeightsRef(tmp_path, 4))
    assert await servers.healthy()
    assert late.version == "4"
    assert late.routes() == list(late.control)
    assert current.routes() == []


@pytest.mark.parametrize("pause", ["retract", "in_place"])
async def test_generations_in_flight_may_be_paused_instead_of_ended(
    workers, connect, tmp_path, pause
):
    worker = await workers()
    await connect(worker).update(WeightsRef(tmp_path, 5), pause=pause)
    assert worker.bodies("/pause_generation") == [{"mode": pause}]
    assert ("/flush_cache" in worker.routes()) == (pause == "retract")
    [body] = worker.bodies("/update_weights_from_disk")
    assert body["flush_cache"] == (pause == "retract")
    assert not body["abort_all_requests"]
