"""`mintact simulate`: files, overrides, sweeps, pictures, and a run that stands still."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from mintact_platform.cli.main import main

FILE = """
steps = 12
trainer.seconds = 150
[domains.web]
quota = 8
seconds = 60
informative = 0.6
producers = 16
[domains.phone]
quota = 8
seconds = 300
producers = 16
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "assumptions.toml"
    path.write_text(FILE)
    return str(path)


def test_it_says_pace_idle_time_waste_and_what_binds(file, capsys):
    assert main(["simulate", file, "schedule.fallback_after=9999"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^\d+\.\d steps an hour; \d+ % of the \d+\.\d that phone can sustain", text)
    assert re.search(r"trainer idle \d+\.\d %, wasted 0\.0 % of accepted groups", text)
    assert re.search(r"^web +8 +\d+ % ", text, re.M)
    assert all(len(line) <= 100 for line in text.splitlines())


def test_a_sweep_is_a_table_of_every_combination(file, capsys):
    sweep = ["--sweep", "domains.phone.producers=16,32", "--sweep", "schedule.flow_control=none"]
    assert main(["simulate", file, "steps=6", *sweep, "--seeds", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["producers", "flow_control", "steps/h"]
    assert [line.split()[0] for line in lines[1:]] == ["16", "32"]
    assert all(len(line.rstrip()) <= 80 for line in lines)


def test_results_as_json_name_every_seed(file, capsys):
    assert main(["simulate", file, "steps=6", "--seeds", "2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (case,) = answer["cases"]
    assert [result["steps"] for result in case["results"]] == [6, 6]
    assert case["results"][0]["domains"]["web"]["stale_share"] == 0.0
    assert answer["assumptions"]["domains"]["web"]["quota"] == 8


def test_a_picture_is_one_svg_with_three_charts(file, tmp_path, capsys):
    path = tmp_path / "run.svg"
    assert main(["simulate", file, "--picture", str(path)]) == 0
    root = ElementTree.parse(path).getroot()
    charts = [child for child in root if child.tag.endswith("}svg")]
    assert len(charts) == 3
    assert str(path) in capsys.readouterr().out


def test_a_run_that_stands_still_is_told_and_is_exit_code_1(file, capsys):
    words = ["domains.phone.informative=0.0", "release_on_fallback=false", "schedule.mixture=fixed"]
    assert main(["simulate", file, *words]) == 1
    assert "stood still after step" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one file of assumptions, or --from RUN"),
        (["FILE", "--sweep", "steps"], "cannot read 'steps'"),
        (["FILE", "--seeds", "0"], "0 seeds are too few"),
        (["FILE", "--picture", "a.svg", "--sweep", "steps=1,2"], "a picture shows one setting"),
        (["FILE", "schedule.flow_control=nobody"], "no flow control named 'nobody'"),
        (["FILE", "--from", "x"], "give one of them"),
        (["--from", "missing"], "no run named 'missing'"),
        (["FILE", "domains.web.quotas=1"], "did you mean 'quota'?"),
    ],
)
def test_a_mistake_is_one_line(file, words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", *[file if word == "FILE" else word for word in words]]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
