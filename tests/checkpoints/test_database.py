"""The connection: whole transactions, and work that a cancellation does not undo."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from checkpoints.database import Database, open_database
from checkpoints.sql import Connection
from evaluators.errors import StoreError


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(tmp_path) as opened:
        yield opened


def add(connection: Connection, kind: str = "note") -> None:
    connection.execute("INSERT INTO events SELECT 't', 1 + coalesce(max(seq), 0), ?, 'null', 0 FROM events", (kind,))


def kinds(connection: Connection) -> list[str]:
    return [kind for (kind,) in connection.execute("SELECT kind FROM events ORDER BY seq")]


async def test_work_is_whole_or_not_at_all(database: Database) -> None:
    def half(connection: Connection) -> None:
        add(connection, "half")
        raise LookupError("no second half")

    def broken(connection: Connection) -> None:
        add(connection, "broken")
        connection.execute("INSERT INTO events VALUES ('t', 1, 'twice', 'null', 0)")

    await database.run(add)
    with pytest.raises(LookupError):
        await database.run(half)
    with pytest.raises(StoreError, match="UNIQUE constraint failed"):
        await database.run(broken)
    await database.run(add)
    assert await database.run(kinds) == ["note", "note"]


async def test_work_that_waits_its_turn_is_done_although_its_caller_is_cancelled(database: Database) -> None:
    cancelled = threading.Event()
    busy = asyncio.create_task(database.run(lambda connection: cancelled.wait(200)))
    waiting = asyncio.create_task(database.run(add))
    await asyncio.sleep(0)  # both have been handed over
    waiting.cancel()
    cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await busy
    assert await database.run(kinds) == ["note"]


async def test_work_handed_over_is_done_before_the_database_closes(tmp_path: Path) -> None:
    async with open_database(tmp_path) as database:
        tasks = [asyncio.create_task(database.run(add)) for _ in range(20)]
        await asyncio.sleep(0)
    async with open_database(tmp_path) as database:
        assert len(await database.run(kinds)) == 20
    await asyncio.gather(*tasks)


async def test_a_closed_database_refuses_work(tmp_path: Path) -> None:
    async with open_database(tmp_path) as database:
        pass
    with pytest.raises(RuntimeError, match="after shutdown"):
        await database.run(add)


async def test_what_a_transaction_has_read_still_holds_when_it_writes(database: Database, tmp_path: Path) -> None:
    read = threading.Event()

    def slow(connection: Connection) -> None:
        before = kinds(connection)
        read.set()
        time.sleep(0.2)  # time for the rival to write, could it do so
        add(connection, f"after {len(before)}")

    async with open_database(tmp_path) as rival:
        reading = asyncio.create_task(database.run(slow))
        assert await asyncio.to_thread(read.wait, 60)
        await rival.run(add)
        await reading
        assert await rival.run(kinds) == ["after 0", "note"]


async def test_a_new_database_waits_for_whoever_makes_it_at_the_same_time(tmp_path: Path) -> None:
    maker = sqlite3.connect(tmp_path / "ksearch.sqlite", isolation_level=None)
    maker.execute("BEGIN IMMEDIATE")
    asyncio.get_running_loop().call_later(0.3, maker.execute, "ROLLBACK")
    async with open_database(tmp_path) as database:
        await database.run(add)
    maker.close()
