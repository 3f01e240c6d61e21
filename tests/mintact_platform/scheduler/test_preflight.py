"""The pre-flight names the contract that is broken and why."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.runs

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


def test_a_judge_that_cannot_be_reached_is_told_before_the_first_step(mintact):
    choice = {"name": "stand_ins:far_coin", "cache": True, "requests_per_minute": 6000}
    path = mintact.run_file(
        "mobile",
        "desktop",
        domains__mobile__judge=choice,
        domains__desktop__judge="stand_ins:wrong_key",
    )
    last = mintact("train", path, code=1).strip().splitlines()[-1]
    assert "pre-flight: judge 'stand_ins:wrong_key' of domain desktop" in last
    assert "after 1 attempt: HTTP 401: wrong key; see domains.desktop.judge" in last
    assert mintact.rows("select * from steps") == []
    assert len(list((mintact.run / "cache" / "judgements").rglob("*.json"))) == 1
    assert mintact.gone()


def test_a_judge_that_cannot_be_made_or_cached_is_told_before_anything_is_created(mintact):
    ensemble = {"name": "ensemble", "params": {"judges": ["stat"]}}
    assert "did you mean 'state'" in mintact(
        "train", mintact.run_file(domains__mobile__judge=ensemble), code=2
    )
    uncached = {"name": "stand_ins:coin", "cache": True}
    output = mintact("train", mintact.run_file(domains__mobile__judge=uncached), code=2)
    assert "domains.mobile.judge.cache" in output
    assert len(output.strip().splitlines()) == 1
    assert not mintact.run.exists()
