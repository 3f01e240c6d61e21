"""Opening run.db: to write it, to follow it while it grows, or to read one instant of it.

SQLite's `mode=ro` makes `-wal` and `-shm` files beside the database and fails where it cannot, so
a run on read-only media, or one that must stay as it is, is read otherwise.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from mintact_platform import __version__
from mintact_platform.errors import DatabaseVersion, StorageError
from mintact_platform.storage.schema import TABLES, VERSION

_ATTEMPTS = 20


def open_writer(path: Path) -> sqlite3.Connection:
    """The one connection that writes; makes the tables of a new file.

    Raises:
        DatabaseVersion: another version of the platform wrote it.
        StorageError: no database.
    """
    connection = _connect(path, "mode=rwc")
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        version = _version(connection)
        if version == 0 and not connection.execute("SELECT 1 FROM sqlite_master").fetchall():
            connection.executescript(
                f"BEGIN; {TABLES} PRAGMA user_version = {VERSION};"
                f"INSERT INTO meta VALUES ('platform', '{__version__}'); COMMIT;"
            )
        else:
            _check_version(connection, version, path)
    except sqlite3.Error as error:
        connection.close()
        raise _no_database(path, error) from None
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that sees every commit as it comes.

    Where SQLite cannot follow the file, on read-only media, it sees what was there when opened.

    Raises:
        DatabaseVersion: another version of the platform wrote it.
        StorageError: missing, or no database.
    """
    if not path.exists():
        raise StorageError("no such database", where=str(path))
    try:
        return _checked(_connect(path, "mode=ro"), path)
    except sqlite3.Error as error:
        if not _needs_a_place(error):
            raise _no_database(path, error) from None
    return _copy(path)


def read_once(path: Path, *queries: str) -> list[list[sqlite3.Row]]:
    """The rows of each query, all at one instant of run.db; leaves no file behind.

    Works on a live run, a finished one, a killed one, and on read-only media.

    Raises:
        DatabaseVersion: another version of the platform wrote it.
        StorageError: missing, or no database.
    """
    if not path.exists():
        raise StorageError("no such database", where=str(path))
    for _ in range(_ATTEMPTS):
        before = _stamp(path)
        if _log(path):
            break
        # nothing waits in the -wal: all is in the file, which nobody else need know we read
        try:
            rows = _rows(_checked(_connect(path, "mode=ro&immutable=1"), path), queries)
        except sqlite3.Error as error:
            if _stamp(path) == before:
                raise _no_database(path, error) from None
            continue
        if _stamp(path) == before and not _log(path):
            return rows
    return _rows(open_reader(path), queries)


def _rows(connection: sqlite3.Connection, queries: tuple[str, ...]) -> list[list[sqlite3.Row]]:
    with closing(connection):
        connection.execute("BEGIN")
        return [connection.execute(query).fetchall() for query in queries]


def _copy(path: Path) -> sqlite3.Connection:
    """What was in the files at this moment, in memory."""
    try:
        with tempfile.TemporaryDirectory(prefix="mintact-") as folder:
            file = _copied(path, Path(folder))
            with closing(_connect(file, "mode=rw")) as source:
                copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                source.backup(copy)
        return _checked(copy, path)
    except (sqlite3.Error, OSError) as error:
        raise _no_database(path, error) from None


def _copied(path: Path, folder: Path) -> Path:
    for _ in range(_ATTEMPTS):
        before = _stamp(path)
        for file in (path, _wal(path)):
            if file.exists():
                shutil.copyfile(file, folder / file.name)
        # a -wal that grew meanwhile does not matter, one that was folded into the file does
        if _stamp(path) == before:
            return folder / path.name
    raise StorageError("is being changed all the time", where=str(path), next="try again")


def _needs_a_place(error: sqlite3.Error) -> bool:
    """Whether SQLite found no place for its -shm file, or one that is not ours to use."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _log(path: Path) -> int:
    """Bytes in the -wal file."""
    try:
        return _wal(path).stat().st_size
    except FileNotFoundError:
        return 0


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _connect(path: Path, options: str) -> sqlite3.Connection:
    try:
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?{options}",
            uri=True,
            timeout=30,
            isolation_level=None,
            check_same_thread=False,
        )
    except sqlite3.Error as error:
        raise _no_database(path, error) from None


def _checked(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """The connection, ready to read by name.

    Raises:
        DatabaseVersion: another version of the platform wrote it.
        sqlite3.Error: it cannot be read; the connection is closed.
    """
    try:
        connection.row_factory = sqlite3.Row
        _check_version(connection, _version(connection), path)
    except BaseException:
        connection.close()
        raise
    return connection


def _no_database(path: Path, error: Exception) -> StorageError:
    return StorageError(f"cannot be opened as a run's database: {error}", where=str(path))


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _check_version(connection: sqlite3.Connection, version: int, path: Path) -> None:
    if version == VERSION:
        return
    try:
        row = connection.execute("SELECT value FROM meta WHERE key = 'platform'").fetchone()
    except sqlite3.Error:
        row = None
    writer = f"mintact-platform=={row[0]}" if row else "the mintact-platform that wrote it"
    age = "newer" if version > VERSION else "older"
    raise DatabaseVersion(
        f"format {version} is {age} than this platform's {VERSION}",
        where=str(path),
        next=f"run: pip install {writer!r}",
    )
