"""run.db: one writer thread, group commits, and a read-only connection for everyone else."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mintact_platform.errors import StorageError, WriteFailed
from mintact_platform.storage.connections import open_reader, open_writer

Operation = Callable[[sqlite3.Connection], None]
"""A change of the database, built by the functions of `ledger`; runs in the writer thread."""

GROUP_COMMIT_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class _Write:
    operations: tuple[Operation, ...]
    done: Future[None]


class Database:
    """A run's database. Writes go through one thread and return after their commit.

    Args:
        path: the file; a writable database is created when it does not exist.
        writable: whether to start the writer; only the scheduler does.

    Raises:
        DatabaseVersion: another version of the platform wrote it.
        StorageError: missing, or no database.
    """

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self.path, self.writable = path, writable
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._closed = False
        self._close_lock = threading.Lock()
        self._read_lock = threading.RLock()
        self._writer: threading.Thread | None = None
        if writable:
            connection = open_writer(path)
            self._writer = threading.Thread(
                target=self._write_loop, args=(connection,), name="run.db writer", daemon=True
            )
            self._writer.start()
        try:
            self._reader = open_reader(path)
        except BaseException:
            self._stop_writer()
            raise

    async def write(self, *operations: Operation) -> None:
        """Run the operations as one transaction; returns after the commit.

        A write that was asked for happens, even when the caller is cancelled meanwhile.

        Raises:
            StorageError: an operation refused; none of this call's operations took effect.
        """
        await asyncio.wrap_future(self.submit(*operations))

    def submit(self, *operations: Operation) -> Future[None]:
        """As `write`, for callers without an event loop: the future ends after the commit."""
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()
        with self._close_lock:
            if self._closed or not self.writable:
                state = "closed" if self._closed else "open for reading only"
                raise StorageError(f"the database is {state}", where=str(self.path))
            self._queue.put(_Write(operations, done))
        return done

    def read(self, sql: str, params: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """All rows of a query over what is committed. Safe from any thread."""
        with self._read_lock:
            return self._reader.execute(sql, params).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Inside it, this thread's reads all see one instant of the database; others wait."""
        with self._read_lock:
            self._reader.execute("BEGIN")
            try:
                yield
            finally:
                self._reader.execute("ROLLBACK")

    def close(self) -> None:
        """Finish all writes asked for, then close. May be called again."""
        with self._read_lock:
            self._reader.close()
        self._stop_writer()  # last, so that its connection folds the WAL into the file

    def _stop_writer(self) -> None:
        with self._close_lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        if self._writer is not None:
            self._writer.join()

    def _write_loop(self, connection: sqlite3.Connection) -> None:
        more = True
        while more:
            first = self._queue.get()
            if first is None:
                break
            more = self._group_commit(connection, first)
        connection.close()

    def _group_commit(self, connection: sqlite3.Connection, write: _Write) -> bool:
        """One transaction for all writes that are waiting; false when the database was closed."""
        until = time.monotonic() + GROUP_COMMIT_SECONDS
        written: list[_Write] = []
        more = True
        try:
            connection.execute("BEGIN IMMEDIATE")
            while True:
                if _apply(connection, write):
                    written.append(write)
                following = self._next(until)
                if not isinstance(following, _Write):
                    more = following
                    break
                write = following
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            for failed in {id(w): w for w in (*written, write)}.values():
                if not failed.done.done():
                    failed.done.set_exception(_storage_error(error, self.path))
            return more
        for done in written:
            done.done.set_result(None)
        return more

    def _next(self, until: float) -> _Write | bool:
        """The next waiting write; true when this commit is full, false at the end."""
        if time.monotonic() >= until:
            return True
        try:
            return self._queue.get_nowait() or False
        except queue.Empty:
            return True


def _apply(connection: sqlite3.Connection, write: _Write) -> bool:
    connection.execute("SAVEPOINT one_write")
    try:
        for operation in write.operations:
            operation(connection)
    except Exception as error:
        connection.execute("ROLLBACK TO one_write")
        connection.execute("RELEASE one_write")
        known = _storage_error(error) if isinstance(error, sqlite3.Error) else error
        write.done.set_exception(known)
        return False
    connection.execute("RELEASE one_write")
    return True


def _storage_error(error: sqlite3.Error, path: Path | None = None) -> StorageError:
    # what cannot be written is the disk's fault, what must not be is the caller's
    kind = WriteFailed if isinstance(error, sqlite3.OperationalError) else StorageError
    return kind(f"cannot write: {error}", where="run.db" if path is None else str(path))
