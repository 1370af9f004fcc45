"""Steering a search from outside, running or not: edits of its plan, options, pausing. Never imports LangGraph."""

import asyncio
from dataclasses import dataclass
from typing import Any

from checkpoints.database import open_blobs, open_database, transaction
from checkpoints.history import read_snapshot
from checkpoints.place import Place
from checkpoints.steering import add_request, ask_to_pause
from checkpoints.threads import Thread, configure
from evaluators.errors import UsageError
from evaluators.solution import Solution
from graph.config import SearchConfig
from graph.edits import EditBatch, apply_batch
from graph.world_model import WorldModel

TOLD = 3
"""Reasons that a person is told at once."""
LOOK_S = 0.2
"""How often it is looked whether a run has paused, seconds."""


@dataclass(frozen=True)
class Change:
    """What a person wants of a run."""

    batch: EditBatch | None = None
    config: SearchConfig | None = None
    note: str = ""
    """How the batch came about, for the log."""


def keep_program(folder: Place, program: Solution) -> str:
    """Store a person's program and return its blob. Raises StoreError."""
    return open_blobs(folder).put_json(program.model_dump(mode="json"))


def check_batch(model: WorldModel, batch: EditBatch) -> WorldModel:
    """Return the plan after `batch`. Raises UsageError with the first reasons for which it would be rejected."""
    verdict = apply_batch(model, batch)
    if verdict.model is None:
        told = "; ".join(verdict.reasons[:TOLD])
        more = len(verdict.reasons) - TOLD
        raise UsageError(f"the edit is rejected and nothing is changed: {told}" + (f"; and {more} more" * (more > 0)))
    return verdict.model


async def ask(folder: Place, uuid: str, change: Change) -> None:
    """Record what a person wants of a run: the plan is edited when it is looked at next, options hold at once.

    Raises:
        StoreError: the database or the disk failed; nothing is recorded.
    """
    blobs = open_blobs(folder)
    data: dict[str, Any] | None = None
    if change.batch is not None:
        digest = await asyncio.to_thread(blobs.put_json, change.batch.model_dump(mode="json"))
        data = {"batch": digest, "note": change.note}
    config = None
    if change.config is not None:
        config = await asyncio.to_thread(blobs.put_json, change.config.model_dump(mode="json"))
    async with open_database(folder) as database:
        if data is not None:
            request = data
            await database.run(lambda connection: add_request(connection, uuid, request))
        if config is not None:
            digest = config
            await database.run(lambda connection: configure(connection, uuid, digest))


def begin_to_pause(folder: Place, name: str) -> Thread:
    """Ask a run to pause at its next boundary, if anyone is at work on it, and return it as it is now. Blocks.

    Raises StoreError, UsageError.
    """
    thread = read_snapshot(folder, name).thread
    if thread.status == "running":
        with transaction(folder) as connection:
            ask_to_pause(connection, thread.uuid)
    return thread


async def pause(folder: Place, name: str, wait_s: float) -> Thread:
    """Ask a run to pause at its next boundary, wait for it, and return it as it is then.

    A run that nobody is at work on is left as it is. Raises StoreError, UsageError.
    """
    thread = await asyncio.to_thread(begin_to_pause, folder, name)
    if thread.status != "running":
        return thread
    deadline = asyncio.get_running_loop().time() + wait_s
    while asyncio.get_running_loop().time() < deadline:
        current = read_snapshot(folder, thread.uuid).thread
        if current.status != "running":
            return current
        await asyncio.sleep(LOOK_S)
    return thread
