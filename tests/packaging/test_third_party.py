"""A third party's environment, installed from its wheel and used by name through a real lease."""

from __future__ import annotations

import sqlite3
import textwrap
from pathlib import Path

import pytest

SCRIPT = """
import asyncio
from pathlib import Path

from mintact_platform.config import Deadlines
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind

tasks = bind(Registry.discover().get("task_sets", "acme/counter"), {"split": "train"}, where="")()


async def play(lease, task, taps):
    first = await lease.reset(episode=f"{task.id}/{taps}", task=task, seed=task.seed, deadline=30)
    for step in range(taps):
        call = {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [1, 2]}}
        seen = await lease.step(step=step, action=call, deadline=30)
        assert seen.images[0].data != first.images[0].data and not seen.terminated
    end = {"name": "mobile_use", "arguments": {"action": "terminate", "status": "success"}}
    assert (await lease.step(step=taps, action=end, deadline=30)).terminated
    return (await lease.evaluate(deadline=30)).success


async def main():
    pool = PoolSpec("acme/counter", {"shade": 7}, instances=1)
    manager = EnvironmentManager(
        {"mobile": pool}, deadlines=Deadlines(), log_directory=Path("logs"), incarnation=1
    )
    await manager.start()
    try:
        for task in tasks:
            async with manager.acquire("mobile") as lease:
                assert await play(lease, task, task.params["goal"])
                assert not await play(lease, task, task.params["goal"] + 1)
    finally:
        await manager.close()
    print("solved", len(tasks))


asyncio.run(main())
"""


@pytest.mark.runs
def test_an_installed_environment_runs_by_its_name(installed, tmp_path):
    (tmp_path / "play.py").write_text(textwrap.dedent(SCRIPT))
    result = installed.run("python", "play.py", cwd=tmp_path)
    logs = "\n".join(p.read_text()[-2000:] for p in (tmp_path / "logs").rglob("*.log"))
    assert result.stdout.strip() == "solved 3", result.stderr[-3000:] + logs


def test_its_tasks_are_listed_by_the_command(installed, tmp_path):
    result = installed.run("mintact", "tasks", "acme/counter", "--templates", cwd=tmp_path)
    assert result.stdout.split() == ["9", "tap"], result.stderr


def test_the_loss_is_listed_with_what_it_says_of_itself(installed, tmp_path):
    result = installed.run("mintact", "objectives", "acme/cispo", cwd=tmp_path)
    for text in ("objective acme/cispo  (acme-cispo)", "Source: acme.", "bound: float = 5.0"):
        assert text in result.stdout, result.stderr


def test_the_loss_is_at_most_15_lines():
    file = Path(__file__).parents[1] / "third_party/acme_cispo/acme_cispo/loss.py"
    assert file.read_text().count("\n") <= 15


def test_a_wrong_parameter_is_named(installed, tmp_path):
    code = """
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import check
check(Registry.discover().get("environments", "acme/counter"), {"shad": 3}, where="acme/counter")
"""
    result = installed.run("python", "-c", code, cwd=tmp_path)
    assert "unknown parameter 'shad'; did you mean 'shade'?" in result.stderr


def test_the_environment_is_at_most_40_lines():
    file = Path(__file__).parents[1] / "third_party/acme_counter/acme_counter/env.py"
    assert file.read_text().count("\n") <= 40


RUN = """
name = "acme"
model = { path = "tiny" }
[rollout]
active = 8
group_size = 4
max_new_tokens = 6
max_context = 600
[trainer]
steps = 2
lr = 1e-4
[sync]
every = 1
[objective]
objective = "acme/cispo"
[domains.mobile]
environment = "acme/counter"
params = { shade = 30 }
tasks = "acme/counter:train"
action_space = { name = "mobile_use", params = { prompt = "short" } }
judge = "stand_ins:coin"
quota = 1
instances = 4
max_turns = 2
"""


@pytest.mark.runs
def test_a_real_run_trains_on_the_installed_environment_and_loss_by_name(installed, tmp_path):
    (tmp_path / "run.toml").write_text(RUN)
    modules = Path(__file__).parents[1] / "mintact_platform" / "scheduler" / "modules"
    (site,) = installed.folder.glob("lib/python*/site-packages")
    (site / "stand_ins.pth").write_text(f"{modules}\n")
    tiny = installed.run(
        "python", "-m", "mintact_plugin_torch.warmstart.tiny", "--out", "tiny", cwd=tmp_path
    )
    assert tiny.returncode == 0, tiny.stderr
    result = installed.run("mintact", "train", "run.toml", cwd=tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "trained 2" in result.stdout
    with sqlite3.connect(tmp_path / "runs" / "acme" / "run.db") as database:
        rows = database.execute("select provides from plugins where distribution = 'acme-counter'")
        assert "environments:acme/counter" in rows.fetchall()[0][0]
        reported = database.execute("select metrics_json from steps where metrics_json not null")
        assert all("acme_bounded" in metrics for (metrics,) in reported.fetchall())
    database.close()
