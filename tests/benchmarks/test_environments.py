"""The environment benchmark still runs, and its goals say what they mean."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "environments"


@pytest.fixture
def module(monkeypatch):
    """Import a module of the benchmark by its name."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


@pytest.mark.runs
def test_a_quick_run_without_openenv_writes_its_figures(tmp_path):
    written = tmp_path / "figures.json"
    wanted = [option for name in ("in process", "http", "acquire") for option in ("--only", name)]
    command = [sys.executable, str(FOLDER / "run.py"), "--quick", *wanted]
    command += ["--sessions", "1", "3", "--seconds", "0.05", "--json", str(written)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(written.read_text())
    assert set(figures["steps"]["http"]) == {"1 text", "1 image", "3 text", "3 image"}
    assert set(figures["steps"]["in process"]) == {"1 text", "1 image"}
    assert all(seen["steps"] >= 3 for seen in figures["steps"]["http"].values())
    assert "acquire from a warm pool, p99" in figures["life"]
    assert "http: overhead of a step, image, p50" in [goal["what"] for goal in figures["goals"]]
    assert "Goals" in ended.stdout


def test_an_unknown_measure_is_named(tmp_path):
    command = [sys.executable, str(FOLDER / "run.py"), "--only", "nonsense"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert ended.returncode == 1
    assert "nonsense" in ended.stderr


def test_a_ratio_against_openenv_is_the_least_of_all_larger_cells(module):
    figures = module("driving").Figures
    at = {"steps": 1, "p50": 1.0, "client_cpu": 0.01, "server_cpu": 0.01}
    ours = {
        "30 text": figures(rate=900.0, p99=1.0, **at),
        "300 text": figures(rate=2000.0, p99=2.0, **at),
    }
    theirs = {
        "30 text": figures(rate=100.0, p99=9.0, **at),
        "300 text": figures(rate=100.0, p99=90.0, **at),
    }
    reached = module("goals").goals({"stream": ours, "openenv": theirs}, {})
    by_name = {goal.what: goal for goal in reached}
    least = by_name["steps/s over OpenEnv, 30 leases and more, text (the least)"]
    assert (least.measured, least.met) == (9.0, False)
    tail = by_name["p99 at 300 leases over OpenEnv's, text"]
    assert tail.met
    assert by_name["stream: client CPU of a text step (the most)"].met


def test_a_goal_without_figures_is_left_out(module):
    assert module("goals").goals({}, {}) == []


def test_publishing_replaces_only_the_part_between_the_marks(module, tmp_path):
    report = module("report")
    page = tmp_path / "benchmarks.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.publish(page, "new")
    assert page.read_text() == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"
