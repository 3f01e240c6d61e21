"""What hangs delays nobody else: shown by the order in which things end, not by a clock."""

import asyncio
import contextlib
import os
import signal
import time

import pytest

from mintact_platform.environments.client.lease import Lease
from mintact_platform.errors import EnvironmentFailure, MintactError
from mintact_platform.records.task import Task

pytestmark = pytest.mark.runs

LONG = 60.0
COUNT = {"name": "count", "arguments": {}}
TASK = Task("t", "survive", "web")
FOREVER = Task("t", "survive", "web", params={"slow_reset": 600})
UNWILLING = Task("t", "survive", "web", params={"slow_close": 600})


@pytest.fixture(scope="module")
def server(watched_server):
    server = asyncio.run(watched_server())
    yield server
    server.child.kill()


@pytest.fixture(params=["http", "stream"])
async def lease_of(server, request):
    """Make leases; at the end everything is killed that still hangs."""
    leases = []

    async def make(kind, **options) -> Lease:
        lease = await Lease.create(
            server.url,
            environment=kind if ":" in kind else f"soak_envs:{kind}",
            key=f"hung-{os.urandom(6).hex()}",
            deadline=options.pop("deadline", LONG),
            transport=request.param,
            **options,
        )
        leases.append(lease)
        return lease

    yield make
    for pid in server.workers():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await asyncio.gather(*(lease.release() for lease in leases))
    await server.settled()


async def lives(lease, steps=20):
    """A whole episode."""
    await lease.reset(episode=os.urandom(6).hex(), task=TASK, seed=0, deadline=LONG)
    for step in range(steps):
        await lease.step(step=step, action=COUNT, deadline=LONG)
    await lease.evaluate(deadline=LONG)


async def still_hangs(*calls):
    """These calls have not ended; end our wait for them."""
    assert not any(call.done() for call in calls)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def hanging(lease, how):
    await lease.reset(episode="e", task=TASK, seed=0, deadline=LONG)
    step = lease.step(step=0, action={"name": how, "arguments": {}}, deadline=LONG)
    return asyncio.create_task(step)


@pytest.mark.parametrize("how", ["hang", "spin"])
async def test_a_hung_instance_does_not_delay_the_same_worker(lease_of, how):
    first, *others = [await lease_of("Light") for _ in range(4)]
    assert len({lease.instance.partition(".")[0] for lease in (first, *others)}) == 1
    call = await hanging(first, how)
    await asyncio.gather(*map(lives, others))
    await others[0].release()
    await lives(await lease_of("Light"))
    await still_hangs(call)


@pytest.mark.parametrize("how", ["hang", "spin", "hang_locked", "freeze"])
async def test_a_hung_instance_does_not_delay_other_workers(lease_of, how):
    calls = [await hanging(await lease_of("Isolated"), how) for _ in range(2)]
    for _ in range(2):
        other = await lease_of("Isolated")
        await lives(other)
        await other.release()
    await still_hangs(*calls)


async def test_what_hangs_in_any_phase_delays_no_other_lease(lease_of):
    """Boots, resets, steps and closes that never end, more than there are threads in a pool."""
    boots = [asyncio.create_task(lease_of("Light", params={"bad": "boot hang"})) for _ in range(20)]
    stuck = [await lease_of("Light") for _ in range(20)]
    for lease in stuck[10:]:
        await lease.reset(episode="e", task=UNWILLING, seed=0, deadline=LONG)
    resets = [
        asyncio.create_task(lease.reset(episode="e", task=FOREVER, seed=0, deadline=LONG))
        for lease in stuck[:10]
    ]
    closes = [asyncio.create_task(lease.release(deadline=LONG)) for lease in stuck[10:]]
    other = await lease_of("Isolated")
    await lives(other)
    await other.release()
    await still_hangs(*boots, *resets)
    await asyncio.gather(*closes)


@pytest.mark.parametrize("module", ["import_hangs_in_worker", "import_hangs"])
async def test_an_import_that_never_ends_delays_nobody(lease_of, module):
    kind = f"{module}:Isolated"
    boots = [asyncio.create_task(lease_of(kind)) for _ in range(12)]
    await asyncio.sleep(0.5)
    other = await lease_of("Isolated")
    await lives(other)
    await other.release()
    await still_hangs(*boots)


async def test_an_import_that_exits_is_a_failed_creation(lease_of, server):
    with pytest.raises(MintactError, match="no licence"):
        await lease_of("import_exits:Isolated")
    other = await lease_of("Isolated")
    await lives(other)


async def test_killing_what_hangs_happens_at_its_deadline(lease_of):
    """The call ends by its own deadline, and what it held is gone at once."""
    lease = await lease_of("Isolated")
    await lease.reset(episode="e", task=TASK, seed=0, deadline=LONG)
    start = time.monotonic()
    action = {"name": "hang_locked", "arguments": {}}
    with pytest.raises(EnvironmentFailure) as caught:
        await lease.step(step=0, action=action, deadline=1.0)
    assert (caught.value.phase, caught.value.kind) == ("step", "timeout")
    assert time.monotonic() - start >= 0.5
