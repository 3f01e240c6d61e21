"""What judges are compared with: state checks, and the labels of people."""

import pytest

from mintact_platform.errors import ConfigurationError
from mintact_platform.evaluation.recorded import read_run
from mintact_platform.evaluation.truth import read_labels, state_truth

KNOWN = ("01HF7ZC24F0000000000000001", "01HF7ZC24G0000000000000002", "01JAB00000000000000000000X")
A, B, C = KNOWN


@pytest.fixture
def labels(tmp_path):
    def read(text, encoding="utf-8"):
        path = tmp_path / "labels.csv"
        path.write_bytes(text.encode(encoding))
        return read_labels(path, KNOWN)

    return read


def test_two_columns_are_enough_and_others_are_left_alone(labels):
    assert labels(f"trajectory,label\n{A},success\n{B},failure\n") == {A: "success", B: "failure"}
    text = f'Label , note,Trajectory\r\nSUCCESS,"two\nlines",{A.lower()}\r\n'
    assert labels(text, "utf-8-sig") == {A: "success"}


def test_what_nobody_has_labelled_yet_is_left_out(labels):
    assert labels(f"trajectory,label\n{A},\n\n,\n{B},failure\n") == {B: "failure"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"trajectory,label\n{A},sucess\n",
            "labels.csv:2: unknown label 'sucess'; did you mean 'succ",
        ),
        (f"trajectory,label\n{A},maybe\n", "unknown label 'maybe'; known: failure, success"),
        (f"trajectory,label\n{A},success\n{A},failure\n", "csv:3: trajectory 01HF7ZC24F0000000000"),
        (f"trajectory,label\n{A},\n{A},failure\n", "is labelled in line 2 already"),
        (f"trajectory,label\n{A[:-1]}7,success\n", f"csv:2: no trajectory .* did you mean '{A}'"),
        (f"trajectory,label\n{C[:6]},success\n", f"no trajectory '01JAB0' .* did you mean '{C}'"),
        ("trajectory,label\nzzz,success\n", "no trajectory 'ZZZ' in the run; mintact judge labels"),
        ("trajectory,label\n", "holds no label"),
        ("", "needs one column 'trajectory', has none; begin with the line: trajectory,label"),
        (f"trajectory;label\n{A};success\n", "needs one column 'trajectory', has trajectory;label"),
        (f"trajectory,verdict\n{A},success\n", "needs one column 'label', has trajectory, verdict"),
        (f"trajectory,label,label\n{A},success,failure\n", "needs one column 'label'"),
        (f'trajectory,label\n"{A},success\n', "is no CSV file in UTF-8"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(labels, text, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        labels(text)
    assert "\n" not in str(caught.value)


def test_another_encoding_and_a_missing_file_are_told(labels, tmp_path):
    with pytest.raises(ConfigurationError, match="is no CSV file in UTF-8"):
        labels("trajectory,label\nzürich,success\n", "latin-1")
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_labels(tmp_path / "missing.csv", KNOWN)


def test_state_checks_are_read_from_the_trajectories(recorded_run):
    run = read_run(recorded_run.path)
    truth = state_truth(run.trajectories)
    assert len(truth) == 12
    assert truth[recorded_run.ids["web-fooled"]] == "failure"
    assert truth[recorded_run.ids["masked"]] == "success"
    assert recorded_run.ids["blamed"] not in truth


def test_a_trajectory_whose_file_is_gone_has_no_state_check(recorded_run):
    run = read_run(recorded_run.path)
    run.trajectories[0].path.unlink()
    assert run.trajectories[0].id not in state_truth(run.trajectories)
