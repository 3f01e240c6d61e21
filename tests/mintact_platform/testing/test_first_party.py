"""What the platform ships passes the kit it asks others to pass."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from mintact_platform.registry.names import Registry
from mintact_platform.testing import (
    check_action_space,
    check_advantage,
    check_environment,
    check_judge,
    check_objective,
)

pytestmark = pytest.mark.runs


def bare(kind):
    """Names without a namespace are the platform's own."""
    return [name for name in Registry.discover().names(kind) if "/" not in name]


chromium = pytest.mark.skipif(
    shutil.which("chromium-headless-shell") is None, reason="needs chromium-headless-shell"
)


@pytest.mark.parametrize(
    "name", ["micro/mobile", "micro/desktop", "micro/tools", "gym/CartPole-v1"]
)
def test_environments(name):
    check_environment(name, params={"screenshot": False} if name.startswith("gym/") else None)


@chromium
def test_an_environment_that_holds_a_browser():
    check_environment("micro/web")


def test_tools_that_are_announced_otherwise():
    check_environment("micro/tools", params={"announce": "both"}, http=False)


@pytest.mark.parametrize("prompt", ["full", "short"])
@pytest.mark.parametrize("name", bare("action_spaces"))
def test_action_spaces(name, prompt):
    check_action_space(name, prompt=prompt)


@pytest.mark.parametrize("grid", [0, 1000])
@pytest.mark.parametrize("name", ["mobile_use", "computer_use", "browser_use"])
def test_action_spaces_of_other_grids(name, grid):
    check_action_space(name, grid=grid)


def test_tool_use_in_its_tolerant_form():
    check_action_space("tool_use", plain_text="answer", unlisted="call")


@pytest.mark.parametrize("params", [{}, {"reward": "score"}])
def test_the_judge_state(params):
    check_judge("state", params=params)


@pytest.mark.parametrize("params", [{}, {"reward": "return", "threshold": 2}])
def test_the_judge_environment_return(params):
    check_judge("environment_return", params=params)


@pytest.mark.parametrize("name", bare("objectives"))
def test_objectives(name):
    check_objective(name)


@pytest.mark.parametrize("name", bare("advantages"))
def test_advantages(name):
    check_advantage(name)


def test_the_kit_imports_nothing_heavy_and_no_test_runner_before_it_is_used():
    code = (
        "import mintact_platform.testing, sys\n"
        "from mintact_platform.testing import ConformanceError, check_judge\n"
        "print(sorted({'torch', 'pytest', 'gymnasium', 'fastapi'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
