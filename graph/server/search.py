"""The graph that `langgraph dev` serves. Services are opened at the first run and shared by all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph_sdk.runtime import ServerRuntime

from checkpoints.home import open_home
from evaluators.resolve import resolve_builtin
from graph.builder import Graph, build_graph
from graph.config import SearchConfig
from graph.server.presence import HeldByTheServer
from graph.server.safety import refuse_unsafe, unknown_key
from graph.wiring import Backends, services
from nodes.services import Services


@dataclass(frozen=True)
class _Means:
    services: Services
    presence: HeldByTheServer


class _Process:
    """The one set of services of this server process, per event loop."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._opened: dict[int, asyncio.Task[_Means]] = {}

    async def means(self) -> _Means:
        """Return the means, opened once even when several runs ask at the same time."""
        loop = id(asyncio.get_running_loop())
        if loop not in self._opened:
            self._opened[loop] = asyncio.create_task(self._open())
        return await asyncio.shield(self._opened[loop])

    async def services(self) -> Services:
        """Return the services alone."""
        return (await self.means()).services

    async def _open(self) -> _Means:
        home = await self._stack.enter_async_context(open_home())
        backends = Backends()
        self._stack.push_async_callback(backends.close)

        def check(config: SearchConfig) -> None:
            refuse_unsafe(config)
            backends.check(config)

        presence = HeldByTheServer(home, check)
        # Only built-in tasks: whoever reaches the server must not make it read or run files of their choosing.
        return _Means(services(home, backends, resolve=resolve_builtin, presence=presence, check=check), presence)


_process = _Process()


@asynccontextmanager
async def make_graph(config: RunnableConfig, runtime: ServerRuntime[dict[str, Any]]) -> AsyncIterator[Graph]:
    """Give the search to the server, which brings its own checkpointer; hold the thread while it runs."""
    graph = build_graph(_process.services)
    running = runtime.execution_runtime
    if running is None:
        yield graph
        return
    means = await _process.means()
    thread = str(config.get("configurable", {})["thread_id"])
    async with means.presence.visiting(thread, unknown_key(running.context or {})):
        means.services.lap(thread)
        yield graph
