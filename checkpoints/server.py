"""The checkpointer of the LangGraph server, which loads this file by its path: absolute imports, no state classes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from checkpoints.database import database_file, home_folder, make_home
from checkpoints.sqlite import SearchSaver, open_saver


@asynccontextmanager
async def create_checkpointer() -> AsyncIterator[SearchSaver]:
    """Open the checkpoints of the runs' folder (KSEARCH_HOME, or `.ksearch`): those that the command line uses.

    Raises:
        StoreError, UsageError: as `open_saver`.
    """
    home = home_folder()
    await asyncio.to_thread(make_home, home)
    async with open_saver(database_file(home)) as saver:
        yield saver
