"""Making branches: another search's past, with options of its own from there on. Never imports LangGraph."""

import asyncio
from dataclasses import dataclass
from typing import Any

from checkpoints.branching import Fork, Origin, branch, read_origin
from checkpoints.database import has_runs, open_blobs, open_database
from checkpoints.place import Place
from checkpoints.threads import Thread
from evaluators.errors import UsageError
from graph.config import SearchConfig
from graph.presets import changed
from nodes.records import read_config


@dataclass(frozen=True)
class Branched:
    """A branch that was made."""

    thread: Thread
    origin: Origin


async def make_branch(
    folder: Place, name: str, at: str, options: dict[str, Any], new_name: str | None, member: Any = None
) -> Branched:
    """Make a branch of the thread `name` in a folder of runs and return it.

    Args:
        folder: The folder of the runs.
        name: The thread's name, uuid, a unique beginning of either, or `latest`.
        at: A round, a checkpoint's id or its beginning, or `now`.
        options: Options that are changed from there on.
        new_name: What the branch is called; None takes the task's name and a number.
        member: Its place in an experiment, as checkpoints.experiments.Member.

    Raises:
        StoreError: the database or the disk failed; nothing is made.
        UsageError: there is no such thread or checkpoint, an option is unknown or not allowed, or the name is taken.
    """
    if not has_runs(folder):
        raise UsageError(f"there are no runs in {folder} yet: start one with `ksearch run TASK`")
    blobs = open_blobs(folder)
    async with open_database(folder) as database:
        origin = await database.run(lambda connection: read_origin(connection, name, at))
        fork = Fork(config=origin.config, name=new_name, member=member)
        if options:
            before = await asyncio.to_thread(read_config, blobs, origin.config)
            config = changed(before, options)
            _check(config)
            data = config.model_dump(mode="json")
            different = {key: value for key, value in data.items() if value != before.model_dump(mode="json")[key]}
            stored = await asyncio.to_thread(blobs.put_json, data)
            fork = fork.model_copy(update={"config": stored, "options": different})
        return Branched(await branch(database, origin, fork), origin)


def _check(config: SearchConfig) -> None:
    # The wiring loads LangGraph, which a branch without changes does without.
    from graph.wiring import Backends

    Backends().check(config)
