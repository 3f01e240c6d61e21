"""Reading run.db: live, finished, killed, and where nothing can be written."""

import shutil
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from mintact_platform.errors import DatabaseVersion, StorageError
from mintact_platform.storage.connections import read_once
from mintact_platform.storage.database import Database
from mintact_platform.storage.ledger import set_meta

COUNT = "SELECT count(*) AS n FROM meta"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.db"


@pytest.fixture
def database(path):
    made = Database(path, writable=True)
    yield made
    made.close()


def files(path):
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def count(path):
    ((row,),) = read_once(path, COUNT)
    return row["n"]


def test_a_live_database_is_read_as_of_its_last_commit(database, path):
    for n in range(5):
        database.submit(set_meta(str(n), "x")).result()
        assert count(path) == n + 2
    assert (path.parent / "run.db-wal").stat().st_size


def test_a_finished_one_is_read_without_leaving_a_file(database, path):
    database.close()
    before = files(path)
    assert set(before) == {"run.db"}
    assert count(path) == 1
    assert files(path) == before


def test_empty_files_that_an_earlier_reader_left_do_not_matter(database, path):
    database.close()
    Database(path).close()
    before = files(path)
    assert count(path) == 1
    assert files(path) == before


def test_all_queries_see_one_instant_while_commits_go_on(database, path):
    stop = threading.Event()

    def write():
        n = 0
        while not stop.is_set():
            database.submit(set_meta(f"a{n}", "x"), set_meta(f"b{n}", "x")).result()
            n += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            ((a,),), ((b,),) = read_once(
                path,
                "SELECT count(*) FROM meta WHERE key LIKE 'a%'",
                "SELECT count(*) FROM meta WHERE key LIKE 'b%'",
            )
            assert a == b
    finally:
        stop.set()
        writer.join()


WRITE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from mintact_platform.storage.database import Database
from mintact_platform.storage.ledger import set_meta
database = Database(Path(sys.argv[1]), writable=True)
for n in range(3):
    database.submit(set_meta(str(n), "x")).result()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(path):
    """A database whose writer was killed: commits wait in the -wal."""
    result = subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(path)], timeout=60)
    assert result.returncode == -signal.SIGKILL
    return path


def test_a_killed_writers_commits_are_all_there(killed):
    before = files(killed)
    assert count(killed) == 4
    assert files(killed)["run.db"] == before["run.db"]
    assert files(killed)["run.db-wal"] == before["run.db-wal"]
    (killed.parent / "run.db-shm").unlink()
    assert count(killed) == 4


READ = """
import sys
from pathlib import Path
from mintact_platform.storage.connections import read_once
from mintact_platform.storage.database import Database
path = Path(sys.argv[1])
((row,),) = read_once(path, "SELECT count(*) FROM meta")
reader = Database(path)
print(row[0], reader.read("SELECT count(*) FROM meta")[0][0])
reader.close()
"""


@pytest.fixture
def sealed(unprivileged, tmp_path_factory):
    """`sealed(folder)`: what a child reads of a copy that it cannot write."""

    def read(folder, *left_out):
        copy = tmp_path_factory.mktemp("sealed") / "run"
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(*left_out))
        for file in copy.iterdir():
            file.chmod(0o444)
        copy.chmod(0o555)
        before = files(copy / "run.db")
        command = [sys.executable, "-c", READ, str(copy / "run.db")]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, **unprivileged)
        assert files(copy / "run.db") == before
        copy.chmod(0o755)
        return result.stdout.split() or result.stderr

    return read


def test_a_finished_run_on_read_only_media_is_read(database, path, sealed):
    database.submit(set_meta("a", "1")).result()
    database.close()
    assert sealed(path.parent) == ["2", "2"]


@pytest.mark.parametrize("left_out", [(), ("*-shm",)])
def test_a_killed_run_on_read_only_media_is_read_with_its_last_commits(killed, sealed, left_out):
    assert sealed(killed.parent, *left_out) == ["4", "4"]


def test_wrong_files_are_refused_by_the_reader_too(database, path, tmp_path):
    with pytest.raises(StorageError, match="no such database"):
        read_once(tmp_path / "missing.db", COUNT)
    (tmp_path / "text.db").write_bytes(b"certainly no database" * 100)
    with pytest.raises(StorageError, match="cannot be opened as a run's database"):
        read_once(tmp_path / "text.db", COUNT)
    database.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(DatabaseVersion, match="newer"):
        read_once(path, COUNT)
