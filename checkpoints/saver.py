"""Opening the checkpoint saver of a home, whatever its database is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from langgraph.checkpoint.base import BaseCheckpointSaver

from checkpoints.database import BUSY_TIMEOUT_S, Database, database_file
from checkpoints.place import Place, ServerHome


@asynccontextmanager
async def open_saver(
    home: Place,
    database: Database | None = None,
    *,
    power_safe: bool = False,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """Open the checkpoints of a home that exists.

    Args:
        home: the home; its database has been opened before.
        database: what else of this process writes to the home, and says which threads it holds.
        power_safe: sync the disk at every checkpoint, where it is ours.
        busy_timeout_s: seconds to wait for another process's write.

    Raises:
        StoreError, UsageError: as `open_database`.
    """
    if isinstance(home, ServerHome):
        from checkpoints.postgres_saver import open_postgres_saver

        held = frozenset[str]() if database is None else database.held
        async with open_postgres_saver(home, held, patience_s=busy_timeout_s) as server_saver:
            yield server_saver
    else:
        from checkpoints.sqlite import open_saver as open_sqlite_saver

        thread = None if database is None else database.thread
        async with open_sqlite_saver(
            database_file(home), thread, power_safe=power_safe, busy_timeout_s=busy_timeout_s
        ) as saver:
            yield saver
