import json
import subprocess
import sys

import pytest

from mintact_platform.errors import StorageError
from mintact_platform.storage import directory as module
from mintact_platform.storage.directory import RunDirectory, run_names
from mintact_platform.storage.ledger import get_meta


def create(path):
    return RunDirectory.create(path, config_toml="", plugins={}, metadata={})


def test_a_new_run_has_everything_in_it(directory):
    assert directory.config_toml == 'name = "tea"\n'
    assert directory.plugins == {"mintact-platform": "0.1.0"}
    assert get_meta(directory.database, "verb") == "train"
    names = {p.name for p in directory.path.iterdir()}
    assert {"config.toml", "plugins.json", "run.db", "run.lock", "images", "logs"} <= names
    assert [p.name for p in directory.path.parent.iterdir()] == ["tea"]


def test_an_existing_run_is_never_overwritten(directory):
    with pytest.raises(StorageError, match=r"exists already; .* go on with it by --resume"):
        create(directory.path)


def test_a_folder_that_is_no_run_is_left_alone(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    with pytest.raises(StorageError, match="something is there that is no run"):
        create(tmp_path / "notes")
    assert (tmp_path / "notes" / "a.txt").read_text() == "mine"


def test_a_creation_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_first_rows", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        create(tmp_path / "runs" / "a")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_missing_run_is_answered_with_the_near_match(directory):
    with pytest.raises(StorageError, match="no such run; did you mean 'tea'"):
        RunDirectory.open(directory.path.parent / "teas")
    assert run_names(directory.path.parent) == ["tea"]


def test_only_one_process_holds_the_lock(directory):
    directory.lock()
    directory.lock()
    code = (
        "import sys; from pathlib import Path\n"
        "from mintact_platform.storage.directory import RunDirectory\n"
        "from mintact_platform.errors import StorageError\n"
        "run = RunDirectory.open(Path(sys.argv[1]))\n"
        "try: run.lock(); print('locked')\n"
        "except StorageError as error: print(error)\n"
    )

    def attempt() -> str:
        command = [sys.executable, "-c", code, str(directory.path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "is being trained by process" in attempt()
    directory.close()
    assert attempt() == "locked\n"


def test_each_start_has_the_next_incarnation(directory):
    assert [directory.begin_incarnation() for _ in range(3)] == [1, 2, 3]
    directory.close()
    again = RunDirectory.open(directory.path, writable=True)
    assert again.begin_incarnation() == 4
    again.close()


def test_a_closed_run_lies_in_one_database_file(directory):
    directory.begin_incarnation()
    directory.close()
    directory.close()
    assert [p.name for p in directory.path.glob("run.db*")] == ["run.db"]


def test_the_last_weight_versions_are_kept(directory):
    for version in (1, 2, 9, 10):
        directory.weights(version).mkdir()
    removed = directory.retain_weights(keep=2)
    assert [p.name for p in removed] == ["1", "2"]
    assert sorted(p.name for p in (directory.path / "weights").iterdir()) == ["10", "9"]
    assert directory.retain_weights(keep=2) == []


def test_plugins_are_written_for_people_too(directory):
    assert json.loads((directory.path / "plugins.json").read_text()) == directory.plugins
