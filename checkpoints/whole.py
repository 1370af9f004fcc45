"""Nothing is stored by halves: not when whoever stores is cancelled, nor when the task was whose writes these are."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.types import ERROR

T = TypeVar("T")


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """Finish `work` even when the caller is cancelled; return or raise what it does."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def whole_writes(writes: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
    """Return what to store of a task's writes: of one that failed or was cancelled only that it did.

    LangGraph hands over with the error what the task had written until then, say an update of the state without what
    the edges after it say, and on a resume takes that for everything it had to write.
    """
    if any(channel == ERROR for channel, _ in writes):
        return [write for write in writes if write[0] in WRITES_IDX_MAP]
    return writes
