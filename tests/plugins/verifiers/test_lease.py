"""The games through leases of a real environment server, with verifiers' stand-in."""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


async def test_the_games_are_played_through_the_environment_server(play_by_lease):
    await play_by_lease(None, HERE / "standin", HERE / "toys")


def test_the_stand_in_has_the_shape_of_the_real_package(tmp_path):
    done = subprocess.run(
        [sys.executable, str(HERE / "shape.py")],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(HERE / "standin")},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((HERE / "shape.json").read_text())
