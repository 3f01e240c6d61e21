"""The browser benchmark still runs, and clicks what it says it clicks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mintact_env_web.browser.launch import find_chromium

FOLDER = Path(__file__).parents[2] / "benchmarks" / "web"


@pytest.mark.runs
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_a_quick_run_writes_figures_goals_and_memory(tmp_path):
    written = tmp_path / "figures.json"
    command = [sys.executable, str(FOLDER / "run.py"), "--quick", "--pages", "1", "2"]
    command += ["--seconds", "0.1", "--skip", "playwright, jpeg", "--json", str(written)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(written.read_text())
    assert set(figures["steps"]) == {
        "WebEnvironment",
        "plain loop, CDP JPEG",
        "plain loop, Playwright's PNG",
    }
    for cells in figures["steps"].values():
        assert {number: cell["steps"] >= 3 for number, cell in cells.items()} == {
            "1": True,
            "2": True,
        }
    assert all(of["1"] > 10 for of in figures["memory"].values())
    assert len(figures["goals"]) == 4
    assert "Goals" in ended.stdout


def test_an_unknown_contestant_is_named(tmp_path):
    command = [sys.executable, str(FOLDER / "run.py"), "--skip", "nonsense"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert ended.returncode == 1
    assert "nonsense" in ended.stderr
