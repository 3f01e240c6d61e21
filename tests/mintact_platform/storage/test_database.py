import asyncio
import sqlite3
import threading

import pytest

from mintact_platform import __version__
from mintact_platform.errors import DatabaseVersion, StorageError
from mintact_platform.storage.database import Database
from mintact_platform.storage.ledger import get_meta, set_meta


@pytest.fixture
def database(tmp_path):
    made = Database(tmp_path / "run.db", writable=True)
    yield made
    made.close()


def refuse(connection):
    raise ValueError("refused")


async def test_a_write_is_committed_when_it_returns(database, tmp_path):
    await database.write(set_meta("a", "1"), set_meta("b", "2"))
    other = Database(tmp_path / "run.db")
    assert (get_meta(other, "a"), get_meta(other, "b")) == ("1", "2")
    other.close()


async def test_a_refused_operation_undoes_its_own_write_only(database):
    results = await asyncio.gather(
        database.write(set_meta("before", "1")),
        database.write(set_meta("same write", "1"), refuse),
        database.write(set_meta("after", "1")),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), ValueError, type(None)]
    assert get_meta(database, "before") == get_meta(database, "after") == "1"
    assert get_meta(database, "same write") is None


async def test_a_broken_constraint_is_a_storage_error(database):
    with pytest.raises(StorageError, match="cannot write"):
        await database.write(lambda c: c.execute("INSERT INTO meta VALUES (NULL, NULL)"))


async def test_writes_waiting_together_are_one_commit(database):
    gate, transactions = threading.Event(), set()

    def note(connection):
        gate.wait()
        transactions.add(connection.execute("SELECT count(*) FROM meta").fetchone()[0])

    futures = [database.submit(note) for _ in range(50)]
    seen_early = database.read("SELECT count(*) FROM meta")
    gate.set()
    await asyncio.gather(*map(asyncio.wrap_future, futures))
    assert len(transactions) == 1
    assert seen_early[0][0] == 1


async def test_a_cancelled_caller_does_not_undo_its_write(database):
    gate = threading.Event()
    database.submit(lambda connection: gate.wait() and None)
    writing = asyncio.create_task(database.write(set_meta("kept", "yes")))
    await asyncio.sleep(0)
    writing.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await database.write()
    assert get_meta(database, "kept") == "yes"


async def test_close_finishes_what_was_asked_for(tmp_path):
    database = Database(tmp_path / "run.db", writable=True)
    futures = [database.submit(set_meta(str(n), "x")) for n in range(200)]
    database.close()
    assert all(future.result() is None for future in futures)
    reader = Database(tmp_path / "run.db")
    assert reader.read("SELECT count(*) AS n FROM meta")[0]["n"] == 201
    reader.close()
    with pytest.raises(StorageError, match="the database is closed"):
        await database.write(set_meta("late", "x"))


async def test_a_reader_cannot_write(database, tmp_path):
    reader = Database(tmp_path / "run.db")
    with pytest.raises(StorageError, match="open for reading only"):
        await reader.write(set_meta("a", "1"))
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.read("DELETE FROM meta")
    reader.close()


async def test_a_snapshot_stays_while_writes_go_on(database):
    with database.snapshot():
        before = get_meta(database, "a")
        await database.write(set_meta("a", "1"))
        assert get_meta(database, "a") == before is None
    assert get_meta(database, "a") == "1"


async def test_threads_read_while_writes_go_on(database):
    def read() -> int:
        return max(len(database.read("SELECT * FROM meta")) for _ in range(50))

    readers = [asyncio.create_task(asyncio.to_thread(read)) for _ in range(4)]
    for n in range(50):
        await database.write(set_meta(str(n), "x"))
    assert max(await asyncio.gather(*readers)) <= 51


@pytest.mark.parametrize(("version", "age"), [(99, "newer"), (-1, "older")])
def test_another_format_is_refused_with_what_to_install(database, tmp_path, version, age):
    database.submit(set_meta("platform", "7.1")).result()
    database.close()
    with sqlite3.connect(tmp_path / "run.db") as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    for writable in (True, False):
        with pytest.raises(DatabaseVersion, match=rf"{age} .*pip install 'mintact-platform==7\.1'"):
            Database(tmp_path / "run.db", writable=writable)


def test_a_database_names_the_platform_that_made_it(database):
    assert get_meta(database, "platform") == __version__


@pytest.mark.parametrize("writable", [True, False])
def test_what_is_no_database_is_refused(tmp_path, writable):
    (tmp_path / "run.db").write_bytes(b"certainly no database" * 100)
    with pytest.raises(StorageError, match="cannot be opened as a run's database"):
        Database(tmp_path / "run.db", writable=writable)


def test_a_foreign_database_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "run.db") as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    for writable in (True, False):
        with pytest.raises(DatabaseVersion):
            Database(tmp_path / "run.db", writable=writable)


def test_a_missing_database_is_not_made_by_reading(tmp_path):
    with pytest.raises(StorageError, match="no such database"):
        Database(tmp_path / "run.db")
    assert list(tmp_path.iterdir()) == []
