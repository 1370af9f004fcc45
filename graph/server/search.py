"""The graph that `langgraph dev` serves. Services are opened at the first node and shared by all runs."""

import asyncio
from contextlib import AsyncExitStack

from checkpoints.home import open_home
from evaluators.resolve import resolve_builtin
from graph.builder import Graph, build_graph
from graph.config import SearchConfig
from graph.server.presence import HeldWithin
from graph.server.safety import refuse_unsafe
from graph.wiring import Backends, services
from nodes.services import Services


class _Process:
    """The one set of services of this server process, per event loop."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._opened: dict[int, asyncio.Task[Services]] = {}

    async def services(self) -> Services:
        """Return the services, opened once even when several runs ask at the same time."""
        loop = id(asyncio.get_running_loop())
        if loop not in self._opened:
            self._opened[loop] = asyncio.create_task(self._open())
        return await asyncio.shield(self._opened[loop])

    async def _open(self) -> Services:
        home = await self._stack.enter_async_context(open_home())
        backends = Backends()
        self._stack.push_async_callback(backends.close)

        def check(config: SearchConfig) -> None:
            refuse_unsafe(config)
            backends.check(config)

        # Only built-in tasks: whoever reaches the server must not make it read or run files of their choosing.
        return services(home, backends, resolve=resolve_builtin, presence=HeldWithin(home), check=check)


_process = _Process()


def make_graph() -> Graph:
    """Return the search for the server, which brings its own checkpointer."""
    return build_graph(_process.services)
