"""`mintact judge` on a real recorded run: judged again, audited, and left as it was."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path

import pytest

from mintact_platform.cli.main import main
from mintact_platform.evaluation.audit import SAID
from mintact_platform.records.outcome import Outcome

MINTACT = [sys.executable, "-m", "mintact_platform.cli.main"]

pytestmark = pytest.mark.usefixtures("trial_judges")


@pytest.fixture
def mintact(recorded_run, capsys):
    """`mintact(words)`: exit code, standard output, standard error."""

    def call(*words, code=0):
        assert main([*words[:2], str(recorded_run.path), *words[2:]]) == code
        return capsys.readouterr()

    return call


@pytest.fixture
def judged(mintact):
    """`judged(words)`: the JSON of `judge run`."""

    def call(*words, code=0):
        out = mintact("judge", "run", *words, "--json", "--quiet", code=code).out
        return json.loads(out)

    return call


@pytest.fixture
def audited(mintact):
    """`audited(words)`: the JSON of `judge audit`."""

    def call(*words):
        return json.loads(mintact("judge", "audit", *words, "--json", "--quiet").out)

    return call


# ---- run ----------------------------------------------------------------------------------------


def test_the_summary_says_what_was_judged_and_the_run_stays_as_it_is(
    mintact, recorded_run, originals, lines
):
    before = originals(recorded_run.path)
    printed = mintact("judge", "run", "--judge", "trial_judges:honest")
    assert originals(recorded_run.path) == before
    rows = [line.split() for line in printed.out.splitlines()]
    assert rows[0] == ["domain", "judged", "success", "abstained", "failed", "each", "cost"]
    assert [row[:2] for row in rows[1:4]] == [["mobile", "7"], ["web", "7"], ["all", "14"]]
    assert re.search(r"14 judged now in \d+:\d\d", printed.out)
    assert "cost 0.12" in printed.out
    (file,) = re.findall(r"judgements: (\S+)", printed.out)
    assert Path(file).parent == recorded_run.path / "judgements"
    assert printed.err.endswith("trial_judges:honest: 14/14 2 abstained\n")
    found = lines(recorded_run.path)
    assert {line["id"] for line in found} < set(recorded_run.ids.values())
    by_id = {line["id"]: line for line in found}
    masked = by_id[recorded_run.ids["masked"]]
    assert (masked["outcome"], masked["verdict"]["label"]) == ("judge_failure", "success")
    assert by_id[recorded_run.ids["held-out"]]["evaluation"] == "before"


def test_what_was_judged_is_skipped_unless_asked_again(judged, recorded_run, trial_judges):
    first = judged("--judge", "trial_judges:counted", "--limit", "4")
    assert (first["now"], first["before"]) == (4, 0)
    second = judged("--judge", "trial_judges:counted")
    assert (second["now"], second["before"]) == (10, 4)
    assert second["domains"]["all"]["judged"] == 14
    third = judged("--judge", "trial_judges:counted")
    assert (third["now"], third["before"], third["file"]) == (0, 14, None)
    assert len(trial_judges.read_text().split()) == 14
    again = judged("--judge", "trial_judges:counted", "--again", "--domain", "web")
    assert (again["now"], again["before"]) == (7, 0)
    assert len(trial_judges.read_text().split()) == 21
    assert len(list((recorded_run.path / "judgements").iterdir())) == 3


def test_the_cache_answers_what_was_asked_elsewhere_but_not_when_asked_again(
    judged, recorded_run, trial_judges
):
    choice = '{name="trial_judges:counted",cache=true}'
    judged("--judge", choice)
    shutil.rmtree(recorded_run.path / "judgements")
    assert judged("--judge", choice)["domains"]["all"]["successes"] == 14
    assert len(trial_judges.read_text().split()) == 14
    judged("--judge", choice, "--again")
    assert len(trial_judges.read_text().split()) == 28


def test_what_a_judge_prints_is_not_among_the_results(mintact):
    printed = mintact("judge", "run", "--judge", "trial_judges:chatty", "--json", "--quiet")
    assert json.loads(printed.out)["now"] == 14
    assert printed.err.count("thinking") == 14


def test_other_parameters_are_another_judge(judged):
    judged("--judge", "trial_judges:lenient", "cost=1.5", "--domain", "web")
    same = judged("--judge", '{name="trial_judges:lenient",params={cost=1.5}}', "--domain", "web")
    assert same["now"] == 0
    assert same["domains"]["web"]["cost"] == 10.5
    assert judged("--judge", "trial_judges:lenient", "--domain", "web")["now"] == 7


def test_failed_trajectories_are_asked_again_the_next_time(judged, lines, recorded_run):
    first = judged("--judge", "trial_judges:sometimes")
    failed = first["domains"]["all"]["failed"]
    assert failed
    assert first["reasons"][0]["message"].endswith("OSError: no route")
    assert judged("--judge", "trial_judges:sometimes")["now"] == failed
    line = next(line for line in lines(recorded_run.path) if line["verdict"] is None)
    assert line["failure"]["kind"] == "JudgeError"


@pytest.mark.parametrize("name", ["raises", "hangs", "hangs_in_a_thread", "garbage", "exits"])
def test_a_hostile_judge_gives_rows_reasons_and_exit_code_1(mintact, lines, recorded_run, name):
    choice = f'{{name="trial_judges:{name}",retries=0,concurrency=14}}'
    # who answers has the time that a busy machine needs for it
    deadline = "0.05" if name.startswith("hangs") else "60"
    printed = mintact("judge", "run", "--judge", choice, "--deadline", deadline, code=1)
    assert len(lines(recorded_run.path)) == 14
    assert re.search(r"all +0 +– +0 +14", printed.out)
    assert re.search(r"failed +reason +first\n14 ", printed.out)
    assert printed.err.count("no verdict: ") == 1
    assert "Traceback" not in printed.out + printed.err


def test_every_label_has_its_column(mintact):
    out = mintact("judge", "run", "--judge", "trial_judges:doubtful", "--quiet").out
    assert out.splitlines()[0].split()[2:6] == ["success", "abstained", "environment", "failed"]


def test_masked_trajectories_alone_can_be_judged(judged, recorded_run):
    found = judged("--judge", "state", "--outcomes", "judge_failure")
    assert found["now"] == 2
    assert found["domains"] == {
        "web": {
            "successes": 1, "failures": 1, "abstained": 0, "environment_failures": 0, "failed": 0,
            "seconds": found["domains"]["web"]["seconds"], "cost": None, "judged": 2,
            "success": {"mean": 0.5, "low": pytest.approx(0.0945, abs=1e-4),
                        "high": pytest.approx(0.9055, abs=1e-4)},
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no judge asked for; name one with --judge: "),
        (["--judge", "state", "--judge", "state"], "2 judges asked for"),
        (["--judge", "stat"], "no judge named 'stat'; did you mean 'state'?"),
        (["--judge", "state", "rewrd=score"], "unknown parameter 'rewrd'; did you mean 'reward'?"),
        (["--judge", "state", "reward"], "cannot read 'reward'; write key=value"),
        (["--judge", "{name=3}"], "--judge: name: input should be a valid string"),
        (["--judge", "{nope"], "--judge: cannot read '{nope'"),
        (["--judge", "state", "--domain", "wbe"], "no domain 'wbe'; did you mean 'web'?"),
        (["--judge", "state", "--outcomes", "max_turn"], "did you mean 'max_turns'?"),
        (["--judge", "state", "--outcomes", "timeout"], "no trajectory to judge"),
        (["--judge", "state", "--limit", "0"], "--limit: must be above 0, got 0"),
        (["--judge", "{name='state',cache=true}"], "does not declare its verdicts cacheable"),
        (["--judge", "state", "--labels", "x.csv"], "judge run: --labels belongs to audit"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(mintact, recorded_run, words, message):
    error = mintact("judge", "run", *words, code=2).err
    assert message in error
    assert error.count("\n") == 1
    assert not (recorded_run.path / "judgements").exists()


def test_a_judge_that_cannot_open_is_one_line_and_leaves_no_file(mintact, recorded_run):
    error = mintact("judge", "run", "--judge", "trial_judges:Closed", code=1).err
    assert error.splitlines() == [
        "mintact: judge 'trial_judges:Closed': open failed: OSError: no key in JUDGE_KEY; "
        "nothing was judged"
    ]
    assert not (recorded_run.path / "judgements").exists()


def test_interrupted_it_keeps_what_is_done_and_goes_on(recorded_run, lines, trial_judges):
    command = [*MINTACT, "judge", "run", str(recorded_run.path), "--judge"]
    choice = '{name="trial_judges:stops",concurrency=1}'
    result = subprocess.run([*command, choice], capture_output=True, text=True, timeout=60)
    assert result.returncode == 130
    assert "mintact: interrupted; 3 of 14 judgements are kept; the same command goes on" in (
        result.stderr
    )
    assert len(lines(recorded_run.path)) == 3
    os.truncate(trial_judges, 0)
    result = subprocess.run([*command, choice], capture_output=True, text=True, timeout=60)
    assert "3 of 11 judgements are kept" in result.stderr
    assert len({line["id"] for line in lines(recorded_run.path)}) == 6


def test_a_live_run_can_be_judged_and_judged_on_as_it_grows(live_run, lines, capsys):
    words = ["judge", "run", str(live_run.path), "--judge", "state", "--quiet", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["now"] == 14
    live_run.group("web", 20, ("late", Outcome.COMPLETED, True, None, None))
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["now"] == 1
    assert live_run.ids["late"] in {line["id"] for line in lines(live_run.path)}


# ---- read-only ----------------------------------------------------------------------------------


def test_a_run_on_read_only_media_is_judged_to_a_file_elsewhere(
    recorded_run, unprivileged, tmp_path
):
    whole = (recorded_run.path, *recorded_run.path.rglob("*"))
    for path in whole:
        path.chmod(0o555 if path.is_dir() else 0o444)

    def call(action, *words):
        return subprocess.run(
            [*MINTACT, "judge", action, str(recorded_run.path), "--judge", *words],
            capture_output=True, text=True, timeout=60, **unprivileged,
        )  # fmt: skip

    try:
        refused = call("run", "state")
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == 1
        assert "judgements cannot be written here" in refused.stderr
        assert "--to FILE" in refused.stderr
        to = str(tmp_path / "judged.jsonl")
        judged = call("run", "state", "--to", to)
        assert judged.returncode == 0, judged.stderr
        again = call("run", "state", "--to", to, "--json")
        assert json.loads(again.stdout)["now"] == 0
        audit = call("audit", to, "--json")
        assert json.loads(audit.stdout)["judges"][0]["domains"]["all"]["kappa"] == 1.0
    finally:
        for path in whole:
            path.chmod(0o755)


# ---- audit --------------------------------------------------------------------------------------


def test_the_runs_own_verdicts_are_audited_by_state_checks(audited, recorded_run):
    found = audited()
    assert (found["reference"], found["trajectories"]) == ("state check", 12)
    assert found["without_reference"] == 2
    (judge,) = found["judges"]
    assert judge["judge"] == "recorded (state)"
    assert judge["not_judged"] == 1
    row = judge["domains"]["all"]
    assert row["matrix"] == {
        "success": dict(zip(SAID, (3, 0, 0, 0, 1), strict=True)),
        "failure": dict(zip(SAID, (2, 4, 1, 0, 0), strict=True)),
    }
    assert row["agreement"]["mean"] == pytest.approx(7 / 9)
    assert row["kappa"] == pytest.approx(24 / 42)
    assert row["false_success"]["mean"] == pytest.approx(2 / 6)
    assert row["false_failure"]["mean"] == 0
    for domain in ("mobile", "web"):
        one = judge["domains"][domain]
        assert one["matrix"]["failure"]["success"] == 1
    ids = recorded_run.ids
    listed = {one["id"] for one in found["disagreements"]}
    assert listed == {ids["mobile-fooled"], ids["web-fooled"]}


def test_the_command_beside_a_disagreement_shows_the_trajectory(audited, capsys):
    for one in audited()["disagreements"]:
        assert main(shlex.split(one["show"])[1:]) == 0
        assert one["id"] in capsys.readouterr().out


def test_several_judges_stand_side_by_side(mintact, judged, audited):
    judged("--judge", "trial_judges:lenient")
    judged("--judge", "trial_judges:doubtful")
    found = audited()
    titles = [judge["judge"] for judge in found["judges"]]
    assert titles == ["recorded (state)", "trial_judges:doubtful", "trial_judges:lenient"]
    lenient = found["judges"][2]["domains"]["all"]
    assert lenient["false_success"]["mean"] == 1
    assert lenient["kappa"] == 0
    assert lenient["cost"] == 6
    said = found["disagreements"][0]["said"]
    assert said["trial_judges:lenient"] == "success"
    printed = mintact("judge", "audit").out
    for words in (
        "12 trajectories with a state check (2 have none)",
        "recorded (state) · 1 not judged",
        "state check ↓  judge →",
        "false success: of what failed by the state check",
        "7 disagreements, 7 of them false successes",
        "success by trial_judges:lenient: it [bold]says[/bold] done",
    ):
        assert words in printed


def test_a_judge_without_judgements_is_asked_now_and_kept(audited, recorded_run, lines):
    found = audited("--judge", "trial_judges:honest", "--judge", "recorded", "--domain", "web")
    honest, recorded = found["judges"]
    assert honest["domains"]["web"]["agreement"]["mean"] == 1
    assert recorded["domains"]["web"]["decided"] == 4
    # only those with a state check were worth asking about
    assert len(lines(recorded_run.path)) == 6
    assert audited("--judge", "trial_judges:honest", "--domain", "web")["judges"] == [honest]
    assert len(lines(recorded_run.path)) == 6


def test_a_file_of_judgements_can_be_audited_by_its_name(audited, judged, recorded_run):
    file = Path(judged("--judge", "trial_judges:lenient")["file"])
    by_path = audited("--judge", str(file))["judges"]
    assert audited("--judge", file.name)["judges"] == by_path
    assert [judge["judge"] for judge in by_path] == ["trial_judges:lenient"]


def test_people_fill_in_a_table_and_it_is_the_reference(mintact, audited, recorded_run, tmp_path):
    sample = mintact("judge", "labels", "--domain", "web", "--limit", "3").out
    table = mintact("judge", "labels", "--domain", "web").out
    assert set(sample.splitlines()) < set(table.splitlines())
    rows = list(csv.DictReader(table.splitlines()))
    assert list(rows[0]) == ["trajectory", "label", "domain", "task", "goal"]
    assert rows[0]["goal"] == "order 4"
    labels = tmp_path / "labels.csv"
    with labels.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for row, label in zip_longest(rows, ("success", "failure"), fillvalue=""):
            writer.writerow({**row, "label": label})
    found = audited("--labels", str(labels))
    assert (found["reference"], found["trajectories"]) == ("label", 2)
    assert found["judges"][0]["domains"]["all"]["agreement"]["mean"] == 1


def test_another_judge_can_be_the_reference_and_kappa_does_not_mind_which(audited, judged):
    judged("--judge", "trial_judges:honest")
    one = audited("--judge", "recorded", "--against", "trial_judges:honest")
    other = audited("--judge", "trial_judges:honest", "--against", "recorded")
    assert one["reference"] == "trial_judges:honest"
    first, second = (found["judges"][0]["domains"]["all"] for found in (one, other))
    assert first["kappa"] == pytest.approx(second["kappa"])
    assert first["false_success"]["mean"] > 0
    assert second["false_success"]["mean"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--judge", "missing.jsonl"], "missing.jsonl: cannot be read: No such file"),
        (["--judge", "stat"], "no judge named 'stat'"),
        (["--judge", "state", "--judge", "recorded", "reward=score"], "parameters of which judge?"),
        (["--labels", "missing.csv"], "missing.csv: cannot be read: No such file"),
        (
            ["--labels", "x.csv", "--against", "state"],
            "--labels and --against are both",
        ),
        (["--outcomes", "environment_failure"], "none of 2 trajectories has a verdict of state ch"),
    ],
)
def test_a_mistake_in_an_audit_is_one_line(mintact, words, message):
    error = mintact("judge", "audit", *words, "--quiet", code=2).err
    assert message in error
    assert error.count("\n") == 1


# ---- how it looks -------------------------------------------------------------------------------


def in_terminal(words, columns):
    """What a person sees: standard output and error of a terminal of that width, in order."""
    master, slave = pty.openpty()
    environ = {**os.environ, "COLUMNS": str(columns), "LINES": "50", "TERM": "xterm-256color"}
    process = subprocess.Popen([*MINTACT, *words], stdout=slave, stderr=slave, env=environ)
    os.close(slave)
    seen = b""
    try:
        while chunk := os.read(master, 65536):
            seen += chunk
    except OSError:
        pass  # the far side has closed its end
    os.close(master)
    assert process.wait(timeout=60) == 0, seen.decode()
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode()).replace("\r", "")


@pytest.mark.parametrize("columns", [60, 100])
def test_tables_fit_the_terminal(recorded_run, columns):
    run = ["judge", "run", str(recorded_run.path), "--judge"]
    for name in ("honest", "doubtful"):
        seen = in_terminal([*run, f"trial_judges:{name}"], columns)
        assert "14/14" in seen
        table = re.search(r"(?m)^ *domain .*\n(?:.+\n)+", seen).group().splitlines()
        assert all(len(line.rstrip()) <= columns for line in table)
        headers = ["domain", "judged", "success", "abstained"]
        headers += ["environment", "failed"] if name == "doubtful" else ["failed"]
        assert table[0].split()[: len(headers)] == headers
    seen = in_terminal(["judge", "audit", str(recorded_run.path)], columns)
    for table in re.findall(r"(?m)^ *(?:state check ↓|domain ).*\n(?:.+\n)+", seen):
        assert all(len(line.rstrip()) <= columns for line in table.splitlines())
    assert "\nmintact show " in seen
