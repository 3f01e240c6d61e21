"""The whole scheduler process: leases over the wire, generations over HTTP, records on the disk.

    python benchmarks/scheduler/transports.py --rollouts N --seconds S

Prints one line of JSON. Environments and the model server sleep in processes of their own, so
that what is measured is this one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import load as loads
from sleeping import TOOL, TURNS, Attached

from mintact_platform import config as configuration
from mintact_platform.actions.space import Call
from mintact_platform.models.protocol import WeightsRef
from mintact_platform.records.task import Task
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.plan import Plan, plan
from mintact_platform.scheduler.runtime import running
from mintact_platform.storage.directory import RunDirectory

HERE = Path(__file__).parent
STEP_SECONDS = 5.0
FULL_DEADLINE = 240.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rollouts", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    # environment servers and their workers import `sleeping`
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory(prefix="mintact-benchmark-") as directory:
        seen = asyncio.run(measure(Path(directory), options.rollouts, options.seconds))
    print(json.dumps(seen))


async def measure(path: Path, rollouts: int, seconds: float) -> dict[str, Any]:
    """Run it, wait until it is full, and look at the processor time."""
    model = make_model(path / "model")
    ids = reply(described(model, rollouts, url=""))
    server = subprocess.Popen(
        [sys.executable, str(HERE / "sleeping.py"), "serve", json.dumps(ids)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = (await asyncio.to_thread(server.stdout.readline)).strip()
        return await _measured(described(model, rollouts, url), path / "run", seconds)
    finally:
        server.kill()
        server.wait()


def make_model(path: Path) -> Path:
    """A model directory, of which only the tokenizer is used."""
    command = [sys.executable, "-m", "mintact_platform.cli.main", "torch", "new-model", str(path)]
    subprocess.run([*command, "--align-steps", "0"], check=True, capture_output=True)
    return path


def described(model: Path, rollouts: int, url: str) -> Plan:
    """The plan of a run of as many rollouts at once."""
    section = {
        "environment": "sleeping:Sleeping",
        "params": {"seconds": STEP_SECONDS},
        "tasks": "micro/tools:train",
        "action_space": {"name": "tool_use", "params": {"prompt": "short"}},
        "judge": "environment_return",
        "instances": rollouts // len(loads.DOMAINS),
        "max_turns": TURNS,
    }
    config = configuration.parse(
        {
            "name": "run",
            "model": {"path": str(model)},
            "domains": dict.fromkeys(loads.DOMAINS, section),
            "rollout": {
                "engine": "sleeping:Attached",
                "params": {"url": url},
                "group_size": 8,
                "active": rollouts,
                "max_context": 16384,
            },
            "deadlines": {"create": FULL_DEADLINE},
        }
    )
    return plan(config, Registry.discover())


def reply(described: Plan) -> list[int]:
    """The ids of a valid call."""
    domain = next(iter(described.domains.values()))
    call = Call(TOOL["name"], {"at": "the inbox"})
    text = domain.space.render("I look again.", call)
    return [*described.chat.encode(text), described.chat.end_id]


async def _measured(described: Plan, path: Path, seconds: float) -> dict[str, Any]:
    directory = RunDirectory.create(path, config_toml="", plugins={}, metadata={})
    weights = WeightsRef(Path(described.config.model.path), 0)
    # without a limit of turns of their own
    tasks = {d: [Task(f"{d}-{n}", "read the mail", d) for n in range(200)] for d in loads.DOMAINS}
    try:
        async with running(described, directory, weights, incarnation=1) as runtime:
            player, config = runtime.rollouter, described.config
            async with loads.producing(config, directory, player, tasks) as scheduler:
                return await _watched(player, scheduler, directory, config.rollout.active, seconds)
    finally:
        directory.close()


async def _watched(
    player: Any, scheduler: Any, directory: RunDirectory, active: int, seconds: float
) -> dict[str, Any]:
    async with asyncio.timeout(FULL_DEADLINE):
        while player.running < 0.95 * active:
            await asyncio.sleep(0.1)
    # those who were first have made their first steps
    await asyncio.sleep(2 * STEP_SECONDS)
    load = loads.Load()
    answered = Attached.answered
    before, cpu, start = _recorded(directory), loads.cpu_seconds(), time.monotonic()
    samples = []
    while (now := time.monotonic()) - start < seconds:
        await asyncio.sleep(loads.TICK)
        load.lag.append(1000 * (time.monotonic() - now - loads.TICK))
        samples.append(player.running)
    took = time.monotonic() - start
    share = (loads.cpu_seconds() - cpu) / took
    load.lag.sort()
    return {
        "rollouts": sum(samples) / len(samples),
        "cpu_share": share,
        "trajectories": _recorded(directory) - before,
        "seconds": took,
        "late_ms": [load.late(0.5), load.late(0.99), load.late(1)],
        "steps": Attached.answered - answered,
    }


def _recorded(directory: RunDirectory) -> int:
    return sum(1 for _ in (directory.path / "trajectories").rglob("*.safetensors"))


if __name__ == "__main__":
    main()
