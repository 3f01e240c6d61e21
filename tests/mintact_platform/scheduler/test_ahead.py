"""With more instances than rollouts may use at once, the next group is reset on the idle ones."""

import pytest

pytestmark = pytest.mark.runs


def test_a_run_with_instances_to_spare_finds_resets_done(mintact):
    run_file = mintact.run_file(
        "mobile", "desktop", rollout__active=4, rollout__retries=0, trainer__steps=2
    )
    mintact("train", run_file)
    rows = mintact.rows("select name, domain, value from metrics where name like 'environment/%'")
    newest = {
        (row["domain"], row["name"].removeprefix("environment/")): row["value"] for row in rows
    }
    assert max(newest[domain, "ahead"] for domain in ("mobile", "desktop")) > 0
    for domain in ("mobile", "desktop"):
        assert newest[domain, "lost"] == 0
        for what in ("acquire", "boot", "reset", "step"):
            assert 0 <= newest[domain, f"{what}_p50"] <= newest[domain, f"{what}_p95"]
    assert "reset ahead" in mintact("show", "run")
