"""Branches: a new thread with another one's history up to a checkpoint, to go on from there by itself."""

from typing import Any

from checkpoints.database import Database
from checkpoints.events import MEMBER, add_event
from checkpoints.lineage import Lineage, add_lineage
from checkpoints.rounds import Point, boundaries, find_point, read_marks, unpacked
from checkpoints.sql import Connection
from checkpoints.steering import copy_requests
from checkpoints.threads import Thread, create_thread, find_thread
from evaluators.objective import Record

_PAID_WITHIN = {
    "evaluate": ("coder",),
    "check_stagnation": ("coder", "evaluator"),
}
"""Node that runs next -> roles whose calls of the round under way were made before it."""
_PAID_AFTER = {"update_world_model": ("planner", "review")}
"""Node that runs next -> roles whose calls of the round that has ended are made by it."""


class Origin(Record):
    """What a branch is made from."""

    thread: Thread
    point: Point
    config: str
    """Digest of the configuration that was in force there."""


class Fork(Record):
    """How the branch differs from its origin."""

    config: str
    """Digest of the configuration in force from there on."""
    options: dict[str, Any] = {}
    """What was changed in it, for the record."""
    name: str | None = None
    """What people call the branch; None takes the task's name and a number."""
    member: Any = None
    """Its place in an experiment, recorded in the same step."""


def read_origin(connection: Connection, name: str, at: str) -> Origin:
    """Return the thread `name` at the checkpoint `at`.

    Raises:
        UsageError: there is no such thread or checkpoint.
    """
    thread = find_thread(connection, name)
    point = find_point(read_marks(connection, thread.uuid), thread, at)
    config = thread.config
    if not point.latest:
        config = _state_config(connection, thread, point) or config
    return Origin(thread=thread, point=point, config=config)


async def branch(database: Database, origin: Origin, fork: Fork) -> Thread:
    """Make the branch and return it, paused, or finished where its origin had.

    It gets the round boundaries of its ancestor, the checkpoint itself and what was paid for until then. What the step
    after the checkpoint has already brought is copied only from the thread's latest checkpoint, and only when the
    configuration stays as it is: under another one the step is made anew. Blobs are shared.

    Raises:
        StoreError: the database or the disk failed; nothing is made.
        UsageError: the name is taken or cannot be one, or the checkpoint has been dropped meanwhile.
    """

    def work(connection: Connection) -> Thread:
        return _branch(connection, origin, fork)

    return await database.run(work)


def _branch(connection: Connection, origin: Origin, fork: Fork) -> Thread:
    source, mark = origin.thread, origin.point.mark
    marks = read_marks(connection, source.uuid)
    find_point(marks, source, mark.checkpoint)
    as_it_is = origin.point.latest and fork.config == origin.config
    thread = create_thread(connection, source.task, fork.config, name=fork.name)
    kept = {item.checkpoint for item in boundaries(marks).values() if item.checkpoint < mark.checkpoint}
    connection.tables.copy(connection, source.uuid, thread.uuid, {*kept, mark.checkpoint})
    if as_it_is:
        connection.tables.copy_writes(connection, source.uuid, thread.uuid, mark.checkpoint)
    _copy_ledger(connection, source.uuid, thread.uuid, origin.point, everything=as_it_is)
    # What waits at the origin's latest checkpoint waits at the branch as well.
    copy_requests(connection, source.uuid, thread.uuid, None if origin.point.latest else _steered(connection, origin))
    round_ = origin.point.round
    add_lineage(connection, Lineage(child=thread.uuid, parent=source.uuid, checkpoint=mark.checkpoint, round=round_))
    made = {"parent": source.name, "checkpoint": mark.checkpoint, "round": round_, "options": fork.options}
    add_event(connection, thread.uuid, "branch", made)
    if fork.member is not None:
        add_event(connection, thread.uuid, MEMBER, fork.member)
    if mark.round is not None and not mark.next:
        reason = source.reason if origin.point.latest else f"as {source.name} had in round {round_}"
        connection.execute("UPDATE threads SET status = 'finished', reason = ? WHERE uuid = ?", (reason, thread.uuid))
    return find_thread(connection, thread.uuid)


def _steered(connection: Connection, origin: Origin) -> int:
    """Return up to which of people's requests the plan had been brought."""
    values = unpacked(connection, origin.thread.uuid, origin.point.mark.checkpoint)["channel_values"]
    return int(values.get("steered", 0))


def _state_config(connection: Connection, thread: Thread, point: Point) -> str | None:
    config: str | None = unpacked(connection, thread.uuid, point.mark.checkpoint)["channel_values"].get("config")
    return config


def _copy_ledger(connection: Connection, source: str, target: str, point: Point, *, everything: bool) -> None:
    """Copy what was paid for until the point. Calls that were never finished stay with the thread that began them."""
    where, values = ("1 = 1", []) if everything else paid_until(point)
    columns = "round, cycle, sample, role, turn, request, calls, started_at, finished_at, result, spend"
    connection.execute(
        f"INSERT INTO ledger (thread, {columns}) SELECT ?, {columns} FROM ledger "
        f"WHERE thread = ? AND result IS NOT NULL AND ({where})",
        (target, source, *values),
    )


def paid_until(point: Point) -> tuple[str, list[str | int]]:
    """Return the condition on the ledger, and its values, for calls that were made before the point."""
    if point.mark.round is None:
        return "1 = 0", []
    node = point.mark.next[0] if point.mark.next else ""
    within, after = _PAID_WITHIN.get(node, ()), _PAID_AFTER.get(node, ())
    round_ = point.round
    return (
        f"(round <= ? AND NOT (round = ? AND role IN ({_marks(after)}))) OR (round = ? AND role IN ({_marks(within)}))",
        [round_, round_, *after, round_ + 1, *within],
    )


def _marks(values: tuple[str, ...]) -> str:
    # PostgreSQL knows no empty list; no role has an empty name.
    return ", ".join("?" for _ in values) or "''"
