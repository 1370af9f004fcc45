"""Threads: one row per search, its short name, its status, who holds it, its events and its ancestors."""

import difflib
import json
import re
import time
from functools import partial
from typing import Any, Literal
from uuid import uuid4

from checkpoints.database import Database
from checkpoints.holder import Holder, alive, this_process
from checkpoints.sql import Connection
from evaluators.digest import canonical_json
from evaluators.errors import StoreError, UsageError
from evaluators.objective import Record

Status = Literal["running", "paused", "finished", "interrupted", "failed"]
LATEST = "latest"
"""Names the thread that was worked on last."""
MEMBER = "experiment"
"""Kind of the event that says of which experiment a thread is a part."""

HEARTBEAT_S = 5.0
"""How often a process says that it still holds its threads, seconds."""
LEASE_S = 30.0
"""How long a thread stays held by a process out of sight that says nothing, by the database's clock, seconds."""

_COLUMNS = "uuid, name, task, config, created_at, updated_at, status, reason, holder"


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


class Event(Record):
    """Something that happened to a thread and is not part of its state, such as a change of its configuration."""

    seq: int
    """Counts the thread's events from 1."""
    kind: str
    data: Any
    at: float
    """Unix time, seconds."""


class Lineage(Record):
    """Where a thread branched off."""

    child: str
    """uuid of the branch."""
    parent: str
    """uuid of the thread that it came from."""
    checkpoint: str
    """Id of the parent's checkpoint it starts from."""
    round: int
    """The last round that they share."""


class Threads:
    """The threads in the database. Every method raises StoreError when the database or the disk fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, task: str, config: str, uuid: str | None = None, *, name: str | None = None, member: Any = None
    ) -> Thread:
        """Add a thread, paused and held by nobody.

        Args:
            task: name of the task.
            config: digest of the configuration.
            uuid: the thread id, where another system (the LangGraph server) has given it one.
            name: what people call it; left out: the task's name and a number.
            member: its place in an experiment (checkpoints/experiments.py), recorded in the same step.

        Raises:
            UsageError: the uuid or the name is taken, or the name cannot be one.
        """

        def work(connection: Connection) -> Thread:
            thread = create_thread(connection, task=task, config=config, uuid=uuid, name=name)
            if member is not None:
                add_event(connection, thread.uuid, MEMBER, member)
            return thread

        return await self._database.run(work)

    async def find(self, name: str) -> Thread:
        """Return the thread with this name or uuid, the only one that it begins, or the `latest`.

        Raises:
            UsageError: none or several fit; the message names the nearest.
        """
        return await self._database.run(partial(find_thread, name=name), alone=False)

    async def known(self, uuid: str) -> Thread | None:
        """Return the thread with exactly this uuid, None when there is none."""
        return await self._database.run(partial(known_thread, uuid=uuid))

    async def all(self) -> list[Thread]:
        """Return all threads, the one worked on last first."""
        return await self._database.run(read_threads, alone=False)

    async def acquire(self, uuid: str, *, take_over: bool = False) -> Thread:
        """Hold the thread for this process, with status running, and return it as it was before.

        Args:
            uuid: the thread.
            take_over: take it from a holder that cannot be seen from here: on another machine, in another container.

        Raises:
            UsageError: a live process holds it, or there is no such thread.
        """
        before = await self._database.run(partial(_acquire, uuid=uuid, take_over=take_over))
        self._database.held.add(uuid)
        return before

    async def release(self, uuid: str, status: Status, reason: str = "") -> None:
        """Let the thread go with this status.

        Raises:
            StoreError: this process does not hold it (another has taken it over).
        """
        self._database.held.discard(uuid)
        await self._database.run(partial(_release, uuid=uuid, status=status, reason=reason))

    async def beat(self) -> None:
        """Say that this process still holds the threads that it holds: once in HEARTBEAT_S."""
        if self._database.held:
            await self._database.run(_beat, alone=False)

    async def configure(self, uuid: str, config: str) -> None:
        """Set the digest of the configuration in force; a change is recorded as the event `config`."""
        await self._database.run(partial(configure, uuid=uuid, config=config))

    async def add_event(self, uuid: str, kind: str, data: Any) -> int:
        """Record an event of the thread with its JSON data and return its number."""
        return await self._database.run(partial(add_event, uuid=uuid, kind=kind, data=data))

    async def events(self, uuid: str) -> list[Event]:
        """Return the thread's events, oldest first."""
        return await self._database.run(partial(read_events, uuid=uuid), alone=False)

    async def ancestors(self, uuid: str) -> list[Lineage]:
        """Return where the thread branched off, where its parent did, and so on."""
        return await self._database.run(partial(read_ancestors, uuid=uuid), alone=False)


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
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
            raise UsageError(f"there is no run {name!r}; the nearest is {near[0]!r}, `ksearch list` shows all")
        case several:
            fitting = ", ".join(sorted(thread.name for thread in several))
            raise UsageError(f"{name!r} begins several runs: {fitting}; give more of the name")


def read_events(connection: Connection, uuid: str) -> list[Event]:
    """Return the thread's events, oldest first."""
    rows = connection.execute("SELECT seq, kind, data, at FROM events WHERE thread = ? ORDER BY seq", (uuid,))
    return [Event(seq=seq, kind=kind, data=json.loads(data), at=at) for seq, kind, data, at in rows]


def add_lineage(connection: Connection, lineage: Lineage) -> None:
    """Record where a thread branched off, which happens once."""
    connection.execute(
        "INSERT INTO lineage (child, parent, checkpoint, round) VALUES (?, ?, ?, ?)",
        (lineage.child, lineage.parent, lineage.checkpoint, lineage.round),
    )


def read_ancestors(connection: Connection, uuid: str) -> list[Lineage]:
    """Return where the thread branched off, where its parent did, and so on."""
    found: list[Lineage] = []
    child = uuid
    while True:
        row = connection.execute("SELECT parent, checkpoint, round FROM lineage WHERE child = ?", (child,)).fetchone()
        if row is None:
            return found
        found.append(Lineage(child=child, parent=row[0], checkpoint=row[1], round=row[2]))
        child = row[0]


def _select(connection: Connection) -> str:
    return f"SELECT {_COLUMNS}, {connection.clock} - beat_at FROM threads"


def _thread(row: tuple[Any, ...]) -> Thread:
    uuid, name, task, config, created_at, updated_at, status, reason, held, silent_s = row
    holder = Holder.model_validate_json(held) if held else None
    if status == "running" and (holder is None or not alive(holder)):
        status, reason = "interrupted", f"{holder or 'its process'} ended without releasing it"
    elif status == "running" and holder and silent_s and silent_s > LEASE_S and _out_of_sight(holder, this_process()):
        status, reason = "interrupted", f"{holder} has said nothing for {silent_s:.0f} s"
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
    )


def configure(connection: Connection, uuid: str, config: str) -> None:
    """Set the digest of the configuration in force; a change is recorded as the event `config`."""
    before = _get(connection, uuid).config
    if before != config:
        connection.execute("UPDATE threads SET config = ? WHERE uuid = ?", (config, uuid))
        add_event(connection, uuid, "config", {"before": before, "after": config})


def known_thread(connection: Connection, uuid: str) -> Thread | None:
    """Return the thread with exactly this uuid, None when there is none."""
    row = connection.execute(f"{_select(connection)} WHERE uuid = ?", (uuid,)).fetchone()
    return None if row is None else _thread(row)


def _get(connection: Connection, uuid: str) -> Thread:
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
    return _get(connection, uuid)


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


def _acquire(connection: Connection, uuid: str, take_over: bool) -> Thread:
    before = _get(connection, uuid)
    here = this_process()
    if before.status == "running" and before.holder and not (take_over and _out_of_sight(before.holder, here)):
        if before.holder == here:
            raise UsageError(f"{before.name} is already running in this process")
        advice = "take it over" if _out_of_sight(before.holder, here) else f"end it (kill {before.holder.pid})"
        raise UsageError(f"{before.name} is held by {before.holder}: wait for it, or {advice}")
    connection.execute(
        f"UPDATE threads SET status = 'running', reason = '', holder = ?, updated_at = ?, beat_at = {connection.clock} "
        "WHERE uuid = ?",
        (here.model_dump_json(), time.time(), uuid),
    )
    connection.execute("DELETE FROM pauses WHERE thread = ?", (uuid,))
    return before


def _out_of_sight(holder: Holder, here: Holder) -> bool:
    return (holder.host, holder.space) != (here.host, here.space)


def _beat(connection: Connection) -> None:
    connection.execute(
        f"UPDATE threads SET beat_at = {connection.clock} WHERE status = 'running' AND holder = ?",
        (this_process().model_dump_json(),),
    )


def require_held(connection: Connection, uuid: str) -> None:
    """Raise StoreError when this process, which acquired the thread, does not hold it any more."""
    name, status, held = connection.execute(
        "SELECT name, status, holder FROM threads WHERE uuid = ?", (uuid,)
    ).fetchone()
    if status != "running" or held != this_process().model_dump_json():
        raise taken_over(name, held)


def taken_over(name: str, held: str | None) -> StoreError:
    """Return the error of a process that has lost a thread; `held` is the new holder's record."""
    whose = Holder.model_validate_json(held) if held else "another process, which has ended"
    return StoreError(f"{name} was taken over by {whose}: what this process did until then is kept; it stops here")


def _release(connection: Connection, uuid: str, status: Status, reason: str) -> None:
    thread = _get(connection, uuid)
    if thread.status != "running" or thread.holder != this_process():
        raise StoreError(f"{thread.name} is not held by this process but by {thread.holder or 'nobody'}")
    connection.execute(
        "UPDATE threads SET status = ?, reason = ?, holder = NULL, updated_at = ? WHERE uuid = ?",
        (status, reason, time.time(), uuid),
    )


def add_event(connection: Connection, uuid: str, kind: str, data: Any) -> int:
    """Record an event of the thread with its JSON data and return its number."""
    row = connection.execute(
        "INSERT INTO events (thread, seq, kind, data, at) "
        "VALUES (?, (SELECT 1 + coalesce(max(seq), 0) FROM events WHERE thread = ?), ?, ?, ?) RETURNING seq",
        (uuid, uuid, kind, canonical_json(data).decode(), time.time()),
    ).fetchone()
    return int(row[0])
