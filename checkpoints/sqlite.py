"""The checkpoint saver on SQLite: LangGraph's own, plus copying, pruning, whole writes and errors in one line."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.sqlite import SqliteSaver

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


class SearchSaver(SqliteSaver):
    """Checkpoints in SQLite. What is put is stored whole, even when the caller is cancelled meanwhile.

    Each piece of work is one visit to one thread, the one on which the ledger is written: two threads that write to
    one file wait for each other asleep.

    Rows are self-contained only without DeltaChannel: do not prune a graph that uses it.

    Args:
        connection: an open connection with Python's default transaction handling, for this saver alone.
        path: the database's file, for messages.
        thread: an executor of one thread, on which the connection is used.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, thread: ThreadPoolExecutor) -> None:
        super().__init__(connection, serde=PlainSerializer())
        self._path = path
        self._thread = thread

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """Give a cursor; with `transaction` everything done with it is stored, or after an error nothing."""
        with self.lock, closing(self.conn.cursor()) as cursor:
            try:
                yield cursor
                if transaction:
                    self.conn.commit()
            except BaseException:
                if transaction:
                    self.conn.rollback()
                raise

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint, the latest one unless `config` names it. Raises StoreError."""
        return await self._whole(partial(self.get_tuple, config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first. Raises StoreError."""
        listed = partial(self.list, config, filter=filter, before=before, limit=limit)
        for found in await self._whole(lambda: list(listed())):
            yield found

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
        return await self._whole(partial(self.put, config, checkpoint, placed, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote, all of it or nothing; of one that failed or was cancelled only that it did.

        Raises:
            StoreError: the database or the disk failed; nothing is stored.
            TypeError: a value is more than plain JSON.
        """
        await self._whole(partial(self.put_writes, config, whole_writes(writes), task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the thread's checkpoints and writes.

        Raises:
            StoreError: the database or the disk failed; nothing is deleted.
        """
        await self._whole(partial(self.delete_thread, thread_id))

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

        def work() -> None:
            with self.cursor() as cursor:
                for sql, values in statements:
                    cursor.execute(sql, values)

        await self._whole(work)

    async def _whole(self, work: Callable[[], T]) -> T:
        """Finish `work` on the saver's thread even when the caller is cancelled."""

        async def done() -> T:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)

        with storage_errors(self._path):
            return await whole(done())


@asynccontextmanager
async def open_saver(
    path: Path,
    thread: ThreadPoolExecutor | None = None,
    *,
    power_safe: bool = False,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
) -> AsyncIterator[SearchSaver]:
    """Open the checkpoints in the database `path`, making it first where needed.

    Args:
        path: the database's file; its folder exists.
        thread: an executor of one thread, on which others write to that file; without it the saver has its own.
        power_safe: sync the disk at every checkpoint.
        busy_timeout_s: seconds to wait for another process's write.

    Raises:
        StoreError: locked beyond `busy_timeout_s`, read-only, damaged, or the disk is full.
        UsageError: it belongs to another program or to a newer ksearch.
    """

    def opened(on: ThreadPoolExecutor) -> SearchSaver:
        connect(path, power_safe=power_safe, busy_timeout_s=busy_timeout_s).close()
        with storage_errors(path):
            connection = sqlite3.connect(path, check_same_thread=False)
            try:
                for pragma in pragmas(power_safe, busy_timeout_s):
                    connection.execute(pragma)
                saver = SearchSaver(connection, path, on)
                saver.setup()
            except BaseException:
                connection.close()
                raise
        return saver

    with nullcontext(thread) if thread else ThreadPoolExecutor(1, "ksearch-checkpoints") as on:
        saver = await asyncio.get_running_loop().run_in_executor(on, opened, on)
        try:
            yield saver
        finally:
            await asyncio.get_running_loop().run_in_executor(on, saver.conn.close)
