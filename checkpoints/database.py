"""One connection to ksearch's database: short transactions on a thread of its own, errors told in one line."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from checkpoints.faults import storage_errors
from checkpoints.schema import VERSION, check, prepare

T = TypeVar("T")
BUSY_TIMEOUT_S = 10.0
"""How long to wait for another process's write; ours take well under a millisecond."""


def home_folder(home: Path | None = None) -> Path:
    """Return the folder of the runs: `home`, else KSEARCH_HOME, else `.ksearch` in the current folder."""
    return home or Path(os.environ.get("KSEARCH_HOME") or ".ksearch")


def database_file(home: Path) -> Path:
    """Return the database's file within the folder of the runs."""
    return home / "ksearch.sqlite"


def blob_folder(home: Path) -> Path:
    """Return the blobs' folder within the folder of the runs."""
    return home / "blobs"


def make_home(home: Path) -> None:
    """Make the folder of the runs, hidden from git, unless it exists.

    Raises:
        StoreError: it cannot be made.
    """
    with storage_errors(home):
        if not home.is_dir():
            home.mkdir(parents=True)
            (home / ".gitignore").write_text("*\n")


def pragmas(power_safe: bool, busy_timeout_s: float) -> tuple[str, ...]:
    """Return the settings of every connection that writes.

    Args:
        power_safe: sync the disk at every commit. Without it a commit survives the death of the process, not
            a power failure.
        busy_timeout_s: seconds to wait for another connection's write.
    """
    return (
        f"PRAGMA busy_timeout = {round(busy_timeout_s * 1000)}",
        f"PRAGMA synchronous = {'FULL' if power_safe else 'NORMAL'}",
        "PRAGMA journal_size_limit = 16777216",
    )


def connect(path: Path, *, power_safe: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S) -> sqlite3.Connection:
    """Open the database for writing, in autocommit mode, making it or bringing it up to date first.

    Raises:
        StoreError: locked beyond `busy_timeout_s`, read-only, damaged, or the disk is full.
        UsageError: it belongs to another program or to a newer ksearch; the file is left as it was.
    """
    with storage_errors(path):
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            for pragma in pragmas(power_safe, busy_timeout_s):
                connection.execute(pragma)
            prepare(connection, path, busy_timeout_s)
        except BaseException:
            connection.close()
            raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open an existing database for reading; works on a read-only disk as well.

    Raises:
        StoreError: it cannot be opened.
        UsageError: it belongs to another program or to a newer ksearch.
    """
    with storage_errors(path):
        uri = f"{path.absolute().as_uri()}?mode=ro"
        if not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists():
            # WAL needs a shared-memory file beside the database. Where none can be made nobody can write either.
            uri += "&immutable=1"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            connection.execute(f"PRAGMA busy_timeout = {round(BUSY_TIMEOUT_S * 1000)}")
            if 0 < check(connection, path) < VERSION:
                connect(path).close()  # brings it up to date, which an earlier version's reader does not need
        except BaseException:
            connection.close()
            raise
    return connection


class Database:
    """A connection that writes. Each piece of work is one transaction: whole or not at all."""

    def __init__(self, path: Path, connection: sqlite3.Connection, executor: ThreadPoolExecutor) -> None:
        self.path = path
        self._connection = connection
        self._executor = executor

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction on the connection's thread and return what it returns.

        Work that was handed over is finished even when the caller is cancelled: what was paid for is recorded.

        Raises:
            StoreError: the database or the disk failed; nothing of `work` is stored.
        """
        # The shield keeps a cancellation from taking work off the executor's queue.
        return await asyncio.shield(asyncio.wrap_future(self._executor.submit(self._transact, work)))

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with storage_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk makes SQLite roll back by itself.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        return result


@asynccontextmanager
async def open_database(
    path: Path, *, power_safe: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> AsyncIterator[Database]:
    """Open the database for writing, made or brought up to date first; closes it after the work handed over.

    Raises:
        StoreError: locked beyond `busy_timeout_s`, read-only, damaged, or the disk is full.
        UsageError: it belongs to another program or to a newer ksearch.
    """
    with ThreadPoolExecutor(1, "ksearch-database") as executor:
        loop = asyncio.get_running_loop()
        connection = await loop.run_in_executor(
            executor, lambda: connect(path, power_safe=power_safe, busy_timeout_s=busy_timeout_s)
        )
        try:
            yield Database(path, connection, executor)
        finally:
            executor.submit(connection.close).result()
