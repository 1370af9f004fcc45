"""Holding a thread: one process at a time works on it, says so now and then, and notices when it was taken over."""

import time

from checkpoints.holder import Holder, out_of_sight, this_process
from checkpoints.sql import Connection
from checkpoints.threads import Status, Thread, get_thread
from evaluators.errors import StoreError, UsageError

HEARTBEAT_S = 5.0
"""How often a process says that it still holds its threads, seconds."""


def acquire(connection: Connection, uuid: str, take_over: bool) -> Thread:
    """Hold the thread for this process, with status running, and return it as it was before.

    Raises:
        UsageError: a live process holds it, or there is no such thread.
    """
    before = get_thread(connection, uuid)
    here = this_process()
    if before.status == "running" and before.holder and not (take_over and out_of_sight(before.holder, here)):
        if before.holder == here:
            raise UsageError(f"{before.name} is already running in this process")
        advice = "take it over" if out_of_sight(before.holder, here) else f"end it (kill {before.holder.pid})"
        raise UsageError(f"{before.name} is held by {before.holder}: wait for it, or {advice}")
    connection.execute(
        f"UPDATE threads SET status = 'running', reason = '', holder = ?, updated_at = ?, beat_at = {connection.clock} "
        "WHERE uuid = ?",
        (here.model_dump_json(), time.time(), uuid),
    )
    connection.execute("DELETE FROM pauses WHERE thread = ?", (uuid,))
    return before


def release(connection: Connection, uuid: str, status: Status, reason: str) -> None:
    """Let the thread go with this status. Raises StoreError when this process does not hold it."""
    thread = get_thread(connection, uuid)
    if thread.status != "running" or thread.holder != this_process():
        raise StoreError(f"{thread.name} is not held by this process but by {thread.holder or 'nobody'}")
    connection.execute(
        "UPDATE threads SET status = ?, reason = ?, holder = NULL, updated_at = ? WHERE uuid = ?",
        (status, reason, time.time(), uuid),
    )


def beat(connection: Connection) -> None:
    """Say that this process still holds the threads that it holds."""
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
