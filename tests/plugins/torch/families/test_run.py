"""A whole run on a tiny model of a family: pre-flight, rollouts with images, updates, pushes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = Path(__file__).parents[3] / "mintact_platform" / "scheduler" / "modules"

RUN = """
name = "run"
model = {{ path = "{path}", chat = "{chat}" }}
rollout = {{ active = 4, group_size = 2, max_new_tokens = 16, max_context = 2000 }}
schedule = {{ fallback_after = 600 }}
sync = {{ every = 1 }}
trainer = {{ steps = 2, lr = 1e-4, micro_batch_tokens = 16384 }}
objective = {{ length_cap = 64 }}
[domains.mobile]
environment = "micro/mobile"
tasks = "micro/mobile:train"
action_space = {{ name = "stand_ins:AnyMobile", params = {{ prompt = "short" }} }}
judge = "stand_ins:coin"
instances = 2
quota = 1
max_turns = 2
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "chat"), [("qwen2_5_vl", "qwen2.5-vl"), ("smolvlm", "smolvlm")])
def test_a_family_trains_with_images_from_pre_flight_to_the_last_push(
    kind, chat, model_dir, tmp_path
):
    (tmp_path / "run.toml").write_text(RUN.format(path=model_dir(kind), chat=chat))
    done = subprocess.run(
        [sys.executable, "-m", "mintact_platform.cli.main", "train", "run.toml"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(MODULES)},
        capture_output=True,
        text=True,
        timeout=400,
    )
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown
    assert "prefix ✓ · image tokens " in shown
    assert "step 2/2 v2" in shown
    assert "produced" in shown
