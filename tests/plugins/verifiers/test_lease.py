"""The games through leases of a real environment server, with verifiers' stand-in."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


async def test_the_games_are_played_through_the_environment_server(play_by_lease):
    await play_by_lease(None, HERE / "standin", HERE / "toys")


@pytest.mark.parametrize(("shape", "folder"), [("shape", "standin"), ("shape_v1", "standin_v1")])
def test_the_stand_ins_have_the_shape_of_the_real_package(shape, folder):
    done = subprocess.run(
        [sys.executable, str(HERE / f"{shape}.py")],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(HERE / folder)},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((HERE / f"{shape}.json").read_text())
