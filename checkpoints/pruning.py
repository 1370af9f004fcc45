"""Retention: round boundaries are kept, checkpoints between them and blobs that nothing refers to are dropped.

What is kept of a thread is enough to look at every round, to branch from it, and to go on: from the last boundary on,
everything stays.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing

from checkpoints.blobs import BlobStore
from checkpoints.database import database_place, open_blobs, open_connection, open_reader
from checkpoints.faults import storage_errors
from checkpoints.place import Place, ServerHome
from checkpoints.rounds import boundaries, read_marks
from checkpoints.sql import Connection
from checkpoints.threads import Thread, read_threads
from evaluators.objective import Record

GRACE_S = 60.0
"""Blobs younger than this stay: a process may have written them just before the row that refers to them, seconds."""
_DIGEST = re.compile(rb"[0-9a-f]{64}")
_PACKED = re.compile(rb"\xd9@([0-9a-f]{64})")
"""A digest as msgpack writes it, with its length before it."""
_PACKED_LEAF = re.compile(rb"(?:\xa8solution|\xaaevaluation)\xd9@([0-9a-f]{64})")
_QUOTED = re.compile(rb'"([0-9a-f]{64})"')
_LEAVES = (b'"solution":', b'"evaluation":')
"""Programs and evaluations refer to nothing further."""


class Pruned(Record):
    """What was dropped."""

    checkpoints: int = 0
    blobs: int = 0
    freed_bytes: int = 0
    """How much smaller database and blobs have become, bytes."""
    busy: bool = False
    """Other processes were at work, so blobs stayed, or the database's file could not shrink yet."""


def prune(folder: Place, choose: Callable[[Connection], Iterable[Thread]], grace_s: float = GRACE_S) -> Pruned:
    """Drop what is not worth keeping in a folder of runs, and return what that was. Blocks.

    Args:
        folder: The folder of the runs.
        choose: Returns the threads whose checkpoints are pruned. Blobs are those of the whole folder.
        grace_s: Blobs younger than this stay, seconds.

    Raises:
        StoreError: the database or the disk failed; what is needed is still there.
        UsageError: whatever `choose` raises.
    """
    before = database_bytes(folder)
    blobs = open_blobs(folder)
    with closing(open_connection(folder)) as connection, storage_errors(database_place(folder)):
        connection.begin()
        try:
            dropped = sum(_prune_thread(connection, thread.uuid) for thread in choose(connection))
            busy = any(thread.status == "running" for thread in read_threads(connection))
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        swept = [] if busy else _sweep_alone(connection, blobs, time.time() - grace_s)
        busy = not connection.shrink() or busy
    freed = before - database_bytes(folder) + sum(swept)
    return Pruned(checkpoints=dropped, blobs=len(swept), freed_bytes=freed, busy=busy)


def database_bytes(folder: Place) -> int:
    """Return the size of the database of a home, bytes. Raises StoreError."""
    if isinstance(folder, ServerHome):
        with closing(open_reader(folder)) as connection:
            rows = connection.execute(
                "SELECT coalesce(sum(pg_total_relation_size(quote_ident(tablename)::regclass)), 0) "
                "FROM pg_tables WHERE schemaname = current_schema()"
            )
            return int(rows.fetchone()[0])
    with storage_errors(folder):
        return sum(file.stat().st_size for file in folder.glob("ksearch.sqlite*"))


def every_thread(connection: Connection) -> Sequence[Thread]:
    """Choose all threads."""
    return read_threads(connection)


def _prune_thread(connection: Connection, uuid: str) -> int:
    """Drop a thread's checkpoints between round boundaries up to the last boundary, and return their number."""
    marks = read_marks(connection, uuid)
    kept = {mark.checkpoint for mark in boundaries(marks).values()}
    if not kept:
        return 0
    last = max(kept)
    kept |= {mark.checkpoint for mark in marks if mark.checkpoint >= last}
    dropped = len(marks) - len(kept)
    connection.tables.keep(connection, uuid, kept, last)
    return dropped


def _sweep_alone(connection: Connection, blobs: BlobStore, until: float) -> list[int]:
    """Drop blobs that nothing refers to, while nobody else can write to the database; return their sizes, bytes."""
    sizes: list[int] = []
    connection.begin_stopping_writers()
    try:
        alive = _alive(connection, blobs)
        for digest, size, modified in blobs.stored():
            if digest not in alive and modified < until:
                sizes.append(size)
                blobs.drop(digest)
    finally:
        connection.rollback()
    return sizes


def _alive(connection: Connection, blobs: BlobStore) -> set[str]:
    """Return every digest that a row holds, and those in the blobs that they name, and so on.

    A digest is known by its looks, whatever record it stands in, so what is kept is never too little.
    """
    alive = {row[0].encode() for row in connection.execute("SELECT result FROM ledger WHERE result IS NOT NULL")}
    waiting: list[bytes] = []
    for found, leaves in (*_packed(connection), *_told(connection)):
        waiting += found - alive - leaves
        alive |= found
    while waiting:
        found, leaves = _quoted(blobs.glance(waiting.pop().decode()))
        waiting += found - alive - leaves
        alive |= found
    return {digest.decode() for digest in alive}


def _packed(connection: Connection) -> Iterator[tuple[set[bytes], set[bytes]]]:
    """Yield the digests in each state and pending write, and which of them refer to nothing further."""
    for data in connection.tables.contents(connection):
        if data.startswith(b'{"'):
            yield _quoted(data)
        else:
            yield set(_PACKED.findall(data)), set(_PACKED_LEAF.findall(data))


def _quoted(text: bytes) -> tuple[set[bytes], set[bytes]]:
    """Return the digests in a compact JSON text, and which of them refer to nothing further."""
    found, leaves = set(), set()
    for match in _QUOTED.finditer(text):
        found.add(match[1])
        if text.endswith(_LEAVES, 0, match.start()):
            leaves.add(match[1])
    return found, leaves


def _told(connection: Connection) -> Iterator[tuple[set[bytes], set[bytes]]]:
    """Yield likewise the digests in our own tables, the ledger's results excepted: those refer to nothing further."""
    for table in ("threads", "events", "requests", "evaluations"):
        for row in connection.execute(f"SELECT * FROM {table}"):
            text = " ".join(cell for cell in row if isinstance(cell, str)).encode()
            yield set(_DIGEST.findall(text)), set()
