"""What the server knows beside its runs: the assistants of this version, and the threads of the command line."""

import asyncio
import logging
from typing import NoReturn

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from checkpoints.history import read_known
from checkpoints.place import Place, find_place
from checkpoints.threads import Thread
from evaluators.errors import KsearchError
from graph.server.assistants import Assistant, assistants

GRAPH = "search"
LOOK_S = 2.0
"""How often it is looked for new threads, seconds."""

_log = logging.getLogger(__name__)


async def share() -> NoReturn:
    """Make the assistants, then make every thread of the home known to the server, for as long as it runs."""
    client = get_client()
    for assistant in await asyncio.to_thread(lambda: list(assistants())):
        await offer(client, assistant)
    home, known, told = find_place(), set[str](), ""
    while True:
        try:
            for thread in await _new(home, known):
                await adopt(client, thread)
                known.add(thread.uuid)
            told = ""
        except KsearchError as error:
            # The folder may come back; until then one line is enough.
            if str(error) != told:
                _log.warning("the runs cannot be read: %s", error)
            told = str(error)
        await asyncio.sleep(LOOK_S)


async def offer(client: LangGraphClient, assistant: Assistant) -> None:
    """Make an assistant, or bring it up to date when an earlier version of ksearch made it; people's changes stay."""
    made = await client.assistants.create(
        GRAPH,
        assistant_id=assistant.id,
        name=assistant.name,
        description=assistant.description,
        context=assistant.context,
        metadata={"shipped": assistant.digest},
        if_exists="do_nothing",
    )
    if (made["metadata"] or {}).get("shipped") != assistant.digest:
        await client.assistants.update(
            assistant.id,
            name=assistant.name,
            description=assistant.description,
            context=assistant.context,
            metadata={"shipped": assistant.digest},
        )


async def adopt(client: LangGraphClient, thread: Thread) -> None:
    """Make a thread known to the server, under its name."""
    metadata = {"run": thread.name, "task": thread.task}
    made = await client.threads.create(thread_id=thread.uuid, graph_id=GRAPH, metadata=metadata, if_exists="do_nothing")
    if (made["metadata"] or {}).get("run") != thread.name:
        await client.threads.update(thread.uuid, metadata=metadata)


async def _new(home: Place, known: set[str]) -> list[Thread]:
    threads = await asyncio.to_thread(read_known, home)
    return [thread for thread in reversed(threads) if thread.uuid not in known]
