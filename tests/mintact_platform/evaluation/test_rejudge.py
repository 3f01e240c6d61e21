"""Judging again: the run stays as it is, nothing judged is lost, hostile judges cost themselves."""

import asyncio
import json
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from mintact_platform.config import JudgePlugin
from mintact_platform.errors import ConfigurationError, JudgeError, PluginError, StorageError
from mintact_platform.evaluation.judgements import (
    JudgeIdentity,
    Judgement,
    JudgementFile,
    by_judge,
    new_file,
    read_folder,
    read_judgements,
    recorded_judgements,
)
from mintact_platform.evaluation.recorded import Recorded, evenly, read_run, select
from mintact_platform.evaluation.rejudge import ready_judge, reasons, rejudge, tally
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.verdict import Verdict
from mintact_platform.registry.names import Registry
from mintact_platform.storage.trajectories import load

pytestmark = pytest.mark.usefixtures("trial_judges")


@pytest.fixture(scope="module")
def registry():
    return Registry.discover()


def ready(name, registry, *, deadline=60.0, retries=0, **params):
    choice = JudgePlugin(name=f"trial_judges:{name}", params=params, retries=retries)
    return ready_judge(choice, registry, deadline=deadline)


async def judged(writer, judge, *, keep=lambda judgement: None, **options):
    run = read_run(writer.path)
    return await rejudge(run, select(run), judge, keep=keep, **options)


# ---- what is chosen -----------------------------------------------------------------------------


def test_what_counts_and_what_only_its_judge_masked_is_chosen(recorded_run):
    run = read_run(recorded_run.path)
    chosen = {one.id for one in select(run)}
    left_out = {name for name, id in recorded_run.ids.items() if id not in chosen}
    assert left_out == {"crashed", "cancelled"}
    assert len(chosen) == 14


def test_domains_and_outcomes_narrow_the_choice(recorded_run):
    run, ids = read_run(recorded_run.path), recorded_run.ids
    assert {one.domain for one in select(run, domains=["web"])} == {"web"}
    masked = select(run, outcomes=["judge_failure"])
    assert {one.id for one in masked} == {ids["masked"], ids["unsure"]}
    crashed = select(run, outcomes=["environment_failure"], domains=["mobile"])
    assert [one.id for one in crashed] == [ids["crashed"]]
    with pytest.raises(ConfigurationError, match="no domain 'wbe'; did you mean 'web'"):
        select(run, domains=["wbe"])
    with pytest.raises(ConfigurationError, match="'judge_failed'; did you mean 'judge_failure'"):
        select(run, outcomes=["judge_failed"])


def test_a_limit_takes_a_sample_evenly_and_a_larger_one_only_adds(recorded_run):
    run = read_run(recorded_run.path)
    chosen = select(run, limit=6)
    assert Counter(one.domain for one in chosen) == {"mobile": 3, "web": 3}
    assert {one.id for one in chosen} < {one.id for one in select(run, limit=9)}
    assert select(run, limit=99) == select(run)


def test_a_sample_comes_from_the_whole_run_and_from_many_tasks():
    run = [
        Recorded(
            id=f"{number:026}",
            domain="web",
            task=f"t{number // 8}",
            outcome=Outcome.COMPLETED,
            verdict=None,
            failure=None,
            path=Path("nowhere"),
        )
        for number in range(800)
    ]
    sample = evenly(run, 80)
    assert sample == evenly(run[::-1], 80)
    assert len({one.task for one in sample}) > 40
    thirds = Counter(3 * int(one.id) // 800 for one in sample)
    assert min(thirds.values()) > 15


# ---- judging ------------------------------------------------------------------------------------


async def test_a_judge_sees_tasks_turns_images_and_state_checks_also_of_masked_ones(
    recorded_run, registry
):
    judgements = await judged(recorded_run, ready("honest", registry))
    by_id = {one.id: one for one in judgements}
    ids = recorded_run.ids
    assert by_id[ids["masked"]].said == "success"
    assert by_id[ids["unsure"]].said == "failure"
    assert by_id[ids["blamed"]].said == "abstain"
    assert by_id[ids["web-fooled"]].said == "failure"
    rows = {row.domain: row for row in tally(judgements)}
    assert set(rows) == {"mobile", "web", "all"}
    assert (rows["all"].successes, rows["all"].failures, rows["all"].abstained) == (5, 7, 2)
    assert rows["all"].cost == pytest.approx(0.12)
    assert rows["all"].success.mean == 5 / 12


@pytest.mark.parametrize("state", ["live_run", "recorded_run"])
async def test_the_run_stays_byte_for_byte_as_it_is(state, request, registry, originals):
    writer = request.getfixturevalue(state)
    before = originals(writer.path)
    for name in ("honest", "greedy", "raises"):
        await judged(writer, ready(name, registry))
    after = originals(writer.path)
    if state == "live_run":
        # the -shm file is shared memory: where readers say that they read
        assert before.pop("run.db-shm") is not None
        assert after.pop("run.db-shm") is not None
    assert after == before


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raises", "RuntimeError: boom"),
        ("hangs", "no answer within 0.05 s"),
        ("hangs_in_a_thread", "no answer within 0.05 s"),
        ("garbage", "returned dict, not a Verdict"),
        ("exits", "SystemExit: 3"),
    ],
)
async def test_a_hostile_judge_gives_typed_rows_of_one_kind(recorded_run, registry, name, reason):
    kept = []
    # who answers has the time that a busy machine needs for it
    late = {"deadline": 0.05} if name.startswith("hangs") else {}
    judge = ready(name, registry, **late)
    judgements = await judged(recorded_run, judge, keep=kept.append, concurrency=14)
    assert len(kept) == len(judgements) == 14
    assert {one.said for one in judgements} == {"failed"}
    assert {(f.phase, f.kind) for f in (one.failure for one in judgements)} == {
        ("judge", "JudgeError")
    }
    (found,) = reasons(judgements)
    assert (found.times, found.first) == (14, min(one.id for one in judgements))
    assert reason in found.message
    (row,) = [row for row in tally(judgements) if row.domain == "all"]
    assert (row.judged, row.failed, row.cost) == (0, 14, None)


async def test_what_one_trajectory_lacks_costs_no_other_its_verdict(recorded_run, registry):
    run = read_run(recorded_run.path)
    good, bad, fooled = (recorded_run.ids[f"web-{name}"] for name in ("good", "bad", "fooled"))
    paths = {one.id: one.path for one in run.trajectories}
    paths[good].unlink()
    paths[bad].write_bytes(paths[bad].read_bytes()[:100])
    paths[fooled].write_bytes(b"")
    (digest,) = load(paths[recorded_run.ids["mobile-good"]]).image_extensions
    run.images.path(digest, "png").unlink()
    judgements = await judged(recorded_run, ready("honest", registry))
    failed = {one.id: one.failure for one in judgements if one.said == "failed"}
    assert {failed[id].kind for id in (good, bad, fooled)} == {"StorageError"}
    assert failed[good].message == "no such trajectory"
    (image_lost,) = failed.keys() - {good, bad, fooled}
    assert failed[image_lost].kind == "JudgeError"
    assert "no image" in failed[image_lost].message
    assert len(judgements) == 14


async def test_a_judge_that_cannot_be_opened_judges_nothing(recorded_run, registry):
    kept = []
    with pytest.raises(JudgeError, match=r"no key in JUDGE_KEY; nothing was judged"):
        await judged(recorded_run, ready("Closed", registry), keep=kept.append)
    assert not kept


async def test_no_more_are_judged_at_a_time_than_allowed(recorded_run, registry):
    judge = ready("slow", registry, seconds=0.01)
    running = []

    class Watched:
        async def judge(self, task, view):
            running.append(view.trajectory.id)
            assert len(running) <= 3
            await asyncio.sleep(0)
            running.remove(view.trajectory.id)
            return Verdict("failure", reward=0.0)

    judge.runner._target = Watched()
    judgements = await judged(recorded_run, judge, concurrency=3)
    assert {one.said for one in judgements} == {"failure"}


async def test_cancelling_keeps_what_was_judged_and_leaves_no_task(
    recorded_run, registry, tmp_path
):
    file = JudgementFile(tmp_path / "some.jsonl")
    enough, seen = asyncio.Event(), []

    def watch(judgement):
        seen.append(judgement.id)
        if len(seen) == 3:
            enough.set()

    class Three:
        async def judge(self, task, view):
            if enough.is_set():
                await asyncio.Event().wait()
            return Verdict("success", reward=1.0)

    judge = ready("lenient", registry)
    judge.runner._target = Three()
    working = asyncio.create_task(
        judged(recorded_run, judge, keep=file.append, watch=watch, concurrency=1)
    )
    await enough.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    file.close()
    assert [one.id for one in read_judgements(file.path)] == seen
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_full_disk_ends_the_judging_with_one_line(recorded_run, registry):
    def full(judgement):
        raise StorageError("cannot be written: No space left on device", where="x.jsonl")

    with pytest.raises(StorageError, match="No space left"):
        await judged(recorded_run, ready("lenient", registry), keep=full)


# ---- who judged ---------------------------------------------------------------------------------


def test_parameters_version_and_source_tell_judges_apart(registry, tmp_path, monkeypatch):
    plain = ready("lenient", registry).identity
    assert ready("lenient", registry).identity.key == plain.key
    assert ready("lenient", registry, cost=1.0).identity.key != plain.key
    assert str(ready("lenient", registry, cost=1.0).identity) == "trial_judges:lenient cost=1.0"
    state = ready_judge(JudgePlugin(name="state"), registry, deadline=1.0).identity
    assert (state.distribution, state.version) == ("mintact-reward-state", "0.1.0")
    monkeypatch.syspath_prepend(tmp_path)
    keys = set()
    for body in ("None", "1"):
        module = tmp_path / "edited.py"
        module.write_text(f"def say(task, trajectory):\n    return {body}\n")
        choice = JudgePlugin(name="edited:say")
        keys.add(ready_judge(choice, registry, deadline=1.0).identity.key)
    assert len(keys) == 2


def test_wrong_names_and_parameters_are_one_line(registry):
    with pytest.raises(PluginError, match="no judge named 'stat'; did you mean 'state'"):
        ready_judge(JudgePlugin(name="stat"), registry, deadline=1.0)
    with pytest.raises(ConfigurationError, match="unknown parameter 'prize'; known: cost"):
        ready("lenient", registry, prize=1)
    with pytest.raises(ValueError, match="cost is no finite number"):
        ready("lenient", registry, cost=float("nan"))
    with pytest.raises(ConfigurationError, match="parameters must be JSON values"):
        ready("dated", registry, since=date(2026, 1, 1))


# ---- the files ----------------------------------------------------------------------------------

JUDGE = JudgeIdentity("acme/strict", {"threshold": 0.5}, "acme", "1.0", "abc")


def judgement(id="01A", verdict=None, failure=None, at=1.0, judge=JUDGE):
    return Judgement(id, "web", "web-1", "completed", judge, verdict, failure, at)


YES = Verdict("success", reward=1.0, turn_rewards=(1.0,), reason="läuft 🙂 \ud800")
LATE = Failure("judge", "JudgeError", "late")


def test_a_line_holds_all_of_a_judgement(tmp_path):
    file = JudgementFile(tmp_path / "judgements" / "a.jsonl")
    written = [judgement(verdict=YES), judgement("01B", failure=LATE)]
    for one in written:
        file.append(one)
    file.close()
    file.close()
    first, second = read_judgements(file.path)
    assert first.verdict.turn_rewards == (1.0,)
    assert first.verdict.reason.startswith("läuft 🙂")
    assert second == written[1]
    assert set(json.loads(file.path.read_text().splitlines()[0])) == {
        "id", "domain", "task", "outcome", "evaluation", "judge", "params", "distribution",
        "version", "source", "verdict", "failure", "at",
    }  # fmt: skip
    with pytest.raises(StorageError, match="is closed"):
        file.append(written[0])


def test_a_file_that_got_nothing_leaves_nothing(tmp_path):
    path = tmp_path / "judgements" / "a.jsonl"
    JudgementFile(path).close()
    assert not path.parent.exists()


def test_a_line_cut_by_a_kill_is_left_out_and_the_file_goes_on(tmp_path):
    path = tmp_path / "a.jsonl"
    file = JudgementFile(path)
    file.append(judgement(verdict=YES))
    file.close()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    assert [one.id for one in read_judgements(path)] == ["01A"]
    file = JudgementFile(path)
    file.append(judgement("01B", failure=LATE))
    file.close()
    assert [one.id for one in read_judgements(path)] == ["01A", "01B"]


@pytest.mark.parametrize("text", ["{}", "[1]", "not json", '{"id": 1}', "null"])
def test_a_foreign_line_is_named_with_its_number(tmp_path, text):
    path = tmp_path / "a.jsonl"
    path.write_text(f"\n{text}\n")
    with pytest.raises(ConfigurationError, match=r"a\.jsonl: line 2 is no judgement") as caught:
        read_judgements(path)
    assert "\n" not in str(caught.value)


def test_a_place_that_cannot_be_written_is_told_before_anything_is_judged(tmp_path):
    (tmp_path / "judgements").write_text("a file")
    with pytest.raises(StorageError, match=r"cannot be written here: .*--to FILE"):
        JudgementFile(tmp_path / "judgements" / "a.jsonl")


def test_files_are_named_by_judge_and_time_and_never_twice(tmp_path):
    path = new_file(tmp_path, "acme/strict judge", 0.0)
    assert path == tmp_path / "judgements" / "acme-strict-judge-19700101T000000Z.jsonl"
    path.parent.mkdir()
    path.touch()
    assert new_file(tmp_path, "acme/strict judge", 0.0).stem.endswith("Z-2")
    assert new_file(tmp_path, "../..", 0.0).parent == path.parent


def test_the_newest_verdict_holds_and_no_failure_undoes_one():
    other = JudgeIdentity("acme/strict", {"threshold": 0.6}, "acme", "1.0", "abc")
    no = Verdict("failure", reward=0.0)
    found = by_judge(
        [
            judgement(verdict=no, at=2.0),
            judgement(verdict=YES, at=1.0),
            judgement(failure=LATE, at=3.0),
            judgement("01B", failure=LATE),
            judgement(verdict=YES, judge=other),
        ]
    )
    assert set(found) == {JUDGE.key, other.key}
    assert found[JUDGE.key]["01A"].verdict == no
    assert found[JUDGE.key]["01B"].said == "failed"


def test_what_the_runs_own_judges_said_is_read_the_same_way(recorded_run):
    run = read_run(recorded_run.path)
    found = {one.id: one.said for one in recorded_judgements(run.trajectories)}
    said = {name: found.get(id) for name, id in recorded_run.ids.items()}
    assert said["masked"] == "failed"
    assert said["unsure"] == "abstain"
    assert said["blamed"] == "environment_failure"
    assert said["held-out-failed"] == "failed"
    assert said["web-fooled"] == "success"
    assert said["unjudged"] is said["crashed"] is said["cancelled"] is None
    assert not read_folder(recorded_run.path)
