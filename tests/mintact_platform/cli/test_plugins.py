"""`mintact plugins` and `mintact doctor`: readable with many plugins, exact about what lacks."""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path

import pytest

from mintact_platform.cli import parts
from mintact_platform.cli.doctor import Check
from mintact_platform.cli.main import main

ROOT = Path(__file__).parents[3]
GOOD = """
from mintact_platform import hookimpl

@hookimpl
def register_judges():
    return {{"{name}": "nowhere:judge"}}
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Write distributions, `name=code`, where this process finds them."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def install(**codes):
        for module, code in codes.items():
            name = module.replace("_", "-")
            (site / f"{module}.py").write_text(code)
            info = site / f"{module}-1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            (info / "entry_points.txt").write_text(f"[mintact]\nmain = {module}\n")
        importlib.invalidate_caches()

    return install


def test_words_choose_by_distribution_or_by_what_is_registered(installed, capsys):
    installed(
        acme_words_one=GOOD.format(name="acme/grid"), acme_words_two=GOOD.format(name="acme/maze")
    )

    def named(*words):
        assert main(["plugins", "--json", *words]) == 0
        return [row["distribution"] for row in json.loads(capsys.readouterr().out)]

    assert named("acme-words") == ["acme-words-one", "acme-words-two"]
    assert named("MAZE") == ["acme-words-two"]
    assert named("acme/grid", "acme/maze") == ["acme-words-one", "acme-words-two"]
    for flags in ([], ["--json"]):
        assert main(["plugins", "acme-wrods-one", *flags]) == 2
        assert "did you mean 'acme-words-one'?" in capsys.readouterr().err


def test_broken_ones_are_listed_alone_with_their_traceback(installed, capsys):
    installed(acme_broken_here="import no_such_module_here")
    assert main(["plugins", "--broken", "--verbose", "acme-broken-here"]) == 0
    captured = capsys.readouterr()
    assert "ModuleNotFoundError: No module named 'no_such_module_here'" in captured.out
    assert "mintact-platform" not in captured.out
    assert "acme_broken_here.py" in captured.err
    assert "with an error (--broken shows them)" in captured.err
    assert "1 shown" in captured.err


def test_a_name_of_two_distributions_is_told_on_both_rows(installed, capsys):
    installed(acme_clash_a=GOOD.format(name="acme/c"), acme_clash_b=GOOD.format(name="acme/c"))
    assert main(["plugins", "acme-clash"]) == 0
    out = capsys.readouterr().out
    assert "judges acme/c is also registered by acme-clash-b" in out
    assert "judges acme/c is also registered by acme-clash-a" in out


def test_a_pipe_gets_lines_that_can_be_read_and_no_name_in_two_pieces(installed, capsys):
    names = [f"acme/number-{number}" for number in range(40)]
    table = ", ".join(f'"{name}": "nowhere:judge"' for name in names)
    installed(acme_long=GOOD.format(name="x").replace('"x": "nowhere:judge"', table))
    assert main(["plugins"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 120
    assert not [line for line in lines if line != line.rstrip()]
    words = {word.rstrip(",") for line in lines for word in line.split()}
    assert words >= set(names)


def test_a_hundred_plugins_take_a_line_each(installed, capsys):
    installed(**{f"acme_many_{n}": GOOD.format(name=f"acme/many-{n}") for n in range(100)})
    assert main(["plugins", "acme-many"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert len(lines) == 101
    assert all(line.startswith("acme-many-") for line in lines[1:])
    assert captured.err.startswith("1")  # so many plugins: so many loaded


def test_the_doctor_knows_every_distribution_of_ours():
    known = {part.folder: part.distribution for part in parts.PARTS}
    projects = [path.parent for path in ROOT.glob("[erap]*/*/pyproject.toml")]
    names = {
        str(project.relative_to(ROOT)): tomllib.loads((project / "pyproject.toml").read_text())[
            "project"
        ]["name"]
        for project in projects
    }
    assert known == names
    assert {program for part in parts.PARTS for program in part.programs} <= set(parts.PROGRAMS)


@pytest.fixture
def doctor(capsys):
    def ask(*words) -> dict[str, Check]:
        assert main(["doctor", "--json", *words]) == 0
        return {c["name"]: Check(**c) for c in json.loads(capsys.readouterr().out)}

    return ask


def test_what_is_missing_comes_with_the_command_that_brings_it(doctor, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("MINTACT_CHROMIUM", raising=False)
    checks = doctor("--missing")
    assert not [check for check in checks.values() if check.found]
    assert all(check.next for check in checks.values())
    assert checks["browser"].next == "apt-get install chromium-headless-shell"
    web = checks["mintact-env-web"]
    assert "without chromium-headless-shell: websites in a real browser" in web.detail
    assert web.next.endswith("apt-get install chromium-headless-shell")


def test_a_program_that_a_variable_names_counts(doctor, monkeypatch, tmp_path):
    browser = tmp_path / "browser"
    browser.write_text("#!/bin/sh\n")
    monkeypatch.setenv("MINTACT_CHROMIUM", str(browser))
    assert not doctor()["browser"].found
    browser.chmod(0o755)
    assert doctor()["browser"].detail == str(browser)


def test_a_distribution_that_is_not_installed_is_offered_from_the_checkout(doctor, monkeypatch):
    part = parts.Part("mintact-env-moon", "envs/micro", "the moon")
    far = parts.Part("mintact-env-mars", "envs/mars", "mars")
    monkeypatch.setattr("mintact_platform.cli.doctor.PARTS", (part, far))
    checks = doctor()
    assert checks["mintact-env-moon"].next == f"pip install -e {ROOT / 'envs/micro'}"
    assert checks["mintact-env-mars"].next == "pip install mintact-env-mars"
    assert checks["mintact-env-mars"].detail == "mars"


def test_a_plugin_that_fails_or_is_left_out_is_told(doctor, installed, monkeypatch):
    installed(acme_ill="import no_such_module", acme_aside=GOOD.format(name="acme/aside"))
    monkeypatch.setenv("MINTACT_DISABLE_PLUGINS", "acme-aside, mintact-reward-state")
    checks = doctor("--missing")
    assert checks["acme-ill"].next == "mintact plugins acme-ill --verbose"
    assert checks["acme-aside"].next == "change MINTACT_DISABLE_PLUGINS"
    assert "left out by MINTACT_DISABLE_PLUGINS" in checks["mintact-reward-state"].detail
