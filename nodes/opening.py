"""Opening a thread: its configuration and its task become blobs, whoever began it."""

import asyncio
from collections.abc import Mapping
from typing import Any

from evaluators.errors import UsageError
from graph.config import SearchConfig
from graph.context import RunContext
from graph.presets import resolve
from graph.state import Opening, TaskRef
from nodes.services import Services


async def opened(services: Services, state: Mapping[str, Any], context: RunContext | None, thread: str) -> Opening:
    """Return configuration and task of a thread: its own when it was begun before, else those of the context.

    Raises UsageError for an unknown option, task or language; names the nearest.
    """
    known = await services.home.threads.known(thread)
    if known is not None and "task" in state:
        return Opening(config=known.config, task=state["task"])
    if known is not None:
        # It got no further than its first node, whose input was empty: what it is to search for, its row tells.
        opening = await open_search(services, await services.config(thread, known.config))
        return Opening(config=known.config, task=opening["task"])
    context = RunContext() if context is None else context
    config = resolve(context.preset, {"task": context.task, **context.options})
    opening = await open_search(services, config)
    await services.presence.begin(thread, config.task, opening["config"])
    return opening


async def open_search(services: Services, config: SearchConfig) -> Opening:
    """Store configuration and task and return the state that refers to them.

    Raises UsageError when an option names nothing, the task is unknown or has no contract for the language.
    """
    # In a thread: back ends are imported when they are named, which a server's event loop must not wait for.
    await asyncio.to_thread(services.check, config)
    task = await asyncio.to_thread(services.resolve_task, config.task)
    if config.language is not None and config.language not in task.contracts:
        raise UsageError(f"task {task.name} has no contract for {config.language}; it has {', '.join(task.contracts)}")
    return Opening(
        config=await services.save(config.model_dump(mode="json")),
        task=TaskRef(name=task.name, digest=task.digest, blob=await services.save(task.model_dump(mode="json"))),
    )
