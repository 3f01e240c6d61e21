"""The games with the real package `verifiers`, in an interpreter of its own.

`pytest -m real_verifiers tests/plugins/verifiers`; makes a virtual environment and installs from the
network, which takes minutes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind

pytestmark = [pytest.mark.slow, pytest.mark.real_verifiers, pytest.mark.timeout(1800)]

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
IGNORED = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".*")
WORKER_NEEDS = ("gymnasium", "pluggy", "importlib-metadata", "packaging")


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> str:
    """An interpreter that has verifiers, and of ours the core and the plugin without their pins."""
    folder = tmp_path_factory.mktemp("verifiers") / "venv"
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    done = _run(python, "-m", "pip", "install", "--quiet", "verifiers", *WORKER_NEEDS)
    if done.returncode != 0:
        pytest.skip(f"pip install verifiers: {done.stderr.strip().splitlines()[-1]}")
    sources = tmp_path_factory.mktemp("sources")
    core, plugin = sources / "core", sources / "plugin"
    shutil.copytree(ROOT / "mintact_platform", core / "mintact_platform", ignore=IGNORED)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, core / name)
    shutil.copytree(ROOT / "plugins" / "verifiers", plugin, ignore=IGNORED)
    wheels = ("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir")
    done = _run(sys.executable, "-m", *wheels, sources, core, plugin)
    assert done.returncode == 0, done.stderr[-3000:]
    made = sources.glob("*.whl")
    done = _run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", *made)
    assert done.returncode == 0, done.stderr[-3000:]
    return str(python)


def test_the_real_package_has_the_recorded_shape(python):
    done = _run(python, HERE / "shape.py")
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == json.loads((HERE / "shape.json").read_text())


async def test_real_environments_are_played_through_the_environment_server(python, play_by_lease):
    await play_by_lease(python, HERE / "toys")


def test_the_other_interpreter_lists_the_tasks(python, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE / "toys"))
    name = "verifiers/toy-games"
    target = Registry.discover().get("task_sets", name)
    tasks = bind(target, {"split": "train", "python": python}, where=name)()
    assert [task.goal.splitlines()[-1] for task in tasks] == [
        "Reverse abc.",
        "Reverse stressed.",
        "Reverse desserts.",
    ]


def test_the_rollouts_written_for_the_stand_in_pass_with_the_real_package(python, tmp_path):
    """The whole of `test_rollouts.py`, with the real package in place of the stand-in."""
    done = _run(
        python, "-m", "pip", "install", "--quiet", "pytest", "pytest-asyncio", "pytest-timeout"
    )
    if done.returncode != 0:
        pytest.skip(f"pip install pytest: {done.stderr.strip().splitlines()[-1]}")
    shutil.copy(HERE / "test_rollouts.py", tmp_path)
    (tmp_path / "conftest.py").write_text(
        f"import sys, pytest\nsys.path.insert(0, {str(HERE / 'toys')!r})\n" + REAL_FIXTURES
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    done = _run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path)
    assert done.returncode == 0, done.stdout[-6000:]


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


def _run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=1500
    )
