"""Runs: start a search, go on with one, and let go of it in order, whatever ends the process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command

from checkpoints.home import Home
from checkpoints.threads import Status, Thread
from evaluators.errors import KsearchError
from graph.beside import beside
from graph.builder import RECURSION_LIMIT, Graph, build_graph
from graph.config import SearchConfig
from graph.context import RunContext
from graph.draining import Drain, Listen, draining
from graph.migrating import migrated
from graph.presets import changed
from graph.state import Opening, SearchState
from graph.wiring import Backends, services
from nodes.opening import open_search
from nodes.records import read_config
from nodes.services import Services

ATTENTION_S = 0.5
"""How often a run looks for what people ask of it, seconds."""

Given = Opening | Command[Any] | None
"""What a visit starts with: a new search's opening, answers to interrupts, or nothing but what was left."""


@dataclass(frozen=True)
class Ended:
    """How one visit to a thread ended."""

    thread: Thread
    status: Status
    state: SearchState


@asynccontextmanager
async def opened_services(home: Home) -> AsyncIterator[Services]:
    """Give the means of this process, and end its back ends in any case."""
    backends = Backends()
    try:
        yield services(home, backends)
    finally:
        await backends.close()


async def start(means: Services, config: SearchConfig, listen: Listen) -> Ended:
    """Begin a new thread and run it. Raises KsearchError; what was done until then is kept."""
    opening = await open_search(means, config)
    thread = await means.home.threads.create(opening["task"]["name"], opening["config"])
    return await _alone(means, thread, opening, listen)


async def resume(
    means: Services, name: str, options: dict[str, Any], listen: Listen, answers: dict[str, Any] | None = None
) -> Ended:
    """Go on with a thread, with `options` changed from here on. Raises KsearchError.

    `answers` maps ids of pending interrupts to what they are answered with; the others stay pending.
    """
    thread, config = await _reconfigured(means, name, options)
    return await _alone(means, thread, Command(resume=answers) if answers else None, listen, config)


async def go_on(means: Services, name: str, options: dict[str, Any], listen: Listen, drain: Drain) -> Ended:
    """Begin or go on with a thread that exists, beside others of this process: `drain` ends them together.

    Raises KsearchError.
    """
    thread, config = await _reconfigured(means, name, options)
    return await _hold(means, thread, None, listen, drain, config)


async def _reconfigured(means: Services, name: str, options: dict[str, Any]) -> tuple[Thread, SearchConfig]:
    thread = await means.home.threads.find(name)
    before = await asyncio.to_thread(read_config, means.home.blobs, thread.config)
    config = changed(before, options)
    means.check(config)
    return thread, config


async def _alone(
    means: Services, thread: Thread, given: Given, listen: Listen, config: SearchConfig | None = None
) -> Ended:
    """Hold the thread as the only one of this process: signals end it."""
    drain = Drain()
    with draining(drain, listen):
        return await _hold(means, thread, given, listen, drain, config)


async def _hold(
    means: Services, thread: Thread, given: Given, listen: Listen, drain: Drain, config: SearchConfig | None
) -> Ended:
    """Hold the thread's lock while it runs; leave it with the status that is true."""
    threads = means.home.threads
    await threads.acquire(thread.uuid)
    status: Status = "failed"
    reason = ""
    try:
        if config is not None:
            await threads.configure(thread.uuid, await means.save(config.model_dump(mode="json")))
        current = await threads.find(thread.uuid)
        means.put_in_force(thread.uuid, current.config)
        means.lap(thread.uuid)
        listen({"event": "thread", "thread": thread.name, "uuid": thread.uuid, "task": thread.task})
        status, state = await _drive(means, current, given, listen, drain)
        stop = state.get("stop")
        reason = "" if stop is None else f"{stop['reason']}: {stop['detail']}"
        return Ended(thread=current, status=status, state=state)
    except KsearchError as error:
        reason = str(error)
        raise
    except asyncio.CancelledError:
        status = "paused"
        raise
    finally:
        await asyncio.shield(threads.release(thread.uuid, status, reason))


async def _drive(
    means: Services, thread: Thread, given: Given, listen: Listen, drain: Drain
) -> tuple[Status, SearchState]:
    async def ready() -> Services:
        return means

    graph = build_graph(ready, means.home.saver)
    where: RunnableConfig = {"configurable": {"thread_id": thread.uuid}, "recursion_limit": RECURSION_LIMIT}
    given = await _input(graph, where, means, thread) if given is None else given
    status: Status = "finished"
    with drain.control() as control:
        async with beside(_attend(means, thread.uuid, control, listen)):
            try:
                async for event in graph.astream(
                    given, where, context=RunContext(), stream_mode="custom", durability="sync", control=control
                ):
                    listen(event)
            except GraphDrained:
                status = "paused"
    snapshot = await graph.aget_state(where)
    if snapshot.tasks:
        status = "paused"
    return status, cast(SearchState, snapshot.values)


async def _attend(means: Services, uuid: str, control: RunControl, listen: Listen) -> None:
    """While the thread runs, notice when people ask it to pause or change its configuration."""
    while not control.drain_requested:
        await asyncio.sleep(ATTENTION_S)
        config, pause = await means.home.steering.orders(uuid)
        means.put_in_force(uuid, config)
        if pause:
            control.request_drain("pause")
            listen({"event": "pausing"})


async def _input(graph: Graph, where: RunnableConfig, means: Services, thread: Thread) -> Opening | None:
    """Return what makes the graph go on: None, or the opening when the thread died before its first checkpoint."""
    snapshot = await graph.aget_state(where)
    if not snapshot.values and not snapshot.tasks:
        return await open_search(means, await asyncio.to_thread(read_config, means.home.blobs, thread.config))
    migrated(snapshot.values)
    # Not `next`: it leaves out tasks that have finished and whose writes are not in a checkpoint yet.
    if not snapshot.tasks:
        # The search had stopped: look again whether the reason still holds under the configuration in force.
        await graph.aupdate_state(where, {"stop": None, "stop_request": ""}, as_node="update_world_model")
    return None
