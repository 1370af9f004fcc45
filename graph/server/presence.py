"""Threads that the server works on: the same rows and locks as those of the command line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from langgraph.errors import GraphBubbleUp

from checkpoints.home import Home
from checkpoints.threads import Status
from graph.state import Stop


@dataclass
class HeldWithin:
    """Holds a thread from the first node that runs in this process until the search ends.

    The server decides when nodes run, so there is no place around the graph at which to hold the thread. A server
    that goes away leaves its threads `interrupted`, like any process.
    """

    home: Home
    _held: set[str] = field(default_factory=set)

    async def begin(self, thread: str, task: str, config: str) -> None:
        """Add the thread under the server's id, unless its first node runs again, and hold it."""
        if all(known.uuid != thread for known in await self.home.threads.all()):
            await self.home.threads.create(task, config, thread)
        if thread not in self._held:
            await self._acquire(thread)
        await self.home.threads.configure(thread, config)

    @asynccontextmanager
    async def working(self, thread: str) -> AsyncIterator[None]:
        """Hold the thread. Raises UsageError when another process is at work on it."""
        if thread not in self._held:
            await self._acquire(thread)
        try:
            yield
        except (asyncio.CancelledError, GraphBubbleUp):
            await self._release(thread, "paused", "")
            raise
        except Exception as error:
            await self._release(thread, "failed", str(error).split("\n")[0])
            raise

    async def ended(self, thread: str, stop: Stop) -> None:
        """Let go of a thread whose search has ended."""
        await self._release(thread, "finished", f"{stop['reason']}: {stop['detail']}")

    async def _acquire(self, thread: str) -> None:
        await self.home.threads.acquire(thread)
        self._held.add(thread)

    async def _release(self, thread: str, status: Status, reason: str) -> None:
        if thread in self._held:
            self._held.discard(thread)
            await asyncio.shield(self.home.threads.release(thread, status, reason))
