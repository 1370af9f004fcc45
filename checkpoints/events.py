"""What happens to a thread and is no part of its state: configurations that change, places in experiments."""

import json
import time
from typing import Any

from checkpoints.sql import Connection
from evaluators.digest import canonical_json
from evaluators.objective import Record

MEMBER = "experiment"
"""Kind of the event that says of which experiment a thread is a part."""


class Event(Record):
    """Something that happened to a thread and is not part of its state, such as a change of its configuration."""

    seq: int
    """Counts the thread's events from 1."""
    kind: str
    data: Any
    at: float
    """Unix time, seconds."""


def read_events(connection: Connection, uuid: str) -> list[Event]:
    """Return the thread's events, oldest first."""
    rows = connection.execute("SELECT seq, kind, data, at FROM events WHERE thread = ? ORDER BY seq", (uuid,))
    return [Event(seq=seq, kind=kind, data=json.loads(data), at=at) for seq, kind, data, at in rows]


def add_event(connection: Connection, uuid: str, kind: str, data: Any) -> int:
    """Record an event of the thread with its JSON data and return its number."""
    row = connection.execute(
        "INSERT INTO events (thread, seq, kind, data, at) "
        "VALUES (?, (SELECT 1 + coalesce(max(seq), 0) FROM events WHERE thread = ?), ?, ?, ?) RETURNING seq",
        (uuid, uuid, kind, canonical_json(data).decode(), time.time()),
    ).fetchone()
    return int(row[0])
