"""Threads that the server works on: the same rows, locks and requests as those of the command line."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from langgraph.errors import GraphBubbleUp, GraphInterrupt

from checkpoints.home import Home
from checkpoints.threads import Status, Thread
from evaluators.errors import KsearchError, UsageError
from graph.config import SearchConfig
from graph.state import Stop
from nodes.records import read_config


@dataclass
class _Visit:
    """What happened while the server worked on a thread."""

    before: Thread | None = None
    """The thread as it was; None while it is not held."""
    worked: bool = False
    checked: str = ""
    """The configuration that was found to be allowed here."""
    refusal: UsageError | None = None
    """Why nothing may be done. A node raises it: what is raised outside of nodes, the server keeps to itself."""
    failure: str = ""
    stop: Stop | None = None


class HeldByTheServer:
    """Holds a thread while the server runs it, and brings what people ask of it to its nodes.

    A server that goes away leaves its threads `interrupted`, like any process.
    """

    def __init__(self, home: Home, check: Callable[[SearchConfig], None]) -> None:
        """`check` raises UsageError for a configuration that is not allowed here; it may block."""
        self._home = home
        self._check = check
        self._visits: dict[str, _Visit] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def visiting(self, thread: str, refusal: UsageError | None) -> AsyncIterator[None]:
        """Hold the thread, if it was begun before, for one run of the server, and leave it with the true status.

        A second run of the thread in this process waits for the first. With a `refusal`, or when another process is at
        work on the thread, the run's first node fails for that reason.
        """
        async with self._turns.setdefault(thread, asyncio.Lock()):
            visit = self._visits[thread] = _Visit(refusal=refusal)
            try:
                if refusal is None and await self._home.threads.known(thread) is not None:
                    await self._acquire(thread, visit)
                yield
            except KsearchError as error:
                visit.failure = visit.failure or _line(error)
                raise
            finally:
                del self._visits[thread]
                if visit.before is not None:
                    status, reason = _left(visit, visit.before)
                    await asyncio.shield(self._home.threads.release(thread, status, reason))

    async def begin(self, thread: str, task: str, config: str) -> None:
        """Add the thread under the server's id and hold it. Raises UsageError when the run is refused."""
        visit = self._visits[thread]
        if visit.refusal is not None:
            raise visit.refusal
        await self._home.threads.create(task, config, thread)
        await self._acquire(thread, visit)

    @asynccontextmanager
    async def working(self, thread: str) -> AsyncIterator[str]:
        """Give the configuration that the node works under.

        Raises:
            GraphInterrupt: someone asked the thread to pause; like at a breakpoint, the run ends before the node, and
                the server goes on with it when it is run without input.
            UsageError: the run is refused, its configuration is not allowed here, or no search was begun under this id.
        """
        visit = self._visits[thread]
        if visit.refusal is not None:
            raise visit.refusal
        if visit.before is None:
            raise UsageError(f"no search was begun under the id {thread}: copy runs with `ksearch branch`")
        config, pause = await self._home.steering.orders(thread)
        if pause:
            raise GraphInterrupt(())
        try:
            if config != visit.checked:
                # In a thread: back ends are imported when they are named.
                await asyncio.to_thread(self._allow, config)
                visit.checked = config
            visit.worked = True
            yield config
        except GraphBubbleUp:
            raise
        except Exception as error:
            visit.failure = visit.failure or _line(error)
            raise

    async def ended(self, thread: str, stop: Stop) -> None:
        """Remember why the search has ended."""
        self._visits[thread].stop = stop

    async def _acquire(self, thread: str, visit: _Visit) -> None:
        try:
            visit.before = await self._home.threads.acquire(thread)
        except UsageError as error:
            visit.refusal = error

    def _allow(self, config: str) -> None:
        self._check(read_config(self._home.blobs, config))


def _left(visit: _Visit, before: Thread) -> tuple[Status, str]:
    """Return with which status and reason a visit leaves a thread."""
    if visit.failure:
        return "failed", visit.failure
    if visit.stop is not None:
        return "finished", f"{visit.stop['reason']}: {visit.stop['detail']}"
    if visit.worked or before.status in ("running", "interrupted"):
        return "paused", ""
    return before.status, before.reason


def _line(error: Exception) -> str:
    return str(error).split("\n")[0]
