"""Work that goes on for as long as other work does."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do `work` beside the block, until the block ends; raise what it failed with, unless the block fails itself."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        failed = None if task.cancelled() else task.exception()
    if failed is not None:
        raise failed
