"""The home of the runs: one database and the blobs that belong to it, opened together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from langgraph.checkpoint.base import BaseCheckpointSaver

from checkpoints.blobs import BlobStore
from checkpoints.database import BUSY_TIMEOUT_S, make_home, open_blobs, open_database
from checkpoints.experiments import Experiments
from checkpoints.holding import HEARTBEAT_S
from checkpoints.ledger import Ledger
from checkpoints.place import Place, find_place
from checkpoints.saver import open_saver
from checkpoints.steering import Steering
from checkpoints.thread_store import Threads
from evaluators.errors import StoreError


@dataclass(frozen=True)
class Home:
    """The open stores of a home."""

    folder: Place
    saver: BaseCheckpointSaver[str]
    """LangGraph's checkpoints."""
    ledger: Ledger
    """Paid work."""
    blobs: BlobStore
    """Everything large, by the digest of its content."""
    threads: Threads
    """Names, status and locks of the runs."""
    steering: Steering
    """What people ask of the runs."""
    experiments: Experiments
    """Which runs belong to an experiment."""


@asynccontextmanager
async def open_home(
    path: Place | str | None = None, *, power_safe: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> AsyncIterator[Home]:
    """Open the home of the runs, made where needed, and close it at the end. Meanwhile threads that are held stay held.

    Args:
        path: a folder or a server's address; without it KSEARCH_HOME, else `.ksearch` in the current folder.
        power_safe: what was recorded survives a power failure too, at the cost of disk syncs. Without it, it
            survives the death of the process. A server keeps to its own settings.
        busy_timeout_s: seconds to wait for another process's write.

    Raises:
        StoreError: the database is locked beyond `busy_timeout_s`, out of reach, read-only or damaged, or the disk is
            full.
        UsageError: the database belongs to another program or to a newer ksearch.
    """
    place = find_place(path)
    await asyncio.to_thread(make_home, place)
    async with open_database(place, power_safe=power_safe, busy_timeout_s=busy_timeout_s) as database:
        blobs = await asyncio.to_thread(open_blobs, place, power_safe=power_safe)
        async with open_saver(place, database, power_safe=power_safe, busy_timeout_s=busy_timeout_s) as saver:
            threads = Threads(database)
            beating = asyncio.create_task(_beat(threads))
            try:
                yield Home(
                    folder=place,
                    saver=saver,
                    ledger=Ledger(database),
                    blobs=blobs,
                    threads=threads,
                    steering=Steering(database),
                    experiments=Experiments(database),
                )
            finally:
                beating.cancel()
                await asyncio.wait([beating])


async def _beat(threads: Threads) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT_S)
        try:
            await threads.beat()
        except StoreError:
            continue  # whoever is at work meets the same fault at the next write, and stops with it
