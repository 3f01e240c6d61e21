"""What the READMEs of the judges' distributions show can be put into a run file as it stands."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from mintact_platform.config import parse
from mintact_platform.judging.named import judge_named
from mintact_platform.judging.runner import JudgeRunner

REWARDS = Path(__file__).parents[2] / "rewards"


@pytest.mark.parametrize("distribution", ["panel", "vlm"])
def test_every_judge_shown_can_be_made(distribution, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "k")
    text = (REWARDS / distribution / "README.md").read_text()
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    config = parse({"name": "run", **tomllib.loads(block)})
    assert len(config.domains) == 2
    for section in config.domains.values():
        judge = judge_named(section.judge.name, section.judge.params)
        runner = JudgeRunner(judge, name=section.judge.name, deadline=1.0)
        assert runner.cacheable or not section.judge.cache


def test_the_table_of_votes_is_the_tested_one():
    from mintact_reward_panel.votes import MODES, Ballot, decide

    from mintact_platform.records.verdict import Verdict

    labels = {"S": "success", "F": "failure", "E": "environment_failure", "A": "abstain"}

    def verdict(letter):
        return Verdict(labels[letter], reward={"S": 1.0, "F": 0.0}.get(letter))

    rows = re.findall(
        r"^\| ([SFEA, ]+) \| (.*) \|$", (REWARDS / "panel/README.md").read_text(), re.M
    )
    assert len(rows) == 8
    for members, cells in rows:
        for letters in members.split(", "):
            ballots = [Ballot(f"j{k}", verdict(letter)) for k, letter in enumerate(letters)]
            for mode, cell in zip(MODES, cells.split(" | "), strict=True):
                quorum = len(letters) // 2 + 1
                decision = decide(ballots, mode, threshold=0.5, quorum=quorum)
                assert decision.label == labels[cell[0]], (letters, mode)
