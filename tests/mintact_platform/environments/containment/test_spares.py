import asyncio
import os
import signal

import pytest

from mintact_platform import trees
from mintact_platform.environments.server import spares as module
from mintact_platform.environments.server import status


def ready(service):
    return service.boots.spares.count().total()


async def until(condition, seconds=60):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


def boots(service):
    return service.metrics._calls["boot", 200]


async def test_without_spares_nothing_is_started_unasked(serve, lease):
    service = await serve()
    await lease(service)
    await asyncio.sleep(0.6)
    assert len(service.workers) == 1


async def test_the_next_equal_lease_gets_an_instance_that_is_ready(serve, lease):
    service = await serve(spares=1)
    await lease(service)
    await until(lambda: ready(service) == 1)
    started = boots(service)
    second = await lease(service)
    assert service.metrics.spares_taken == 1
    assert (await second.reset()).error is None
    await until(lambda: ready(service) == 1)
    assert boots(service) == started + 1, "the spare that was taken is replaced"
    assert "mintact_environment_spares_taken_total 1" in service.metrics.text({})


@pytest.mark.parametrize(
    "other", [{"image_format": "jpeg"}, {"params": {"fail_while": "/nowhere"}}]
)
async def test_a_lease_that_differs_gets_no_spare(serve, lease, other):
    service = await serve(spares=1)
    await lease(service)
    await until(lambda: ready(service) == 1)
    await lease(service, **other)
    assert service.metrics.spares_taken == 0


async def test_spares_may_be_had_of_some_environments_only(serve, lease):
    service = await serve(spares={"wild_envs:Shared": 2})
    await lease(service, "Wild")
    await lease(service, "Shared")
    await until(lambda: ready(service) == 2)
    assert service.boots.spares.count() == {"wild_envs:Shared": 2}
    assert len(service.workers) == 2, "spares share workers too"


async def test_a_spare_that_dies_is_replaced(serve, lease):
    service = await serve(spares=1)
    first = await lease(service)
    await until(lambda: ready(service) == 1)
    (shelf,) = service.boots.spares._shelves.values()
    spare = shelf.ready[0].worker
    inside = trees.below(spare.child.process.pid)
    os.kill(inside[-1], signal.SIGKILL)
    await until(lambda: ready(service) == 0)
    await until(lambda: ready(service) == 1)
    assert shelf.ready[0].worker is not spare
    assert (await first.reset()).error is None


async def test_a_broken_instance_is_replaced_at_once(serve, lease):
    service = await serve(spares=1)
    broken = await lease(service)
    await broken.reset()
    await until(lambda: ready(service) == 1)
    await broken.step("crash after daemon", amount=1)
    await broken.release()
    started = boots(service)
    again = await lease(service)
    assert boots(service) == started
    assert (await again.reset()).error is None


async def test_spares_and_leases_together_never_exceed_the_capacity(serve, lease, refused):
    service = await serve(spares=4, capacity=3)
    first = await lease(service)
    await until(lambda: ready(service) == 2)
    await lease(service, image_format="jpeg")
    await until(lambda: len(service.workers) == 3)
    assert ready(service) == 1
    await lease(service, params={"fail_while": "/nowhere"})
    assert ready(service) == 0
    assert (await refused(service))[1].kind == "full"
    await until(lambda: len(service.workers) == 3)
    await first.release()
    await until(lambda: ready(service) == 1)


async def test_spares_nobody_asks_for_are_closed(serve, lease):
    service = await serve(spares=1)
    tenant = await lease(service)
    await until(lambda: ready(service) == 1)
    (shelf,) = service.boots.spares._shelves.values()
    service.boots.spares.tend(shelf.asked_at + module.IDLE - 1)
    assert ready(service) == 1
    service.boots.spares.tend(shelf.asked_at + module.IDLE + 1)
    assert ready(service) == 0
    await tenant.release()
    await until(lambda: len(service.workers) == 0)


async def test_a_spare_that_cannot_start_is_tried_ever_more_slowly(serve, lease, tmp_path):
    service, flag = await serve(spares=1), tmp_path / "flag"
    await lease(service, params={"fail_while": str(flag)})
    await until(lambda: ready(service) == 1)
    flag.touch()
    await lease(service, params={"fail_while": str(flag)})
    (shelf,) = service.boots.spares._shelves.values()
    await until(lambda: shelf.failures == 2)
    flag.unlink()
    await until(lambda: ready(service) == 1)


async def test_the_overview_counts_spares_and_health(serve, lease):
    service = await serve(spares=1)
    tenant = await lease(service, "Shared")
    await until(lambda: ready(service) == 1)
    told = status.overview(service)
    shared = told["environments"]["wild_envs:Shared"]
    assert (shared["leases"], shared["spares"], shared["quarantined"]) == (1, 1, 0)
    assert shared["last_success_s"] is None
    assert (told["leases"], told["capacity"], told["free"], told["spares"]) == (1, 16, 15, 1)
    assert told["containment"] == "none"
    await tenant.reset()
    await tenant.step("look")
    assert status.overview(service)["environments"]["wild_envs:Shared"]["last_success_s"] >= 0
    text = service.metrics.text(status.gauges(service))
    assert "mintact_environment_spares 1\n" in text
    assert "mintact_environment_instances 2\n" in text
    assert 'last_success_age_seconds{environment="wild_envs:Shared"} ' in text
    assert 'mintact_environment_step_seconds_bucket{le="+Inf"} 1\n' in text
    assert "mintact_environment_acquire_seconds_count 1\n" in text
    assert "mintact_environment_boot_seconds_count 2\n" in text
