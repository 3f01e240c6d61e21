"""The engine's benchmark still runs, and its loads are what they say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "engine"
LOADS = """
import json, workload
episodes = workload.ragged(7, 0, 16)
calls = [episode.call(0) for episode in episodes]
for episode in episodes:
    episode.reply([31, 7, 400])
later = episodes[0].call(1)
group = workload.group(7, 0, shared=True)
print(json.dumps({
    "batch": [len(call.ids) for call in workload.batch(3, 0)],
    "distinct": len({tuple(call.ids) for d in (0, 1) for call in workload.batch(3, d)}),
    "prompts": len({tuple(call.ids) for call in calls}),
    "placeholders": later.ids.count(7),
    "images": len(later.images),
    "group": len({tuple(call.ids) for call in group}),
    "again": workload.batch(2, 5) == workload.batch(2, 5),
}))
"""


def test_loads_share_what_they_should_and_nothing_else():
    command = [sys.executable, "-c", LOADS]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=FOLDER)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        "batch": [200, 200, 200],
        "distinct": 6,
        "prompts": 2,
        "placeholders": 2,
        "images": 2,
        "group": 1,
        "again": True,
    }


@pytest.mark.slow
def test_a_quick_run_measures_every_load(tmp_path):
    written = tmp_path / "figures.json"
    command = [sys.executable, str(FOLDER / "run.py"), "--quick", "--json", str(written)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(written.read_text())
    assert set(figures["costs"]) == {
        "batch 1",
        "batch 4",
        "ragged",
        "30 turns",
        "group",
        "no group",
    }
    shared = figures["costs"]["group"]["embedded"]
    assert shared["computed"] < shared["prompt"] / 7
    assert len(figures["sync_seconds"]) == 10
    assert "Goals" in ended.stdout
