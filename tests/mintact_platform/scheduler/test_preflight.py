"""The pre-flight names the contract that is broken and why."""

from __future__ import annotations

import pytest

BROKEN = {
    "stand_ins:ForgetsTemperature": ("temperature", "before temperature"),
    "stand_ins:ForgetsPush": ("weight push", "still serves the old ones"),
    "stand_ins:CountsOtherwise": ("image tokens", "prompt tokens"),
}


@pytest.mark.parametrize("engine", BROKEN)
def test_a_broken_engine_is_refused_before_the_first_step(mintact, engine):
    contract, cause = BROKEN[engine]
    output = mintact("train", mintact.run_file(rollout__engine=engine), code=1)
    last = output.strip().splitlines()[-1]
    assert contract in last
    assert cause in last
    assert mintact.rows("select * from steps") == []
    assert mintact.gone()


def test_a_start_that_failed_gives_its_name_back_and_says_what_to_raise(mintact):
    output = mintact("train", mintact.run_file(rollout__max_context=60), code=1)
    assert "rollout.max_context" in output.strip().splitlines()[-1]
    mintact("train", mintact.run_file(trainer__steps=1))
    assert len(mintact.rows("select * from steps")) == 1


def test_a_chat_format_that_rewrites_history_is_refused_before_anything_is_created(mintact):
    path = mintact.run_file(model__chat="stand_ins:ForgetfulChat")
    output = mintact("train", path, code=2)
    assert len(output.strip().splitlines()) == 1
    assert "append-only" in output
    assert not mintact.run.exists()
