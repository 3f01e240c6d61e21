"""A run on generated websites from start to end: browser, leases, model server, trainer."""

import json
import math

import pytest

SMALL = (
    'model.path="tiny"',
    "domains.web.params={width=320, height=192}",
    'domains.web.action_space={name="web_stand_ins:AnyBrowser", params={prompt="short"}}',
    'domains.web.judge="web_stand_ins:coin"',
    "domains.web.instances=4",
    "domains.web.quota=1",
    "domains.web.max_turns=2",
    "rollout.active=4",
    "rollout.group_size=2",
    "rollout.max_new_tokens=16",
    "rollout.max_context=600",
    "schedule.fallback_after=600",
    "trainer.steps=2",
    "sync.every=1",
)


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_documented_run_trains_on_generated_sites(commands):
    commands("mintact_platform.cli.main", "train", "run.toml", *SMALL)
    steps = commands.rows("select * from steps order by step")
    assert [json.loads(row["realised_json"]) for row in steps] == [{"web": 1}] * 2
    for row in steps:
        assert math.isfinite(json.loads(row["metrics_json"])["train/loss"][""])
    assert [row["version"] for row in commands.rows("select * from pushes where ok")] == [1, 2]
    ledger = commands("mintact_platform.cli.main", "check", "web")
    assert "trained 2" in ledger
    assert "✓" in ledger
