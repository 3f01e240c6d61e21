import asyncio
import io

import numpy as np
import pytest
from mintact_env_micro import tasks
from mintact_env_micro.scene import Layout
from mintact_env_micro.tasks import DOMAINS
from PIL import Image

from mintact_platform.config import Deadlines
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.errors import EnvironmentFailure

SETS = {"mobile": tasks.mobile, "desktop": tasks.desktop, "web": tasks.web, "tools": tasks.tools}


async def solve(manager, pool, task):
    kind, images = DOMAINS[task.domain], 0
    state = kind.start(task.seed, Layout())
    async with manager.acquire(pool) as lease:
        seen = await lease.reset(episode=f"{task.id}/0", task=task, seed=task.seed, deadline=60)
        for step in range(task.max_turns):
            images += len(seen.images)
            if task.domain in ("mobile", "desktop"):
                picture = np.asarray(Image.open(io.BytesIO(seen.images[0].data)))
                assert (picture == state.render()).all()
            call = state.decisions()[0].call
            state = state.apply(call.name, call.arguments)
            seen = await lease.step(step=step, action=call.to_json(), deadline=60)
            if seen.terminated:
                break
        return await lease.evaluate(deadline=60), images


@pytest.mark.browser
async def test_all_domains_are_solved_side_by_side_through_the_environment_server(tmp_path):
    pools = {name: PoolSpec(f"micro/{name}", instances=3) for name in DOMAINS}
    manager = EnvironmentManager(
        pools, deadlines=Deadlines(), log_directory=tmp_path, incarnation=1
    )
    await manager.start()
    try:
        chosen = [task for make in SETS.values() for task in make(split="test")[:6]]
        results = await asyncio.gather(*(solve(manager, task.domain, task) for task in chosen))
    finally:
        await manager.close()
    assert all(check.success for check, _ in results)
    images = dict(zip([task.domain for task in chosen], [n for _, n in results], strict=True))
    assert images == {"mobile": 3, "desktop": 3, "web": 4, "tools": 1}


async def test_an_injected_crash_is_an_environment_failure_and_the_pool_recovers(tmp_path):
    spec = PoolSpec("micro/mobile", {"fault": "crash", "fault_rate": 0.5}, instances=1)
    manager = EnvironmentManager(
        {"phone": spec}, deadlines=Deadlines(), log_directory=tmp_path, incarnation=1
    )
    await manager.start()
    train = tasks.mobile(split="train")
    outcomes = []
    try:
        for task in train[:6]:
            try:
                outcomes.append((await solve(manager, "phone", task))[0].success)
            except EnvironmentFailure as failure:
                outcomes.append(failure.kind)
    finally:
        await manager.close()
    assert set(outcomes) == {True, "crash"}
