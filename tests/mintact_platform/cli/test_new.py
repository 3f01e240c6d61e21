"""`mintact new`: names, files, refusals, what it says next."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib

import pytest

from mintact_platform.cli.main import main
from mintact_platform.config import load
from mintact_platform.scaffold import writing
from mintact_platform.scaffold.naming import read_name

KINDS = ("environment", "judge", "objective")
LINES = {
    "environment": {"environment.py": 37, "tasks.py": 19},
    "judge": {"judge.py": 16},
    "objective": {"loss.py": 15, "trial.py": 8},
}
EVERY = {"pyproject.toml": 14, "__init__.py": 16, "test_maze.py": 20, "run.toml": 48}


@pytest.fixture
def made(tmp_path, monkeypatch, capsys):
    """Write one in an empty directory; its directory."""
    monkeypatch.chdir(tmp_path)

    def make(kind, name="acme/maze", *words):
        assert main(["new", kind, name, *words]) == 0, capsys.readouterr().err
        return tmp_path / capsys.readouterr().out.splitlines()[0]

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_is_small_and_complete(kind, made):
    directory = made(kind)
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert {"README.md", ".gitignore", *EVERY, *LINES[kind]} == {path.name for path in files}
    for path in files:
        text = path.read_text()
        assert not re.search(r"\$\{?[a-z]", text), f"{path.name} has an unfilled place"
        assert text.endswith("\n")
        width = 120 if path.suffix == ".md" else 100
        assert all(len(line) <= width for line in text.splitlines()), path.name
        limit = {**EVERY, **LINES[kind]}.get(path.name)
        assert limit is None or text.count("\n") <= limit, path.name


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_formatted_and_says_what_it_is(kind, made):
    directory = made(kind, "acme/tic-tac-toe")
    for path in directory.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path.name
    command = [sys.executable, "-m", "ruff"]
    options = {"capture_output": True, "text": True, "cwd": directory}
    select = "--select=E,F,I,UP,B"
    check = [*command, "check", "--isolated", "--line-length=100", select, "."]
    for words in (check, [*command, "format", "--isolated", "--line-length=100", "--check", "."]):
        done = subprocess.run(words, **options)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_the_run_file_is_a_valid_one_that_names_the_plugin(kind, made):
    directory = made(kind)
    config = load(directory / "run.toml")
    (domain,) = config.domains.values()
    used = {
        "environment": domain.environment,
        "judge": domain.judge.name,
        "objective": config.objective.objective and config.objective.objective.name,
    }
    assert used[kind] == "acme/maze"
    assert any(need.startswith("acme-maze") for need in config.required_plugins)


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("acme/maze", ("acme/maze", "acme-maze", "acme_maze", "maze", "Maze")),
        ("maze", ("acme/maze", "acme-maze", "acme_maze", "maze", "Maze")),
        (
            "big-lab/tic_tac.toe",
            (
                "big-lab/tic-tac-toe",
                "big-lab-tic-tac-toe",
                "big_lab_tic_tac_toe",
                "tic_tac_toe",
                "TicTacToe",
            ),
        ),
        ("a1/b2", ("a1/b2", "a1-b2", "a1_b2", "b2", "B2")),
    ],
)
def test_one_word_gives_all_the_names(word, names):
    assert tuple(read_name(word)) == names


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("Acme/Maze", "'Acme' is no name; did you mean 'acme/maze'?"),
        ("acme/maze/two", "'acme/maze' is no name; write it like acme/maze"),
        ("", "'' is no name"),
        ("/maze", "'' is no name"),
        ("acme/", "'' is no name"),
        ("acme/2048", "'2048' is no name"),
        ("acme/ma ze", "'ma ze' is no name"),
        ("acme/maze-", "'maze-' is no name"),
        ("acme/..", "'..' is no name"),
        ("acme/größe", "'größe' is no name"),
        ("acme/lambda", "'lambda' is a word of Python"),
        ("mintact/maze", "the namespace 'mintact' is the platform's own"),
        ("acme/" + "x" * 80, "longer than 60 characters"),
    ],
)
def test_a_name_that_cannot_be_is_one_line(word, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "judge", word]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_existing_directory_is_left_alone(made, capsys):
    directory = made("judge")
    before = {path: path.stat().st_mtime_ns for path in directory.rglob("*")}
    assert main(["new", "objective", "acme/maze"]) == 2
    assert "acme-maze: is there already" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in directory.rglob("*")} == before


def test_it_goes_below_the_directory_asked_for(made, tmp_path):
    directory = made("objective", "acme/maze", "--to", "plugins/mine")
    assert directory == tmp_path / "plugins" / "mine" / "acme-maze"
    assert os.stat(directory).st_mode & 0o777 == 0o755


def test_a_directory_that_cannot_be_written_is_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert main(["new", "judge", "acme/maze", "--to", "file"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_nothing_is_left_when_writing_fails(tmp_path, monkeypatch):
    def fail(template):
        raise OSError("no space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(writing, "_read", fail)
    assert main(["new", "environment", "acme/maze"]) == 2
    assert not list(tmp_path.iterdir())


def test_it_says_what_to_do_next_unless_told_to_be_quiet(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "environment", "acme/maze"]) == 0
    text = capsys.readouterr().out
    for words in ("cd acme-maze", "pip install -e .", "python -m pytest", "mintact plugins"):
        assert words in text
    assert main(["new", "environment", "acme/cave", "--quiet"]) == 0
    assert capsys.readouterr().out == "acme-cave\n"
    assert main(["new", "judge", "acme/well", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["registered"] == "acme/well"
    assert "acme_well/judge.py" in said["files"]


@pytest.mark.parametrize("kind", KINDS)
def test_it_needs_the_core_of_today_until_the_next_breaking_one(kind, made):
    project = tomllib.loads((made(kind) / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == ["mintact-platform>=0.1,<0.2"]
