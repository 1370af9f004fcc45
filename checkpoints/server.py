"""The checkpointer of the LangGraph server, which loads this file by its path: absolute imports, no state classes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from langgraph.checkpoint.base import BaseCheckpointSaver

from checkpoints.database import make_home, open_connection
from checkpoints.place import find_place
from checkpoints.saver import open_saver


@asynccontextmanager
async def create_checkpointer() -> AsyncIterator[BaseCheckpointSaver[str]]:
    """Open the checkpoints of the runs (KSEARCH_HOME, or `.ksearch`): those that the command line uses.

    Raises:
        StoreError, UsageError: as `open_saver`.
    """
    home = find_place()
    await asyncio.to_thread(make_home, home)
    await asyncio.to_thread(lambda: open_connection(home).close())
    async with open_saver(home) as saver:
        yield saver
