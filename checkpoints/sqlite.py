"""The checkpoint saver on SQLite: LangGraph's own, plus copying, pruning, whole writes and errors in one line."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

import aiosqlite
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from checkpoints.database import BUSY_TIMEOUT_S, connect, pragmas
from checkpoints.faults import storage_errors
from checkpoints.rounds import place
from checkpoints.serde import PlainSerializer
from checkpoints.whole import whole, whole_writes

T = TypeVar("T")
_CHECKPOINT = "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
_WRITE = "checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value"
_LATEST = "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY checkpoint_ns"
_OF_RUN = (
    "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints "
    "WHERE json_extract(CAST(metadata AS TEXT), '$.run_id') = ?"
)


class SearchSaver(AsyncSqliteSaver):
    """Checkpoints in SQLite. What is put is stored whole, even when the caller is cancelled meanwhile.

    Rows are self-contained only without DeltaChannel: do not prune a graph that uses it.

    Args:
        connection: an open connection with Python's default transaction handling, for this saver alone.
        path: the database's file, for messages.
    """

    def __init__(self, connection: aiosqlite.Connection, path: Path) -> None:
        super().__init__(connection, serde=PlainSerializer())
        self.lock = _TransactionLock(connection)
        self._path = path

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint and return its config.

        Raises:
            StoreError: the database or the disk failed; nothing is stored.
            TypeError: the state holds more than plain JSON.
        """
        placed = cast(CheckpointMetadata, {**metadata, **place(checkpoint)})
        return await self._whole(super().aput(config, checkpoint, placed, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote, all of it or nothing; of one that failed or was cancelled only that it did.

        Raises:
            StoreError: the database or the disk failed; nothing is stored.
            TypeError: a value is more than plain JSON.
        """
        await self._whole(super().aput_writes(config, whole_writes(writes), task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the thread's checkpoints and writes.

        Raises:
            StoreError: the database or the disk failed; nothing is deleted.
        """
        await self.setup()
        await self._whole(super().adelete_thread(thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy every checkpoint and every pending write, their order included, to a new thread.

        Raises:
            StoreError: the database or the disk failed, or the target has checkpoints; nothing is copied.
        """
        both = (target_thread_id, source_thread_id)
        await self._change(
            (
                f"INSERT INTO checkpoints (thread_id, {_CHECKPOINT}) SELECT ?, {_CHECKPOINT} FROM checkpoints "
                "WHERE thread_id = ?",
                both,
            ),
            (f"INSERT INTO writes (thread_id, {_WRITE}) SELECT ?, {_WRITE} FROM writes WHERE thread_id = ?", both),
        )

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of the threads but the latest of each namespace, or, with `delete`, all.

        Raises:
            StoreError: the database or the disk failed; nothing is deleted.
            ValueError: another strategy.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy is keep_latest or delete, not {strategy!r}")
        keep = f" AND (checkpoint_ns, checkpoint_id) NOT IN ({_LATEST})" if strategy == "keep_latest" else ""
        await self._change(
            *(
                (f"DELETE FROM {table} WHERE thread_id = ?{keep}", (thread, thread) if keep else (thread,))
                # Writes first: which checkpoints are the latest is read from the checkpoints.
                for thread in thread_ids
                for table in ("writes", "checkpoints")
            )
        )

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints, and their writes, that were made by these runs.

        Raises:
            StoreError: the database or the disk failed; nothing is deleted.
        """
        await self._change(
            *(
                (f"DELETE FROM {table} WHERE (thread_id, checkpoint_ns, checkpoint_id) IN ({_OF_RUN})", (run,))
                for run in run_ids
                for table in ("writes", "checkpoints")
            )
        )

    async def _change(self, *statements: tuple[str, tuple[str, ...]]) -> None:
        """Run the statements in one transaction."""

        async def work() -> None:
            async with self.lock:
                for sql, values in statements:
                    await self.conn.execute(sql, values)
                await self.conn.commit()

        await self.setup()
        await self._whole(work())

    async def _whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Finish `work` even when the caller is cancelled."""
        with storage_errors(self._path):
            return await whole(work)


class _TransactionLock(asyncio.Lock):
    """The saver's lock; a block that fails is rolled back before the next one may add to its transaction."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        super().__init__()
        self._connection = connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None:
                await self._connection.rollback()
        finally:
            await super().__aexit__(kind, error, trace)


@asynccontextmanager
async def open_saver(
    path: Path, *, power_safe: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> AsyncIterator[SearchSaver]:
    """Open the checkpoints in the database `path`, making it first where needed.

    Args:
        path: the database's file; its folder exists.
        power_safe: sync the disk at every checkpoint.
        busy_timeout_s: seconds to wait for another process's write.

    Raises:
        StoreError: locked beyond `busy_timeout_s`, read-only, damaged, or the disk is full.
        UsageError: it belongs to another program or to a newer ksearch.
    """
    (await asyncio.to_thread(connect, path, power_safe=power_safe, busy_timeout_s=busy_timeout_s)).close()
    async with aiosqlite.connect(path) as connection:
        with storage_errors(path):
            for pragma in pragmas(power_safe, busy_timeout_s):
                await connection.execute(pragma)
            saver = SearchSaver(connection, path)
            await saver.setup()
        yield saver
