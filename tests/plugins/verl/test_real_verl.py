"""Our objectives in the real verl's own loss registry, in an interpreter of its own.

`pytest -m real_verl tests/plugins/verl`; makes a virtual environment and installs from the network.
torch and what else verl shares with this interpreter are reached through a path file; verl and what
only it needs are installed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.real_verl, pytest.mark.timeout(1800)]

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
IGNORED = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".*")
ALONE = ("verl", "tensordict>=0.8,<=0.10,!=0.9.0")
"""Installed without what they require: that names a torch of its own."""
WITH_NEEDS = (
    "ray",
    "hydra-core",
    "codetiming",
    "dill",
    "pandas",
    "cachetools",
    "cloudpickle",
    "orjson",
    "pyvers",
    "psutil",
)
NEEDY = """
from mintact_platform import hookimpl
from mintact_platform.training.objective import objective


@objective(needs={"entropy"})
def needy(batch):
    return -batch.entropy


@hookimpl
def register_objectives():
    return {"acme/needy": needy}
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """An interpreter that has verl, and of ours the core, the algorithms and the plugin."""
    folder = tmp_path_factory.mktemp("verl") / "venv"
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    for words in (("--no-deps", *ALONE), WITH_NEEDS):
        done = _run(python, "-m", "pip", "install", "--quiet", *words)
        if done.returncode != 0:
            pytest.skip(f"pip install verl: {done.stderr.strip().splitlines()[-1]}")
    sources = tmp_path_factory.mktemp("sources")
    projects = [sources / name for name in ("core", "grpo", "verl")]
    shutil.copytree(ROOT / "mintact_platform", projects[0] / "mintact_platform", ignore=IGNORED)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, projects[0] / name)
    shutil.copytree(ROOT / "algorithms" / "grpo", projects[1], ignore=IGNORED)
    shutil.copytree(ROOT / "plugins" / "verl", projects[2], ignore=IGNORED)
    wheel = ("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir")
    done = _run(sys.executable, "-m", *wheel, sources, *projects)
    assert done.returncode == 0, done.stderr[-3000:]
    made = sources.glob("*.whl")
    done = _run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", *made)
    assert done.returncode == 0, done.stderr[-3000:]
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    _third_party(site)
    return python


@pytest.fixture(scope="module")
def seen(python, tmp_path_factory) -> dict:
    """What `in_verl.py` found."""
    imported = _run(python, "-c", "import verl.trainer.ppo.core_algos")
    if imported.returncode != 0:
        pytest.skip(f"import verl: {imported.stderr.strip().splitlines()[-1]}")
    done = _run(python, HERE / "in_verl.py", cwd=tmp_path_factory.mktemp("run"))
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_verl_finds_every_loss_and_advantage_by_its_own_entry_points(seen):
    assert {"mintact_mintact", "mintact_ppo_clip", "mintact_sft"} <= set(seen["losses"])
    assert {"mintact_mintact", "mintact_grpo"} <= set(seen["advantages"])


def test_loss_gradient_and_advantages_agree_with_the_platforms_own(seen):
    assert {"mintact", "mintact clip_high 0.1", "grpo", "gspo", "dapo"} <= set(seen["presets"])
    assert max(seen["presets"].values()) < 1e-6, seen["presets"]


def test_ours_equals_verls_own_dual_clip_loss_in_every_reduction(seen):
    assert len(seen["vanilla"]) == 4
    assert max(seen["vanilla"].values()) < 1e-6, seen["vanilla"]


def test_what_verl_cannot_carry_says_why_when_it_is_used(seen):
    assert seen["refused"].startswith(
        "ConfigurationError: objective 'acme/needy' in verl: it needs entropy"
    )


def test_the_module_may_also_be_named_in_verls_environment_variable(python):
    code = "from verl.trainer.ppo import core_algos as c; print(sorted(c.POLICY_LOSS_REGISTRY))"
    both = {
        "VERL_USE_EXTERNAL_PLUGINS": "none",
        "VERL_USE_EXTERNAL_MODULES": "mintact_plugin_verl.registration",
    }
    for variables, found in ((both, True), ({"VERL_USE_EXTERNAL_PLUGINS": "none"}, False)):
        done = _run(python, "-c", code, env=variables)
        assert done.returncode == 0, done.stderr[-3000:]
        assert ("mintact_mintact" in done.stdout) is found


def _third_party(site: Path) -> None:
    """A plugin with an objective that verl cannot carry."""
    (site / "acme_needy.py").write_text(NEEDY)
    information = site / "acme_needy-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-needy\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[mintact]\nneedy = acme_needy\n")


def _run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=1500,
        **options,
    )
