"""Each kind of failure ends as its typed outcome, masked, never reward 0, and the run finishes."""

from __future__ import annotations

import json

import pytest

from mintact_platform.storage.trajectories import load_arrays

pytestmark = pytest.mark.runs

COUNTING = ("completed", "max_turns", "agent_error")

# fault by domain, and the outcome and phase it must end as
RUNS = (
    {
        "mobile": ("crash", "environment_failure", "step"),
        "desktop": ("hang", "timeout", "step"),
        "tools": ("garbage", "environment_failure", "step"),
    },
    {
        "mobile": ("reset_crash", "environment_failure", "reset"),
        "desktop": ("error", "environment_failure", "step"),
    },
)
OF_DOMAIN = """
select t.* from trajectories t join groups g on g.id = t.group_id where g.domain = ?
"""


@pytest.mark.parametrize("faults", RUNS, ids=lambda f: "-".join(kind for kind, *_ in f.values()))
def test_environments_that_fail_mask_their_rollouts_and_the_run_finishes(
    mintact, ledger_of, faults
):
    injected = {"fault_rate": 0.3, "fault_after": 0, "fault_scope": "reset"}
    params = {f"domains__{d}__params": {"fault": f[0], **injected} for d, f in faults.items()}
    path = mintact.run_file(*faults, deadlines__step=2.0, deadlines__reset=5.0, **params)
    steps = 3
    mintact("train", path)
    while not all(met(mintact, domain, *fault) for domain, fault in faults.items()):
        # faults are drawn: a run that met none of some kind goes on
        steps += 2
        mintact("train", path, "--resume", f"trainer.steps={steps}")
    for domain, (_, outcome, _phase) in faults.items():
        rows = mintact.rows(OF_DOMAIN, domain)
        failed = [row for row in rows if row["outcome"] == outcome]
        masked = [row for row in rows if row["outcome"] not in COUNTING]
        assert all(row["reward"] is None for row in masked)
        assert all(json.loads(row["failure_json"])["message"] for row in failed)
    ledger = ledger_of(mintact("check", "run"))
    assert {row["trained"] for row in ledger.values()} == {steps}
    assert mintact.gone()


def met(mintact, domain, fault, outcome, phase):
    """Whether a fault came; a crash takes others of the same worker along, in whatever phase."""
    sql = f"{OF_DOMAIN} and t.outcome = ? and t.phase = ?"
    return bool(mintact.rows(sql, domain, outcome, phase))


def test_a_judge_that_raises_masks_every_rollout_and_other_domains_go_on(mintact):
    path = mintact.run_file(
        "mobile",
        "desktop",
        domains__desktop__judge="stand_ins:broken_judge",
        schedule__fallback_after=2,
        trainer__steps=2,
    )
    mintact("train", path)
    judged = mintact.rows(
        "select t.* from trajectories t join groups g on g.id = t.group_id "
        "where g.domain = 'desktop' and g.fate != 'cancelled'"
    )
    assert judged
    assert {row["outcome"] for row in judged} == {"judge_failure"}
    assert all(row["reward"] is None and row["phase"] == "judge" for row in judged)
    fates = mintact.rows("select distinct fate from groups where domain = 'desktop'")
    assert {row["fate"] for row in fates} <= {"dropped", "cancelled"}


def test_a_model_server_that_dies_is_restarted_with_its_weights(mintact):
    path = mintact.run_file(rollout__engine="stand_ins:DyingEngine", trainer__steps=3)
    mintact("train", path)
    rows = mintact.rows("select * from trajectories where outcome = 'model_failure'")
    assert rows
    assert all(row["reward"] is None and row["phase"] == "generate" for row in rows)
    assert len(mintact.rows("select * from steps where done_at is not null")) == 3


def test_a_trainer_that_dies_over_a_step_is_replaced_and_takes_it_once(mintact, ledger_of):
    path = mintact.run_file(trainer__name="stand_in_trainers:DyingTrainer", trainer__steps=3)
    output = mintact("train", path)
    assert "restarting" in output
    assert [r["step"] for r in mintact.rows("select step from steps where done_at")] == [1, 2, 3]
    assert ledger_of(mintact("check", "run"))["mobile"]["trained"] == 3


def test_a_trainer_that_dies_between_two_updates_takes_the_step_again_from_its_start(
    mintact, ledger_of, same_as_recomputed
):
    path = mintact.run_file(
        "mobile",
        "desktop",
        trainer__name="stand_in_trainers:DiesBetweenUpdates",
        trainer__updates=2,
    )
    output = mintact("train", path)
    assert "restarting" in output
    ledger = ledger_of(mintact("check", "run"))
    assert [ledger[domain]["trained"] for domain in ("desktop", "mobile")] == [3, 3]
    assert same_as_recomputed(path, 3)


def test_a_push_that_fails_leaves_the_old_version_serving_and_is_retried(mintact):
    path = mintact.run_file(rollout__engine="stand_ins:RefusesOnce", trainer__steps=2)
    output = mintact("train", path)
    told = [line for line in output.splitlines() if "to be retried" in line]
    assert len(told) == 1
    assert "no room for the new weights" in told[0]
    pushes = mintact.rows("select version, ok from pushes order by rowid")
    assert [(row["version"], row["ok"]) for row in pushes] == [(1, 0), (1, 1), (2, 1)]


@pytest.mark.parametrize(
    "mode",
    ["abort_resume", *(pytest.param(m, marks=pytest.mark.slow) for m in ("retract", "in_place"))],
)
def test_pushes_that_do_not_drain_keep_versions_in_order(mintact, ledger_of, mode):
    path = mintact.run_file("mobile", "desktop", sync__mode=mode)
    mintact("train", path)
    rows = mintact.rows("select first_version, last_version, path from trajectories")
    assert all(row["first_version"] <= row["last_version"] for row in rows)
    for row in rows:
        for segment in load_arrays(mintact.run / row["path"]):
            versions = segment.versions[segment.mask].tolist()
            assert versions == sorted(versions)
    assert {row["outcome"] for row in mintact.rows("select outcome from trajectories")} <= {
        *COUNTING,
        "cancelled",
    }
    assert ledger_of(mintact("check", "run"))["mobile"]["trained"] == 3
