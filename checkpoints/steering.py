"""What people ask of a thread from outside: edits of its plan, in order, and that it pause.

Edits wait here until the search looks at its plan again, so they can be made while it runs, and a killed process loses
none. The state says up to which one the plan has been brought.
"""

import json
import time
from functools import partial
from typing import Any

from checkpoints.database import Database
from checkpoints.sql import Connection
from evaluators.digest import canonical_json
from evaluators.objective import Record


class Request(Record):
    """One thing that a person asked for."""

    seq: int
    """Counts the thread's requests from 1; branches go on counting where their origin was."""
    data: dict[str, Any]
    at: float
    """Unix time, seconds."""


class Steering:
    """The requests in the database. Every method raises StoreError when the database or the disk fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, uuid: str, data: dict[str, Any]) -> int:
        """Record a request of JSON `data` and return its number."""
        return await self._database.run(partial(add_request, uuid=uuid, data=data))

    async def after(self, uuid: str, seq: int) -> list[Request]:
        """Return the thread's requests after number `seq`, in their order."""
        return await self._database.run(partial(read_requests, uuid=uuid, after=seq), alone=False)

    async def ask_to_pause(self, uuid: str) -> None:
        """Ask whoever runs the thread to pause it at the next boundary; whoever resumes it forgets that."""
        await self._database.run(partial(ask_to_pause, uuid=uuid))

    async def orders(self, uuid: str) -> tuple[str, bool]:
        """Return the digest of the thread's configuration in force, and whether it is asked to pause."""

        def work(connection: Connection) -> tuple[str, bool]:
            (config,) = connection.execute("SELECT config FROM threads WHERE uuid = ?", (uuid,)).fetchone()
            asked = connection.execute("SELECT 1 FROM pauses WHERE thread = ?", (uuid,)).fetchone()
            return config, asked is not None

        return await self._database.run(work, alone=False)


def add_request(connection: Connection, uuid: str, data: dict[str, Any]) -> int:
    """Record a request of JSON `data` and return its number."""
    row = connection.execute(
        "INSERT INTO requests (thread, seq, data, at) "
        "VALUES (?, (SELECT 1 + coalesce(max(seq), 0) FROM requests WHERE thread = ?), ?, ?) RETURNING seq",
        (uuid, uuid, canonical_json(data).decode(), time.time()),
    ).fetchone()
    return int(row[0])


def read_requests(connection: Connection, uuid: str, after: int = 0) -> list[Request]:
    """Return the thread's requests after number `after`, in their order."""
    rows = connection.execute(
        "SELECT seq, data, at FROM requests WHERE thread = ? AND seq > ? ORDER BY seq", (uuid, after)
    )
    return [Request(seq=seq, data=json.loads(data), at=at) for seq, data, at in rows]


def copy_requests(connection: Connection, source: str, target: str, last: int | None) -> None:
    """Give a thread another one's requests, up to number `last`; None: all."""
    connection.execute(
        "INSERT INTO requests (thread, seq, data, at) SELECT ?, seq, data, at FROM requests "
        "WHERE thread = ? AND seq <= coalesce(?, seq)",
        (target, source, last),
    )


def ask_to_pause(connection: Connection, uuid: str) -> None:
    """Ask whoever runs the thread to pause it."""
    connection.execute(
        "INSERT INTO pauses (thread, at) VALUES (?, ?) ON CONFLICT (thread) DO UPDATE SET at = excluded.at",
        (uuid, time.time()),
    )
