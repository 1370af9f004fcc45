"""The database of a home: short transactions on a thread of its own, errors told in one line."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import TypeVar

from checkpoints.blobs import BlobFolder, BlobStore
from checkpoints.faults import emptied, storage_errors
from checkpoints.place import Place, ServerHome, local_folder
from checkpoints.schema import VERSION, check, prepare
from checkpoints.sql import Connection
from checkpoints.sqlite_tables import SqliteConnection

T = TypeVar("T")
BUSY_TIMEOUT_S = 10.0
"""How long to wait for another process's write; ours take well under a millisecond."""
_BLOBS = "blobs"


def database_file(home: Path) -> Path:
    """Return the database's file within a folder of runs."""
    return home / "ksearch.sqlite"


def database_place(home: Place) -> Place:
    """Return what messages about the database name."""
    return home if isinstance(home, ServerHome) else database_file(home)


def has_runs(home: Place) -> bool:
    """Return whether there is a database at this place. Raises StoreError, UsageError."""
    if isinstance(home, ServerHome):
        from checkpoints.postgres import exists

        return exists(home)
    return database_file(home).exists()


def open_blobs(home: Place, *, power_safe: bool = False) -> BlobStore:
    """Open the blobs of a home. Raises StoreError, UsageError."""
    if isinstance(home, ServerHome):
        from checkpoints.server_blobs import server_blobs

        return server_blobs(home, power_safe=power_safe)
    return BlobFolder(home / _BLOBS, power_safe=power_safe)


def make_home(home: Place) -> None:
    """Make the folder of the runs, or what a server's home needs on this machine, hidden from git, unless it exists.

    Raises:
        StoreError: it cannot be made.
    """
    folder = local_folder(home)
    with storage_errors(folder):
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ".gitignore").write_text("*\n")


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
        # Debian's SQLite overwrites what is deleted with zeros. A prune writes the file anew anyway.
        "PRAGMA secure_delete = OFF",
    )


def connect(path: Path, *, power_safe: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S) -> SqliteConnection:
    """Open the database for writing, in autocommit mode, making it or bringing it up to date first.

    Raises:
        StoreError: locked beyond `busy_timeout_s`, read-only, damaged, or the disk is full.
        UsageError: it belongs to another program or to a newer ksearch; the file is left as it was.
    """
    with storage_errors(path):
        _require_content(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=SqliteConnection)
        try:
            for pragma in pragmas(power_safe, busy_timeout_s):
                connection.execute(pragma)
            prepare(connection, path, busy_timeout_s)
        except BaseException:  # an interrupt, too: raised again once the connection is closed
            connection.close()
            raise
    return connection


def _require_content(path: Path) -> None:
    """Raise StoreError for an empty file where runs have left blobs: a new database would let them be pruned."""
    blobs = path.parent / _BLOBS
    if path.exists() and path.stat().st_size == 0 and blobs.is_dir() and any(blobs.iterdir()):
        raise emptied(path)


def connect_reader(path: Path) -> SqliteConnection:
    """Open an existing database for reading; works on a read-only disk as well.

    Raises:
        StoreError: it cannot be opened.
        UsageError: it belongs to another program or to a newer ksearch.
    """
    with storage_errors(path):
        _require_content(path)
        uri = f"{path.absolute().as_uri()}?mode=ro"
        if not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists():
            # WAL needs a shared-memory file beside the database. Where none can be made nobody can write either.
            uri += "&immutable=1"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, factory=SqliteConnection)
        try:
            connection.execute(f"PRAGMA busy_timeout = {round(BUSY_TIMEOUT_S * 1000)}")
            if check(connection, path) < VERSION:
                connect(path).close()  # made by another process just now, or by an earlier version
        except BaseException:  # an interrupt, too: raised again once the connection is closed
            connection.close()
            raise
    return connection


def open_connection(home: Place, *, power_safe: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Connection:
    """Open the database of a home for writing, made or brought up to date first.

    Raises:
        StoreError: locked beyond `busy_timeout_s`, out of reach, read-only, damaged, or the disk is full.
        UsageError: it belongs to another program or to a newer ksearch.
    """
    if isinstance(home, ServerHome):
        from checkpoints import postgres
        from checkpoints.server_blobs import settle_blobs

        connection = postgres.connect(home, patience_s=busy_timeout_s)
        try:
            settle_blobs(connection)
        except BaseException:  # an interrupt, too: raised again once the connection is closed
            connection.close()
            raise
        return connection
    return connect(database_file(home), power_safe=power_safe, busy_timeout_s=busy_timeout_s)


def open_reader(home: Place) -> Connection:
    """Open the existing database of a home for reading. Raises as `open_connection`."""
    if isinstance(home, ServerHome):
        from checkpoints import postgres

        return postgres.connect_reader(home)
    return connect_reader(database_file(home))


@contextmanager
def transaction(home: Place) -> Iterator[Connection]:
    """Give a connection within one transaction, for work outside of an event loop: whole or not at all. Blocks.

    Raises:
        StoreError, UsageError: as `open_connection`; nothing of the block is stored.
    """
    with closing(open_connection(home)) as connection, storage_errors(database_place(home)):
        connection.begin()
        try:
            yield connection
            connection.commit()
        except BaseException:  # an interrupt, too: raised again once nothing is half written
            connection.rollback()
            raise


class Database:
    """A connection that writes. Each piece of work is one transaction: whole or not at all."""

    def __init__(self, home: Place, connection: Connection, executor: ThreadPoolExecutor) -> None:
        self.home = home
        self.held: set[str] = set()
        """uuids of the threads that were acquired through this connection."""
        self.thread = executor
        """The one thread on which everything here is done."""
        self._connection = connection

    async def run(self, work: Callable[[Connection], T], *, alone: bool = True) -> T:
        """Run `work` in one transaction on the connection's thread and return what it returns.

        `alone` is as in `Connection.begin`.

        Work that was handed over is finished even when the caller is cancelled: what was paid for is recorded.

        Raises:
            StoreError: the database or the disk failed; nothing of `work` is stored.
        """
        # The shield keeps a cancellation from taking work off the executor's queue.
        return await asyncio.shield(asyncio.wrap_future(self.thread.submit(self._transact, work, alone)))

    def _transact(self, work: Callable[[Connection], T], alone: bool) -> T:
        with storage_errors(database_place(self.home)):
            self._connection.begin(alone=alone)
            try:
                result = work(self._connection)
                self._connection.commit()
            except BaseException:  # an interrupt, too: raised again once nothing is half written
                self._connection.rollback()
                raise
        return result


@asynccontextmanager
async def open_database(
    home: Place, *, power_safe: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> AsyncIterator[Database]:
    """Open the database of a home for writing, made or brought up to date first; closes it after the work handed over.

    Raises:
        StoreError: locked beyond `busy_timeout_s`, read-only, damaged, or the disk is full.
        UsageError: it belongs to another program or to a newer ksearch.
    """
    with ThreadPoolExecutor(1, "ksearch-database") as executor:
        loop = asyncio.get_running_loop()
        connection = await loop.run_in_executor(
            executor, lambda: open_connection(home, power_safe=power_safe, busy_timeout_s=busy_timeout_s)
        )
        try:
            yield Database(home, connection, executor)
        finally:
            executor.submit(connection.close).result()
