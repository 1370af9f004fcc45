"""Experiments in the database: which threads are part of one, its plan, and when it was worked on.

There is no table of them. A thread says of which experiment it is a part in an event of its own; what concerns all of
them are events of a thread that no search has, `experiment:NAME`.
"""

import json
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise
from typing import Any

from checkpoints.database import Database, database_place, has_runs, open_reader
from checkpoints.events import MEMBER, add_event, read_events
from checkpoints.faults import storage_errors
from checkpoints.place import Place
from checkpoints.sql import Connection
from checkpoints.threads import Thread, read_threads
from evaluators.errors import UsageError
from evaluators.objective import Record

_VISIT = "visit"


class Member(Record):
    """A thread's place in an experiment."""

    experiment: str
    cell: str
    unit: str
    """What it has in common with one search of each other cell."""
    evaluations: int = 0
    """Spent before it began: a branch starts with its ancestor's account."""
    tokens: int = 0
    usd: float = 0.0
    attempts: int = 0
    """Samples drawn before it began."""


class Experiments:
    """The experiments in the database. Every method raises StoreError when the database or the disk fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, name: str, plan: str) -> float:
        """Record a visit under a plan (a blob's digest) and return how long earlier ones took, seconds."""

        def work(connection: Connection) -> float:
            before = elapsed_s(connection, name)
            add_event(connection, _own(name), _VISIT, {"plan": plan})
            return before

        return await self._database.run(work)

    async def members(self, name: str) -> list[tuple[Member, Thread]]:
        """Return the threads of an experiment, in the order in which they were made."""
        return await self._database.run(partial(read_members, name=name))


def read_members(connection: Connection, name: str) -> list[tuple[Member, Thread]]:
    """Return the threads of an experiment, in the order in which they were made."""
    sql = "SELECT thread, data FROM events WHERE kind = ? ORDER BY at, thread"
    rows = connection.execute(sql, (MEMBER,)).fetchall()
    found = [(thread, Member.model_validate(json.loads(data))) for thread, data in rows]
    threads = {thread.uuid: thread for thread in read_threads(connection)}
    return [(member, threads[uuid]) for uuid, member in found if member.experiment == name]


def read_names(connection: Connection) -> list[str]:
    """Return the names of all experiments, the one begun last first."""
    prefix = _own("")
    rows = connection.execute(
        "SELECT thread FROM events WHERE kind = ? AND substr(thread, 1, ?) = ? GROUP BY thread ORDER BY max(at) DESC",
        (_VISIT, len(prefix), prefix),
    )
    return [thread.removeprefix(prefix) for (thread,) in rows]


def elapsed_s(connection: Connection, name: str) -> float:
    """Return how long the experiment has been worked on, seconds.

    Each visit lasted until the last call of one of its threads began or ended before the next visit: so a visit that
    was killed counts as well.
    """
    begun = [event.at for event in read_events(connection, _own(name)) if event.kind == _VISIT]
    members = [thread.uuid for _, thread in read_members(connection, name)]
    spans = pairwise([*begun, float("inf")])
    return sum(max(_last(connection, members, since, until) - since, 0.0) for since, until in spans)


def _last(connection: Connection, uuids: Sequence[str], since: float, until: float) -> float:
    if not uuids:
        return since
    row = connection.execute(
        "SELECT max(at) FROM (SELECT started_at AS at, thread FROM ledger UNION ALL "
        "SELECT finished_at AS at, thread FROM ledger) AS calls "
        f"WHERE at >= ? AND at < ? AND thread IN ({', '.join('?' for _ in uuids)})",
        (since, until, *uuids),
    ).fetchone()
    return since if row[0] is None else float(row[0])


def read_experiment(home: Place, name: str) -> tuple[str, str, list[tuple[Member, Thread]]]:
    """Return an experiment's name, the digest of its latest plan and its threads.

    Args:
        home: the folder of the runs.
        name: the experiment's name, or `latest`.

    Raises:
        StoreError: the database cannot be read.
        UsageError: there is no such experiment, or the database is not ours.
    """
    if not has_runs(home):
        raise UsageError(f"there are no runs in {home} yet: start an experiment with `ksearch experiment FILE`")
    with closing(open_reader(home)) as connection, storage_errors(database_place(home)):
        connection.begin_reading()
        names = read_names(connection)
        if not names:
            raise UsageError("there is no experiment yet: start one with `ksearch experiment FILE`")
        found = names[0] if name == "latest" else name
        if found not in names:
            raise UsageError(f"there is no experiment {name!r}; there are {', '.join(sorted(names))}")
        visits = [event.data for event in read_events(connection, _own(found)) if event.kind == _VISIT]
        return found, _plan(visits[-1]), read_members(connection, found)


def _plan(visit: dict[str, Any]) -> str:
    return str(visit["plan"])


def _own(name: str) -> str:
    return f"experiment:{name}"
