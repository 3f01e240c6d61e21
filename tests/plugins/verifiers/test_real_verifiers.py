"""The games with the real package `verifiers`, both generations, in interpreters of their own.

`pytest -m real_verifiers tests/plugins/verifiers`; makes virtual environments and installs from the
network, which takes minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from mintact_platform.config import Deadlines
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.records.task import Task
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind

pytestmark = [pytest.mark.slow, pytest.mark.real_verifiers, pytest.mark.timeout(1800)]

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
IGNORED = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".*")
WORKER_NEEDS = ("gymnasium", "pluggy", "importlib-metadata", "packaging")
TEST_NEEDS = ("pytest", "pytest-asyncio", "pytest-timeout")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> list[Path]:
    """The core and the plugin, built from copies."""
    sources = tmp_path_factory.mktemp("sources")
    core, plugin = sources / "core", sources / "plugin"
    shutil.copytree(ROOT / "mintact_platform", core / "mintact_platform", ignore=IGNORED)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, core / name)
    shutil.copytree(ROOT / "plugins" / "verifiers", plugin, ignore=IGNORED)
    wheel = ("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir")
    done = _run(sys.executable, "-m", *wheel, sources, core, plugin)
    assert done.returncode == 0, done.stderr[-3000:]
    return sorted(sources.glob("*.whl"))


@pytest.fixture(scope="module")
def classic(wheels, tmp_path_factory) -> Path:
    """An interpreter that has the last verifiers with `load_environment`."""
    return _interpreter(tmp_path_factory.mktemp("classic"), wheels, "verifiers<0.4", *TEST_NEEDS)


@pytest.fixture(scope="module")
def newest(wheels, tmp_path_factory) -> Path:
    """An interpreter that has the newest verifiers, and uv, with which it runs agents."""
    return _interpreter(tmp_path_factory.mktemp("newest"), wheels, "verifiers>=0.4", "uv")


@pytest.mark.parametrize(("generation", "shape"), [("classic", "shape"), ("newest", "shape_v1")])
def test_the_real_package_has_the_recorded_shape(generation, shape, request):
    done = _run(request.getfixturevalue(generation), HERE / f"{shape}.py")
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == json.loads((HERE / f"{shape}.json").read_text())


async def test_classic_environments_are_played_through_the_server(classic, play_by_lease):
    await play_by_lease(str(classic), HERE / "toys")


def test_the_other_interpreter_lists_the_tasks(classic, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE / "toys"))
    name = "verifiers/toy-games"
    target = Registry.discover().get("task_sets", name)
    tasks = bind(target, {"split": "train", "python": str(classic)}, where=name)()
    assert [task.goal.splitlines()[-1] for task in tasks] == [
        "Reverse abc.",
        "Reverse stressed.",
        "Reverse desserts.",
    ]


def test_the_rollouts_written_for_the_stand_in_pass_with_the_real_package(classic, tmp_path):
    """The whole of `test_rollouts.py`, with the real package in place of the stand-in."""
    shutil.copy(HERE / "test_rollouts.py", tmp_path)
    toys = f"import sys, pytest\nsys.path.insert(0, {str(HERE / 'toys')!r})\n"
    (tmp_path / "conftest.py").write_text(toys + REAL_FIXTURES)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    done = _run(classic, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path)
    assert done.returncode == 0, done.stdout[-6000:]


async def test_episodes_of_the_newest_release_are_played_through_the_server(
    newest, monkeypatch, tmp_path
):
    monkeypatch.setenv("PYTHONPATH", str(HERE / "chats"))
    monkeypatch.setenv("PATH", f"{newest.parent}{os.pathsep}{os.environ['PATH']}")
    pool = PoolSpec("verifiers/toy-chat", instances=1, python=str(newest))
    # every episode starts a tool server and an agent's program
    deadlines = Deadlines(create=300, reset=300, step=120, evaluate=120)
    manager = EnvironmentManager(
        {"chat": pool}, deadlines=deadlines, log_directory=tmp_path, incarnation=1
    )
    await manager.start()
    try:
        async with manager.acquire("chat") as lease:
            seen = await _begin(lease, 0)
            assert seen.text == "Answer with the word alone.\n\nReverse abc."
            assert (await _say(lease, 0, "cba")).reward == 1.0
            assert (await lease.evaluate(deadline=60)).details["metrics"]["length"] == 3.0
            seen = await _begin(lease, 1)
            (schema,) = seen.tools
            assert schema["function"]["name"] == "shop_price"
            for step, (item, told) in enumerate((("pear", "3"), ("plum", "2"))):
                call = {"name": "shop_price", "arguments": {"item": item}}
                assert (await lease.step(step=step, action=call, deadline=120)).text == told
            last = await _say(lease, 2, "8")
            assert (last.reward, last.terminated) == (1.0, True)
    except BaseException:
        for log in tmp_path.rglob("*.log"):
            print(log, log.read_text()[-2000:], sep="\n")
        raise
    finally:
        await manager.close()


def test_the_newest_release_refuses_a_classic_environment_by_name(newest):
    code = """
import sys
import types
old = types.ModuleType("toy_old")
old.load_environment = print
old.__spec__ = types.__spec__
sys.modules["toy_old"] = old
from mintact_plugin_verifiers.loading import load
load("toy-old", {})
"""
    done = _run(newest, "-c", code)
    assert "pip install 'verifiers<0.4'" in done.stderr


REAL_FIXTURES = """
from mintact_plugin_verifiers.environment import VerifiersEnvironment


@pytest.fixture
def standin():
    pass


@pytest.fixture
def make():
    return lambda kind, **options: VerifiersEnvironment(
        id="toy-games", args={"kind": kind, **options}
    )
"""


async def _begin(lease, row):
    task = Task(f"chat/{row}", "play", "tools", params={"part": "train", "row": row})
    return await lease.reset(episode=f"chat/{row}", task=task, seed=0, deadline=300)


async def _say(lease, step, text):
    call = {"name": "answer", "arguments": {"text": text}}
    return await lease.step(step=step, action=call, deadline=120)


def _interpreter(folder: Path, wheels: list[Path], *packages: str) -> Path:
    """An interpreter with verifiers, and of ours the core and the plugin without their pins."""
    venv.create(folder / "venv", with_pip=True, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    done = _run(python, "-m", "pip", "install", "--quiet", *packages, *WORKER_NEEDS)
    if done.returncode != 0:
        pytest.skip(f"pip install {packages[0]}: {done.stderr.strip().splitlines()[-1]}")
    done = _run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", *wheels)
    assert done.returncode == 0, done.stderr[-3000:]
    return python


def _run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=1500
    )
