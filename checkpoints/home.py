"""The folder of the runs: one database and the blobs beside it, opened together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from checkpoints.blobs import BlobFolder, BlobStore
from checkpoints.database import BUSY_TIMEOUT_S, blob_folder, database_file, home_folder, make_home, open_database
from checkpoints.experiments import Experiments
from checkpoints.ledger import Ledger
from checkpoints.sqlite import SearchSaver, open_saver
from checkpoints.steering import Steering
from checkpoints.threads import Threads


@dataclass(frozen=True)
class Home:
    """The open stores of a folder of runs."""

    folder: Path
    saver: SearchSaver
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
    path: Path | None = None, *, power_safe: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> AsyncIterator[Home]:
    """Open the folder of the runs, made where needed, and close it at the end.

    Args:
        path: the folder; without it KSEARCH_HOME, else `.ksearch` in the current folder.
        power_safe: what was recorded survives a power failure too, at the cost of disk syncs. Without it, it
            survives the death of the process.
        busy_timeout_s: seconds to wait for another process's write.

    Raises:
        StoreError: the database is locked beyond `busy_timeout_s`, read-only or damaged, or the disk is full.
        UsageError: the database belongs to another program or to a newer ksearch.
    """
    folder = home_folder(path)
    file = database_file(folder)
    await asyncio.to_thread(make_home, folder)
    blobs = await asyncio.to_thread(BlobFolder, blob_folder(folder), power_safe=power_safe)
    async with (
        open_database(file, power_safe=power_safe, busy_timeout_s=busy_timeout_s) as database,
        open_saver(file, power_safe=power_safe, busy_timeout_s=busy_timeout_s) as saver,
    ):
        yield Home(
            folder=folder,
            saver=saver,
            ledger=Ledger(database),
            blobs=blobs,
            threads=Threads(database),
            steering=Steering(database),
            experiments=Experiments(database),
        )
