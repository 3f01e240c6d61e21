"""The command line: help that teaches, exit codes, one line for every mistake."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from mintact_platform.cli.main import VERBS, main, parser_of

MINTACT = [sys.executable, "-m", "mintact_platform.cli.main"]


def test_the_overview_lists_every_verb(capsys):
    assert main([]) == main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {verb} " in text for verb in VERBS)


def test_the_version_is_the_distributions(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("mintact 0.")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example_and_the_common_flags(verb, capsys):
    with pytest.raises(SystemExit) as exit:
        main([verb, "--help"])
    assert exit.value.code == 0
    text = capsys.readouterr().out
    assert f"  mintact {verb}" in text.split("examples:")[1]
    assert all(flag in text for flag in ("--runs", "--json", "--quiet", "--verbose"))


@pytest.mark.parametrize("verb", VERBS)
def test_the_examples_of_a_verb_are_understood_by_its_parser(verb):
    module = import_module(f"mintact_platform.cli.{verb}")
    parser = parser_of(verb, module)
    for example in module.EXAMPLES.splitlines():
        words = example.split("   ")[0].split() if "   " in example.strip() else example.split()
        words = " ".join(words).split("|")[0].split(">")[0].split()
        if words[:2] == ["mintact", verb]:
            assert isinstance(parser.parse_intermixed_args(words[2:]), argparse.Namespace)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "unknown verb 'trian'; did you mean 'train'?"),
        (["--josn"], "unknown verb '--josn'"),
        (["train", "missing.toml"], "missing.toml: no such run file"),
        (["check", "missing"], "no run named 'missing'"),
        (["show", "missing"], "no run named 'missing'"),
        (["report", "missing"], "no run named 'missing'"),
        (["tasks", "micro/wbe"], "no task set named 'micro/wbe'; did you mean 'micro/web'?"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("mintact: ")
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "override", "message"),
    [
        ('name = "x"\n[scedule]\n', "seed=1", "unknown key 'scedule'; did you mean 'schedule'?"),
        ('name = "x"\n', "trainer.steps=many", "trainer.steps"),
        ('name = "x"\n', "trainer.stepz=3", "unknown key 'trainer.stepz'; did you mean 'steps'?"),
        ('name = "x"\n', "steps", "cannot read 'steps'"),
        ("name = ", "seed=1", "not valid TOML"),
    ],
)
def test_a_wrong_run_file_or_override_is_one_line(text, override, message, capsys, tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(text)
    assert main(["train", str(file), override, "--runs", str(tmp_path / "runs")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_argparse_mistakes_also_exit_2(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["check"])
    assert exit.value.code == 2
    assert "required" in capsys.readouterr().err


def test_verbose_shows_where_an_error_was_raised(tmp_path):
    command = [*MINTACT, "check", "missing", "--verbose"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "Traceback" in result.stderr
    assert result.returncode == 2


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    command = f"{' '.join(MINTACT)} tasks micro/mobile --split train --json | head -1"
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["domain"] == "mobile"
    assert not result.stderr


@pytest.mark.parametrize(
    ("before", "sent"),
    [
        ("default_int_handler", signal.SIGINT),
        ("default_int_handler", signal.SIGTERM),
        # as `nohup mintact … &` starts it
        ("SIG_IGN", signal.SIGTERM),
    ],
)
def test_an_interrupted_command_exits_130(before, sent, tmp_path):
    code = (
        "import signal, sys\n"
        f"signal.signal(signal.SIGINT, signal.{before})\n"
        "from mintact_platform.cli import main as command\n"
        "def hang(words):\n"
        "    print('ready', flush=True)\n"
        "    signal.pause()\n"
        "command._dispatch = hang\n"
        "sys.exit(command.main(['check', 'x']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, sent)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "mintact: interrupted\n"


def test_the_readme_and_the_manual_name_only_verbs_that_exist():
    root = Path(__file__).parents[3]
    texts = [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").rglob("*.md"),
             root / "docs/quickstart/run.sh"]  # fmt: skip
    known = {*VERBS, "torch", "verl", "VERB", "hello"}
    for path in texts:
        for text in path.read_text().splitlines():
            for word in _commands(text):
                assert word in known, f"{path.name}: mintact {word}"


def test_the_make_targets_that_the_readme_names_exist():
    root = Path(__file__).parents[3]
    targets = {row.split(":")[0] for row in (root / "Makefile").read_text().splitlines()}
    for path in (root / "README.md", root / "CONTRIBUTING.md"):
        words = path.read_text().replace("`", " ").split()
        named = {b for a, b in pairwise(words) if a == "make" and b.isalpha()}
        assert named <= targets, named - targets


def _commands(text: str) -> list[str]:
    """Words after `mintact ` in code: in back quotes, or at the beginning of a line."""
    found = [part.split()[1:2] for part in text.split("`")[1::2] if part.startswith("mintact ")]
    if text.strip().startswith(("mintact ", "$ mintact ")):
        found.append(text.strip().removeprefix("$ ").split()[1:2])
    return [word for words in found for word in words if not word.startswith("-")]
