"""`mintact new`: each kind is generated, built, installed elsewhere, tested, and trained with."""

from __future__ import annotations

import json
import shlex
import shutil
import sqlite3
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.runs

KINDS = {"environment": "orchid/say", "judge": "orchid/brief", "objective": "orchid/cispo"}
USED = {
    # what only the plugin itself can have left in a run
    "environment": "select count(*) from groups where task like 'orchid/say/%'",
    "judge": "select count(*) from trajectories where verdict_json like '%\"orchid/brief\"%'",
    "objective": "select count(*) from metrics where name like '%clipped%'",
}
SHORT = (
    "trainer.steps=2",
    "evaluation.episodes=0",
    "rollout.active=16",
    "rollout.group_size=4",
    "domains.tools.quota=1",
)


class Plugin(NamedTuple):
    """A generated distribution and the name it registers."""

    folder: Path
    name: str

    @property
    def distribution(self) -> str:
        return self.name.replace("/", "-")


@pytest.fixture(scope="module")
def plugins(own, build, tmp_path_factory) -> dict[str, Plugin]:
    """One of each kind, made by the installed command, in the environment beside it."""
    folder = tmp_path_factory.mktemp("new")
    for kind, name in KINDS.items():
        made = own.run("mintact", "new", kind, name, cwd=folder)
        assert made.returncode == 0, made.stderr
    found = {k: Plugin(folder / n.replace("/", "-"), n) for k, n in KINDS.items()}
    own.install(*build(folder / "wheels", *(plugin.folder for plugin in found.values())))
    return found


@pytest.fixture(scope="module")
def models(own, tmp_path_factory) -> Path:
    """A directory with the tiny policy that the run files name."""
    folder = tmp_path_factory.mktemp("models")
    words = ("-m", "mintact_plugin_torch.warmstart.tiny", "--out", "models/tiny")
    made = own.run("python", *words, cwd=folder, seconds=280)
    assert made.returncode == 0, made.stderr
    return folder / "models"


def test_the_three_are_listed_beside_ours(plugins, own, tmp_path):
    result = own.run("mintact", "plugins", "--json", cwd=tmp_path)
    rows = {row["distribution"]: row for row in json.loads(result.stdout)}
    for kind, plugin in plugins.items():
        row = rows[plugin.distribution]
        assert row["error"] is None
        assert f"{kind}s:{plugin.name}" in row["provides"]


@pytest.mark.parametrize("kind", KINDS)
def test_its_own_tests_pass_where_it_is_installed(kind, plugins, own, tmp_path):
    # away from its source, so that what was installed is what is imported, in workers too
    shutil.copytree(plugins[kind].folder / "tests", tmp_path / "tests")
    words = ("-q", "-p", "no:cacheprovider", "-W", "error::ResourceWarning", "tests")
    result = own.run("python", "-m", "pytest", *words, cwd=tmp_path, seconds=280)
    assert result.returncode == 0, result.stdout[-3000:]
    assert "2 passed" in result.stdout


def test_a_real_run_uses_all_three_by_their_names(plugins, models, own, tmp_path):
    shutil.copy(plugins["environment"].folder / "run.toml", tmp_path)
    (tmp_path / "models").symlink_to(models)
    chosen = ("domains.tools.judge=orchid/brief", "objective.objective=orchid/cispo")
    words = ("train", "run.toml", "name=run", *SHORT, *chosen)
    result = own.run("mintact", *words, cwd=tmp_path, seconds=280)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "trained 2" in result.stdout
    for kind, sql in USED.items():
        assert rows(tmp_path / "runs/run/run.db", sql)[0][0] > 0, kind


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", KINDS)
def test_the_commands_of_its_readme_work_as_they_stand(kind, plugins, own, tmp_path):
    for name in ("README.md", "run.toml"):
        shutil.copy(plugins[kind].folder / name, tmp_path)
    lines = [line for line in (tmp_path / "README.md").read_text().splitlines()
             if line.startswith("mintact ") and not line.startswith("mintact play")]  # fmt: skip
    assert any(line.startswith("mintact train") for line in lines)
    for line in lines:
        result = own.run(*shlex.split(line, comments=True), cwd=tmp_path, seconds=900)
        assert result.returncode == 0, f"{line}\n{result.stderr[-3000:]}"


def rows(path: Path, sql: str) -> list[tuple[int, ...]]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
