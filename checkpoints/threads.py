"""Threads: one row per search, its short name, its status and who holds it."""

import difflib
import re
import time
from typing import Any, Literal
from uuid import uuid4

from checkpoints.events import add_event
from checkpoints.holder import Holder, why_gone
from checkpoints.sql import Connection
from evaluators.errors import UsageError
from evaluators.objective import Record

Status = Literal["running", "paused", "finished", "interrupted", "failed"]
LATEST = "latest"
"""Names the thread that was worked on last."""
_COLUMNS = "uuid, name, task, config, created_at, updated_at, status, reason, holder, beat_at"


class Thread(Record):
    """One search."""

    uuid: str
    """LangGraph's thread id."""
    name: str
    """Short and unique, for people: the task's name and a number."""
    task: str
    """Name of the task."""
    config: str
    """Digest of the configuration in force."""
    created_at: float
    """Unix time, seconds."""
    updated_at: float
    """Unix time at which it was last acquired or released, seconds."""
    status: Status
    """`interrupted` also when the row says `running` but the process that held it is gone."""
    reason: str = ""
    """Why it has this status, one line."""
    holder: Holder | None = None
    """The process at work on it, alive or gone."""
    beat_at: float | None = None
    """Unix time at which a process last said that it was at work on it, by the database's clock, seconds."""


def read_threads(connection: Connection) -> list[Thread]:
    """Return all threads, the one worked on last first."""
    rows = connection.execute(f"{_select(connection)} ORDER BY updated_at DESC, created_at DESC")
    return [_thread(row) for row in rows]


def find_thread(connection: Connection, name: str) -> Thread:
    """Return the thread with this name or uuid, the only one that it begins, or the `latest`.

    Raises:
        UsageError: none or several fit; the message names the nearest.
    """
    threads = read_threads(connection)
    if not threads:
        raise UsageError(f"there is no run {name!r}, nor any other yet: start one with `ksearch run TASK`")
    if name == LATEST:
        return threads[0]
    exact = [thread for thread in threads if name in (thread.name, thread.uuid)]
    begun = [thread for thread in threads if name and (thread.name.startswith(name) or thread.uuid.startswith(name))]
    match exact or begun:
        case [thread]:
            return thread
        case []:
            names = [thread.name for thread in threads]
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"the nearest is {near[0]!r}, " if near else ""
            raise UsageError(f"there is no run {name!r}; {hint}`ksearch list` shows all")
        case several:
            fitting = ", ".join(sorted(thread.name for thread in several))
            raise UsageError(f"{name!r} begins several runs: {fitting}; give more of the name")


def _select(connection: Connection) -> str:
    return f"SELECT {_COLUMNS}, {connection.clock} - beat_at FROM threads"


def _thread(row: tuple[Any, ...]) -> Thread:
    uuid, name, task, config, created_at, updated_at, status, reason, held, beat_at, silent_s = row
    holder = Holder.model_validate_json(held) if held else None
    gone = why_gone(holder, silent_s) if status == "running" else ""
    if gone:
        status, reason = "interrupted", gone
    return Thread(
        uuid=uuid,
        name=name,
        task=task,
        config=config,
        created_at=created_at,
        updated_at=updated_at,
        status=status,
        reason=reason,
        holder=holder,
        beat_at=beat_at,
    )


def configure(connection: Connection, uuid: str, config: str) -> None:
    """Set the digest of the configuration in force; a change is recorded as the event `config`."""
    before = get_thread(connection, uuid).config
    if before != config:
        connection.execute("UPDATE threads SET config = ? WHERE uuid = ?", (config, uuid))
        add_event(connection, uuid, "config", {"before": before, "after": config})


def known_thread(connection: Connection, uuid: str) -> Thread | None:
    """Return the thread with exactly this uuid, None when there is none."""
    row = connection.execute(f"{_select(connection)} WHERE uuid = ?", (uuid,)).fetchone()
    return None if row is None else _thread(row)


def get_thread(connection: Connection, uuid: str) -> Thread:
    """Return the thread with exactly this uuid. Raises UsageError when there is none."""
    thread = known_thread(connection, uuid)
    if thread is None:
        raise UsageError(f"there is no run with the id {uuid}: `ksearch list` shows all")
    return thread


def create_thread(
    connection: Connection, task: str, config: str, uuid: str | None = None, name: str | None = None
) -> Thread:
    """Add a thread, paused and held by nobody.

    Args:
        connection: within a transaction.
        task: name of the task.
        config: digest of the configuration.
        uuid: the thread id; None makes one.
        name: what people call it; None takes the task's name and a number.

    Raises:
        UsageError: the uuid or the name is taken, or the name cannot be one.
    """
    uuid = uuid or str(uuid4())
    if connection.execute("SELECT 1 FROM threads WHERE uuid = ?", (uuid,)).fetchone():
        raise UsageError(f"the thread id {uuid} is taken: resume that run, or start one without an id")
    now = time.time()
    chosen = _next_name(connection, task) if name is None else _free_name(connection, name)
    connection.execute(
        "INSERT INTO threads (uuid, name, task, config, created_at, updated_at, status) "
        "VALUES (?, ?, ?, ?, ?, ?, 'paused')",
        (uuid, chosen, task, config, now, now),
    )
    return get_thread(connection, uuid)


def _free_name(connection: Connection, name: str) -> str:
    if name == LATEST or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", name):
        raise UsageError(f"{name!r} cannot be a name: take a letter, then letters, digits, `-`, `_` and `.`, up to 64")
    if connection.execute("SELECT 1 FROM threads WHERE name = ?", (name,)).fetchone():
        raise UsageError(f"the name {name!r} is taken: choose another one; `ksearch list` shows all")
    return name


def _next_name(connection: Connection, task: str) -> str:
    stem = re.sub(r"[^a-z0-9_]+", "-", task.lower()).strip("-") or "run"
    taken = [0]
    for (name,) in connection.execute("SELECT name FROM threads"):
        head, _, number = name.rpartition("-")
        if head == stem and number.isdecimal():
            taken.append(int(number))
    return f"{stem}-{max(taken) + 1}"
