"""The checkpoint saver on PostgreSQL: LangGraph's own, plus copying, whole writes, leases and errors in one line."""

import time
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import DictRow, dict_row

from checkpoints.holder import this_process
from checkpoints.holding import taken_over
from checkpoints.place import ServerHome
from checkpoints.postgres import PATIENCE_S, parameters, server_errors, settings
from checkpoints.rounds import place
from checkpoints.serde import PlainSerializer
from checkpoints.whole import whole, whole_writes

CHECKED_S = 1.0
"""How long to rely on holding a thread without looking again, seconds: far less than a lease. By the wall clock, so
that a process that slept, with its machine or alone, looks first."""
_COPIED = {
    "checkpoints": "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata",
    "checkpoint_blobs": "checkpoint_ns, channel, version, type, blob",
    "checkpoint_writes": "checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob",
}
_OF_RUNS = "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE metadata ->> 'run_id' = ANY(%(runs)s)"
_UNUSED = """
DELETE FROM checkpoint_blobs AS blobs WHERE NOT EXISTS (
    SELECT 1 FROM checkpoints WHERE thread_id = blobs.thread_id AND checkpoint_ns = blobs.checkpoint_ns
    AND checkpoint -> 'channel_versions' ->> blobs.channel = blobs.version
) AND thread_id = ANY(%(threads)s)
"""
_HOLDER = "SELECT name, holder FROM threads WHERE uuid = %s AND (status <> 'running' OR holder IS DISTINCT FROM %s)"


class PostgresSearchSaver(AsyncPostgresSaver):
    """Checkpoints in PostgreSQL. What is put is stored whole, even when the caller is cancelled meanwhile.

    A connection that broke is made anew at the next call. A thread that this process holds and another one has taken
    over is not written to.

    Args:
        connection: in autocommit mode, for this saver alone.
        home: where it leads.
        held: uuids of the threads that this process holds.
        patience_s: seconds to wait for another process's transaction.
    """

    conn: AsyncConnection[Any]

    def __init__(
        self,
        connection: AsyncConnection[Any],
        home: ServerHome,
        held: AbstractSet[str] = frozenset(),
        patience_s: float = PATIENCE_S,
    ) -> None:
        super().__init__(connection, serde=PlainSerializer())
        self._home = home
        self._held = held
        self._patience_s = patience_s
        self._checked: dict[str, float] = {}
        """Thread -> when it was last known to be held by this process, Unix time, seconds."""

    async def setup(self) -> None:
        """Make LangGraph's tables. Several processes may do so at once. Raises StoreError."""
        with server_errors(self._home):
            # In one transaction behind one lock: LangGraph's own setup fails when two processes begin together.
            async with self._cursor(pipeline=False) as cursor, cursor.connection.transaction():
                await cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"ksearch {self._home.schema}",))
                await cursor.execute(self.MIGRATIONS[0].encode())
                await cursor.execute("SELECT coalesce(max(v), -1) AS v FROM checkpoint_migrations")
                row = await cursor.fetchone()
                done = -1 if row is None else int(row["v"])
                for version, step in enumerate(self.MIGRATIONS):
                    if version > done:
                        await cursor.execute(step.replace("CONCURRENTLY ", "").encode())
                        await cursor.execute("INSERT INTO checkpoint_migrations (v) VALUES (%s)", (version,))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint, without an id the latest. Raises StoreError."""
        with server_errors(self._home):
            return await super().aget_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, the newest first. Raises StoreError."""
        with server_errors(self._home):
            async for found in super().alist(config, filter=filter, before=before, limit=limit):
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
            StoreError: the server failed, or another process has taken the thread over; nothing is stored.
            TypeError: the state holds more than plain JSON.
        """
        placed = cast(CheckpointMetadata, {**metadata, **place(checkpoint)})
        with server_errors(self._home):
            await self._check(config)
            return await whole(super().aput(config, checkpoint, placed, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote, all of it or nothing; of one that failed or was cancelled only that it did.

        Raises:
            StoreError: the server failed, or another process has taken the thread over; nothing is stored.
            TypeError: a value is more than plain JSON.
        """
        with server_errors(self._home):
            await self._check(config)
            await whole(super().aput_writes(config, whole_writes(writes), task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete the thread's checkpoints and writes. Raises StoreError; nothing is deleted then."""
        with server_errors(self._home):
            await whole(super().adelete_thread(thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy every checkpoint and every pending write, their order included, to a new thread.

        Raises:
            StoreError: the server failed, or the target has checkpoints; nothing is copied.
        """
        await self._change(
            *(
                (
                    f"INSERT INTO {table} (thread_id, {columns}) SELECT %(target)s, {columns} FROM {table} "
                    "WHERE thread_id = %(source)s",
                    {"source": source_thread_id, "target": target_thread_id},
                )
                for table, columns in _COPIED.items()
            )
        )

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of the threads but the latest of each namespace, or, with `delete`, all.

        Raises:
            StoreError: the server failed.
            ValueError: another strategy.
        """
        with server_errors(self._home):
            await whole(super().aprune(thread_ids, strategy=strategy))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints, and their writes, that were made by these runs. Raises StoreError."""
        runs = {"runs": list(run_ids)}
        with server_errors(self._home):
            async with self._cursor() as cursor:
                found = await cursor.execute(f"SELECT DISTINCT thread_id FROM ({_OF_RUNS}) AS found", runs)
                threads = [row["thread_id"] for row in await found.fetchall()]
        both = ("checkpoint_writes", "checkpoints")
        await self._change(
            *(
                (f"DELETE FROM {table} WHERE (thread_id, checkpoint_ns, checkpoint_id) IN ({_OF_RUNS})", runs)
                for table in both
            ),
            (_UNUSED, {"threads": threads}),
        )

    async def _change(self, *statements: tuple[str, dict[str, Any]]) -> None:
        """Run the statements in one transaction."""

        async def work() -> None:
            async with self._cursor() as cursor, cursor.connection.transaction():
                for sql, values in statements:
                    await cursor.execute(sql.encode(), values)

        with server_errors(self._home):
            await whole(work())

    async def _check(self, config: RunnableConfig) -> None:
        """Raise StoreError when this process began to hold the thread and another one does now."""
        thread = config.get("configurable", {})["thread_id"]
        now = time.time()
        if thread in self._held and abs(now - self._checked.get(thread, 0.0)) > CHECKED_S:
            async with self._cursor() as cursor:
                found = await cursor.execute(_HOLDER, (thread, this_process().model_dump_json()))
                row = await found.fetchone()
            if row is not None:
                raise taken_over(row["name"], row["holder"])
            self._checked[thread] = now

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[AsyncCursor[DictRow]]:
        """Give a cursor to one user at a time; with `pipeline` its statements are one transaction and one trip."""
        async with self.lock:
            if self.conn.closed:
                self.conn = await _connect(self._home, self._patience_s)
            if pipeline:
                async with (
                    self.conn.pipeline(),
                    self.conn.transaction(),
                    self.conn.cursor(binary=True, row_factory=dict_row) as cursor,
                ):
                    yield cursor
            else:
                async with self.conn.cursor(binary=True, row_factory=dict_row) as cursor:
                    yield cursor


async def _connect(home: ServerHome, patience_s: float) -> AsyncConnection[Any]:
    connection = await AsyncConnection.connect(**parameters(home))
    try:
        for statement in settings(home, patience_s):
            await connection.execute(statement)
    except BaseException:  # a cancellation, too: raised again once the connection is closed
        await connection.close()
        raise
    return connection


@asynccontextmanager
async def open_postgres_saver(
    home: ServerHome, held: AbstractSet[str] = frozenset(), *, patience_s: float = PATIENCE_S
) -> AsyncIterator[PostgresSearchSaver]:
    """Open the checkpoints of a home on a server, whose own tables are there already.

    Raises:
        StoreError: the server cannot be reached, or refuses.
    """
    with server_errors(home):
        saver = PostgresSearchSaver(await _connect(home, patience_s), home, held, patience_s)
    try:
        await saver.setup()
        yield saver
    finally:
        await saver.conn.close()
