"""A step through a lease against the same step in process: text reply, one lease, one run.

Ratios and differences of one run are what counts; a busy machine makes both sides slower.
"""

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from mintact_env_micro.environment import Tools

from mintact_platform.config import Deadlines
from mintact_platform.environments.manager import EnvironmentManager, PoolSpec
from mintact_platform.records.task import Task

STEPS = 300
ACTION = {"name": "search_tool", "arguments": {"query": "share"}}
TASK = Task("benchmark", "search", "tools", seed=1)


def in_process() -> list[float]:
    environment = Tools()
    environment.reset(seed=1, options={"task": TASK.to_json()})
    seconds = []
    for _ in range(STEPS):
        start = time.perf_counter()
        environment.step(ACTION)
        seconds.append(time.perf_counter() - start)
    return seconds


async def leased(directory: Path) -> list[float]:
    os.environ.setdefault("MINTACT_MARK", f"benchmark-{os.getpid()}")
    manager = EnvironmentManager(
        {"tools": PoolSpec("micro/tools", instances=1)},
        deadlines=Deadlines(),
        log_directory=directory,
        incarnation=1,
    )
    await manager.start()
    try:
        async with manager.acquire("tools") as lease:
            await lease.reset(episode="benchmark", task=TASK, seed=1, deadline=60)
            seconds = []
            for step in range(STEPS):
                start = time.perf_counter()
                await lease.step(step=step, action=ACTION, deadline=30)
                seconds.append(time.perf_counter() - start)
            return seconds
    finally:
        await manager.close()


def main() -> None:
    inside = 1000 * statistics.median(in_process())
    with tempfile.TemporaryDirectory() as directory:
        outside = 1000 * statistics.median(asyncio.run(leased(Path(directory))))
    print(f"in process {inside:.3f} ms, over HTTP {outside:.2f} ms p50")
    print(f"overhead {outside - inside:.2f} ms a step (goal: 1.5 ms)")


if __name__ == "__main__":
    main()
