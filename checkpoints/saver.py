"""Opening the checkpoint saver of a home, whatever its database is."""

from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager

from langgraph.checkpoint.base import BaseCheckpointSaver

from checkpoints.database import BUSY_TIMEOUT_S, database_file
from checkpoints.place import Place, ServerHome


@asynccontextmanager
async def open_saver(
    home: Place,
    held: AbstractSet[str] = frozenset(),
    *,
    power_safe: bool = False,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """Open the checkpoints of a home that exists.

    Args:
        home: the home; its database has been opened before.
        held: uuids of the threads that this process holds; kept up to date by whoever acquires them.
        power_safe: sync the disk at every checkpoint, where it is ours.
        busy_timeout_s: seconds to wait for another process's write.

    Raises:
        StoreError, UsageError: as `open_database`.
    """
    if isinstance(home, ServerHome):
        from checkpoints.postgres_saver import open_postgres_saver

        async with open_postgres_saver(home, held, patience_s=busy_timeout_s) as server_saver:
            yield server_saver
    else:
        from checkpoints.sqlite import open_saver as open_sqlite_saver

        file = database_file(home)
        async with open_sqlite_saver(file, power_safe=power_safe, busy_timeout_s=busy_timeout_s) as saver:
            yield saver
