"""Fast readers for the command line: what a thread looks like now, without importing LangGraph."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from checkpoints.branching import paid_until
from checkpoints.database import database_place, has_runs, open_reader
from checkpoints.events import Event, read_events
from checkpoints.faults import storage_errors
from checkpoints.ledger import Entry, read_entries
from checkpoints.lineage import Lineage, read_ancestors
from checkpoints.packed import EDGE, planned, unpack
from checkpoints.place import Place
from checkpoints.rounds import NOW, boundaries, find_point, read_marks, unpacked
from checkpoints.sql import Connection, Saved
from checkpoints.steering import Request, read_requests
from checkpoints.threads import Thread, find_thread, read_threads
from evaluators.errors import UsageError
from evaluators.objective import Record

_INTERRUPT, _ERROR = "__interrupt__", "__error__"
_UNFINISHED = (_INTERRUPT, _ERROR, "__resume__")
"""Writes that do not finish a task."""


class Interrupt(Record):
    """A question that the thread waits for an answer to."""

    id: str
    value: Any


class Snapshot(Record):
    """A thread at one checkpoint."""

    thread: Thread
    checkpoint: str | None = None
    """Id of the checkpoint; None when the thread has none yet."""
    step: int | None = None
    """LangGraph's count of supersteps; -1 is the input."""
    at: str = ""
    """When it was written, ISO 8601."""
    values: dict[str, Any] = {}
    """The state as the checkpoint holds it: without results of a step that is only half done."""
    next: tuple[str, ...] = ()
    """Nodes that run next, one entry for each Send that is not done; empty when the graph has ended."""
    interrupts: tuple[Interrupt, ...] = ()
    errors: tuple[str, ...] = ()
    """What failed tasks of this step raised."""


class ThreadRecord(Record):
    """What is recorded of a thread beside its state."""

    thread: Thread
    ancestors: tuple[Lineage, ...]
    """Where it branched off, where its parent did, and so on."""
    events: tuple[Event, ...]
    """Oldest first."""
    entries: tuple[Entry, ...]
    """Paid calls, by round, cycle, sample, role and turn."""
    requests: tuple[Request, ...] = ()
    """What people asked for; none in a past view."""


def read_state(home: Place, name: str) -> dict[str, Any]:
    """Return the latest state of the thread, empty when it has none yet.

    Args:
        home: the folder of the runs.
        name: the thread's name, uuid, a unique beginning of either, or `latest`.

    Raises:
        StoreError: the database cannot be read.
        UsageError: there is no such thread, or the database is not ours.
    """
    return read_snapshot(home, name).values


def read_snapshot(home: Place, name: str, at: str = NOW) -> Snapshot:
    """Return the thread as it is now, or as it was.

    Arguments and errors are those of `read_state`; `at` is a round, a checkpoint's id or its beginning, or `now`.
    """
    with _reading(home) as connection:
        thread = find_thread(connection, name)
        if at == NOW:
            return _latest(connection, thread)
        point = find_point(read_marks(connection, thread.uuid), thread, at)
        saved = connection.tables.find(connection, thread.uuid, point.mark.checkpoint)
        return Snapshot(thread=thread) if saved is None else _snapshot(connection, thread, saved, past=True)


def read_states(home: Place) -> list[Snapshot]:
    """Return every thread as it is now, the one worked on last first; none when there is no such folder.

    Raises:
        StoreError: the database cannot be read.
        UsageError: the database is not ours.
    """
    if not has_runs(home):
        return []
    with _reading(home) as connection:
        return [_latest(connection, thread) for thread in read_threads(connection)]


def read_known(home: Place) -> list[Thread]:
    """Return every thread without its state, the one worked on last first. Errors are those of `read_states`."""
    if not has_runs(home):
        return []
    with _reading(home) as connection:
        return read_threads(connection)


def read_lineages(home: Place) -> dict[str, Lineage]:
    """Return uuid -> where that thread branched off, of every branch. Errors are those of `read_states`."""
    if not has_runs(home):
        return {}
    with _reading(home) as connection:
        rows = connection.execute("SELECT child, parent, checkpoint, round FROM lineage")
        return {row[0]: Lineage(child=row[0], parent=row[1], checkpoint=row[2], round=row[3]) for row in rows}


def read_rounds(home: Place, name: str) -> Iterator[dict[str, Any]]:
    """Yield the thread's state at the end of each round, the oldest first, and its latest one.

    Arguments and errors are those of `read_state`.
    """
    with _reading(home) as connection:
        thread = find_thread(connection, name)
        marks = read_marks(connection, thread.uuid)
        ends = {mark.checkpoint for mark in boundaries(marks).values()} | {mark.checkpoint for mark in marks[-1:]}
        for checkpoint in sorted(ends):
            values = unpacked(connection, thread.uuid, checkpoint)["channel_values"]
            yield {name: value for name, value in values.items() if not name.startswith(("__", EDGE))}


def read_record(home: Place, name: str, at: str = NOW) -> ThreadRecord:
    """Return what is recorded of the thread beside its state, paid calls as far as they were made until `at`.

    Arguments and errors are those of `read_snapshot`.
    """
    with _reading(home) as connection:
        thread = find_thread(connection, name)
        where, values = "1 = 1", list[str | int]()
        if at != NOW:
            where, values = paid_until(find_point(read_marks(connection, thread.uuid), thread, at))
        return ThreadRecord(
            thread=thread,
            ancestors=tuple(read_ancestors(connection, thread.uuid)),
            events=tuple(read_events(connection, thread.uuid)),
            requests=tuple(read_requests(connection, thread.uuid)) if at == NOW else (),
            entries=tuple(read_entries(connection, f"thread = ? AND ({where})", (thread.uuid, *values))),
        )


def read_ledger(home: Place, owner: str) -> tuple[Entry, ...]:
    """Return the paid calls of `owner` (a thread or not), the latest first; none when there is no such folder.

    Raises:
        StoreError: the database cannot be read.
        UsageError: the database is not ours.
    """
    if not has_runs(home):
        return ()
    with _reading(home) as connection:
        entries = read_entries(connection, "thread = ?", (owner,))
    return tuple(sorted(entries, key=lambda entry: entry.started_at, reverse=True))


@contextmanager
def _reading(home: Place) -> Iterator[Connection]:
    """Open the database for one consistent view of it."""
    if not has_runs(home):
        raise UsageError(f"there are no runs in {home} yet: start one with `ksearch run TASK`, or name another folder")
    with closing(open_reader(home)) as connection, storage_errors(database_place(home)):
        connection.begin_reading()
        yield connection


def _latest(connection: Connection, thread: Thread) -> Snapshot:
    saved = connection.tables.find(connection, thread.uuid) if connection.tables.exist(connection) else None
    return Snapshot(thread=thread) if saved is None else _snapshot(connection, thread, saved)


def _snapshot(connection: Connection, thread: Thread, saved: Saved, *, past: bool = False) -> Snapshot:
    checkpoint, metadata = saved.checkpoint, saved.metadata
    writes = connection.tables.writes(connection, thread.uuid, saved.name)
    done = {path for path, channel, _, _ in writes if channel not in _UNFINISHED}
    unanswered = [
        (channel, unpack(value))
        for path, channel, kind, value in writes
        if path not in done and channel in (_INTERRUPT, _ERROR) and kind == "msgpack"
    ]
    channels = checkpoint["channel_values"]
    return Snapshot(
        thread=thread,
        checkpoint=saved.name,
        step=metadata.get("step"),
        at=checkpoint["ts"],
        values={name: value for name, value in channels.items() if not name.startswith(("__", EDGE))},
        next=tuple(node for path, node in planned(checkpoint) if past or path not in done),
        interrupts=tuple(
            Interrupt(id=item["data"]["id"], value=item["data"]["value"])
            for channel, items in unanswered
            if channel == _INTERRUPT
            for item in items
        ),
        errors=tuple(str(error) for channel, error in unanswered if channel == _ERROR),
    )
