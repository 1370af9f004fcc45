"""Retention: round boundaries are kept, checkpoints between them and blobs that nothing refers to are dropped.

What is kept of a thread is enough to look at every round, to branch from it, and to go on: from the last boundary on,
everything stays.
"""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import NamedTuple

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


class Looks(NamedTuple):
    """How digests stand in one kind of text."""

    digest: re.Pattern[bytes]
    lead: int = 0
    """Bytes of it before the digest."""
    leaves: tuple[bytes, ...] = ()
    """What stands before a program or an evaluation: those refer to nothing further."""


_PACKED = Looks(re.compile(rb"\xd9@([0-9a-f]{64})"), 2, (b"\xa8solution", b"\xaaevaluation"))
"""As msgpack writes them, with their length before them."""
_QUOTED = Looks(re.compile(rb'"([0-9a-f]{64})"'), 1, (b'"solution":', b'"evaluation":'))
"""In compact JSON."""
_BARE = Looks(re.compile(rb"[0-9a-f]{64}"))


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
        except BaseException:  # an interrupt, too: raised again once nothing is half dropped
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
    # The ledger's results refer to nothing further.
    alive = {
        row[0].encode() for row in connection.execute("SELECT DISTINCT result FROM ledger WHERE result IS NOT NULL")
    }
    waiting: list[bytes] = []
    for data in connection.tables.contents(connection):
        waiting += _news(data, _QUOTED if data.startswith(b'{"') else _PACKED, alive)
    for table in ("threads", "events", "requests", "evaluations"):
        for row in connection.execute(f"SELECT * FROM {table}"):
            waiting += _news(" ".join(cell for cell in row if isinstance(cell, str)).encode(), _BARE, alive)
    while waiting:
        waiting += _news(blobs.glance(waiting.pop().decode()), _QUOTED, alive)
    return {digest.decode() for digest in alive}


def _news(text: bytes, looks: Looks, alive: set[bytes]) -> list[bytes]:
    """Add the digests in a text to those that are alive, and return the new ones that may refer to more.

    Most texts bring nothing new, so where a digest stands is looked at only when it is.
    """
    new = set(looks.digest.findall(text)) - alive
    alive |= new
    return [digest for digest in new if not text.endswith(looks.leaves, 0, text.index(digest) - looks.lead)]
