"""Retention: round boundaries are kept, checkpoints between them and blobs that nothing refers to are dropped.

What is kept of a thread is enough to look at every round, to branch from it, and to go on: from the last boundary on,
everything stays.
"""

import json
import os
import re
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from checkpoints.database import blob_folder, connect, database_file
from checkpoints.faults import is_code, storage_errors
from checkpoints.rounds import boundaries, read_marks
from checkpoints.threads import Thread, read_threads
from evaluators.objective import Record

GRACE_S = 60.0
"""Blobs younger than this stay: a process may have written them just before the row that refers to them, seconds."""
_DIGEST = re.compile(rb"[0-9a-f]{64}")
_PACKED = re.compile(rb"\xd9@([0-9a-f]{64})")
"""A digest as msgpack writes it, with its length before it."""
_PACKED_LEAF = re.compile(rb"(?:\xa8solution|\xaaevaluation)\xd9@([0-9a-f]{64})")
_QUOTED = re.compile(rb'"([0-9a-f]{64})"')
_LEAF = re.compile(rb'"(?:solution|evaluation)":"([0-9a-f]{64})"')
"""Programs and evaluations refer to nothing further."""
_ALL = "thread_id = ? AND checkpoint_ns = ''"


class Pruned(Record):
    """What was dropped."""

    checkpoints: int = 0
    blobs: int = 0
    freed_bytes: int = 0
    """How much smaller database and blobs have become, bytes."""
    busy: bool = False
    """Other processes were at work, so blobs stayed, or the database's file could not shrink yet."""


def prune(folder: Path, choose: Callable[[sqlite3.Connection], Iterable[Thread]], grace_s: float = GRACE_S) -> Pruned:
    """Drop what is not worth keeping in a folder of runs, and return what that was. Blocks.

    Args:
        folder: The folder of the runs.
        choose: Returns the threads whose checkpoints are pruned. Blobs are those of the whole folder.
        grace_s: Blobs younger than this stay, seconds.

    Raises:
        StoreError: the database or the disk failed; what is needed is still there.
        UsageError: whatever `choose` raises.
    """
    file, blobs = database_file(folder), blob_folder(folder)
    before = database_bytes(folder)
    with closing(connect(file)) as connection, storage_errors(file):
        connection.execute("BEGIN IMMEDIATE")
        try:
            dropped = sum(_prune_thread(connection, thread.uuid) for thread in choose(connection))
            busy = any(thread.status == "running" for thread in read_threads(connection))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        swept = [] if busy else _sweep_alone(connection, blobs, time.time() - grace_s)
        busy = not _shrink(connection) or busy
    freed = before - database_bytes(folder) + sum(swept)
    return Pruned(checkpoints=dropped, blobs=len(swept), freed_bytes=freed, busy=busy)


def database_bytes(folder: Path) -> int:
    """Return the size of the database in a folder of runs, bytes. Raises StoreError."""
    with storage_errors(folder):
        return sum(file.stat().st_size for file in folder.glob("ksearch.sqlite*"))


def every_thread(connection: sqlite3.Connection) -> Sequence[Thread]:
    """Choose all threads."""
    return read_threads(connection)


def _prune_thread(connection: sqlite3.Connection, uuid: str) -> int:
    """Drop a thread's checkpoints between round boundaries up to the last boundary, and return their number."""
    marks = read_marks(connection, uuid)
    kept = {mark.checkpoint for mark in boundaries(marks).values()}
    if not kept:
        return 0
    last = max(kept)
    kept |= {mark.checkpoint for mark in marks if mark.checkpoint >= last}
    dropped = len(marks) - len(kept)
    connection.execute(f"DELETE FROM writes WHERE {_ALL} AND checkpoint_id < ?", (uuid, last))
    if dropped:
        connection.execute(
            f"DELETE FROM checkpoints WHERE {_ALL} AND checkpoint_id NOT IN (SELECT value FROM json_each(?))",
            (uuid, json.dumps(sorted(kept))),
        )
        connection.execute(
            "UPDATE checkpoints SET parent_checkpoint_id = before.id FROM ("
            f"SELECT checkpoint_id AS own, lag(checkpoint_id) OVER (ORDER BY checkpoint_id) AS id FROM checkpoints "
            f"WHERE {_ALL}) AS before "
            f"WHERE {_ALL} AND checkpoint_id = before.own AND parent_checkpoint_id IS NOT before.id",
            (uuid, uuid),
        )
    return dropped


def _sweep_alone(connection: sqlite3.Connection, blobs: Path, until: float) -> list[int]:
    """Drop blobs that nothing refers to, while nobody else can write to the database; return their sizes, bytes."""
    sizes: list[int] = []
    connection.execute("BEGIN IMMEDIATE")
    try:
        alive = _alive(connection, blobs)
        for digest, entry in _files(blobs):
            if digest not in alive and entry.stat().st_mtime < until:
                sizes.append(entry.stat().st_size)
                os.unlink(entry.path)
    finally:
        connection.execute("ROLLBACK")
    return sizes


def _alive(connection: sqlite3.Connection, blobs: Path) -> set[str]:
    """Return every digest that a row holds, and those in the blobs that they name, and so on.

    A digest is known by its looks, whatever record it stands in, so what is kept is never too little.
    """
    alive = {row[0].encode() for row in connection.execute("SELECT result FROM ledger WHERE result IS NOT NULL")}
    waiting: list[bytes] = []
    for found, leaves in (*_packed(connection), *_told(connection)):
        waiting += found - alive - leaves
        alive |= found
    while waiting:
        text = _content(blobs, waiting.pop().decode())
        found = set(_QUOTED.findall(text))
        waiting += (found - alive).difference(_LEAF.findall(text))
        alive |= found
    return {digest.decode() for digest in alive}


def _packed(connection: sqlite3.Connection) -> Iterator[tuple[set[bytes], set[bytes]]]:
    """Yield the digests in each state and pending write, and which of them refer to nothing further."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'writes'").fetchone() is None:
        return  # LangGraph makes its tables itself, a moment after ours
    for sql in ("SELECT checkpoint FROM checkpoints", "SELECT value FROM writes WHERE value IS NOT NULL"):
        for (data,) in connection.execute(sql):
            yield set(_PACKED.findall(data)), set(_PACKED_LEAF.findall(data))


def _told(connection: sqlite3.Connection) -> Iterator[tuple[set[bytes], set[bytes]]]:
    """Yield likewise the digests in our own tables, the ledger's results excepted: those refer to nothing further."""
    for table in ("threads", "events", "requests", "evaluations"):
        for row in connection.execute(f"SELECT * FROM {table}"):
            text = " ".join(cell for cell in row if isinstance(cell, str)).encode()
            yield set(_DIGEST.findall(text)), set()


def _content(blobs: Path, digest: str) -> bytes:
    try:
        with open(f"{blobs}/{digest[:2]}/{digest[2:]}", "rb") as file:
            return zlib.decompress(file.read())
    except (FileNotFoundError, zlib.error):
        return b""  # no blob, or a damaged one, which whoever needs it reports


def _files(blobs: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield digest and file of every blob."""
    if not blobs.is_dir():
        return
    for folder in os.scandir(blobs):
        if len(folder.name) == 2 and folder.is_dir():
            yield from ((folder.name + entry.name, entry) for entry in os.scandir(folder.path) if len(entry.name) == 62)


def _shrink(connection: sqlite3.Connection) -> bool:
    """Give freed space back to the disk and return whether that was possible: not while others read or write."""
    try:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError as error:
        if not is_code(error, sqlite3.SQLITE_BUSY) and not is_code(error, sqlite3.SQLITE_LOCKED):
            raise
        return False
    return True
