"""The ledger of paid work: every model reply and every evaluation, written down so that it is never paid twice.

A call leaves an intent row before it is made and its result after it. A process that dies in between leaves the
intent: spend that nobody knows. The result's blob is stored before the row that names it.
"""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from checkpoints.blobs import BlobStore
from checkpoints.database import Database
from checkpoints.holding import require_held
from checkpoints.sql import Connection
from evaluators.digest import canonical_json
from evaluators.errors import StoreError
from evaluators.objective import Record

Spend = dict[str, Any]
"""JSON; its numbers are added up by `Ledger.totals`, its `model` tells them apart."""

_KEY = "thread, round, cycle, sample, role, turn, request"
_IS_KEY = "thread = ? AND round = ? AND cycle = ? AND sample = ? AND role = ? AND turn = ? AND request = ?"
_COLUMNS = f"{_KEY}, calls, started_at, finished_at, result, spend"


class LedgerKey(Record):
    """What tells one paid call from every other."""

    thread: str
    round: int
    cycle: int
    sample: int
    role: str
    """Who is paid: `planner`, `coder`, `evaluator`, ..."""
    turn: int
    request: str
    """Digest of the request."""

    @property
    def row(self) -> tuple[str | int, ...]:
        """The key as values of its columns."""
        return (self.thread, self.round, self.cycle, self.sample, self.role, self.turn, self.request)


class Entry(Record):
    """What the ledger knows of one call."""

    key: LedgerKey
    calls: int
    """How often the call was begun; more than once when a process died or failed during it."""
    started_at: float
    """Unix time of the last begin, seconds."""
    finished_at: float | None = None
    """Unix time of the result, seconds; None while there is none."""
    result: str | None = None
    """Digest of the result's blob."""
    spend: Spend | None = None

    @property
    def unknown(self) -> int:
        """How many of the calls have a spend that nobody knows."""
        return self.calls - (self.result is not None)


class Total(Record):
    """Spend of one role with one model."""

    role: str
    model: str
    """The spend's `model`; empty for calls without one and for those of unknown spend."""
    calls: int
    """Finished calls."""
    unknown: int
    """Calls begun of which the spend is unknown."""
    spend: dict[str, float]
    """Sum of each number in the spends."""


class EvaluationKey(Record):
    """What must agree for an evaluation to hold in another thread."""

    task: str
    solution: str
    protocol: str
    effort: str
    fingerprint: str
    """Of the environment."""

    @property
    def row(self) -> tuple[str, ...]:
        """The key as values of its columns."""
        return (self.task, self.solution, self.protocol, self.effort, self.fingerprint)


class KnownEvaluation(Record):
    """An evaluation that was paid for before."""

    result: str
    """Digest of its blob."""
    thread: str
    """The thread that paid."""


class Ledger:
    """The ledger in the database. Every method raises StoreError when the database or the disk fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, key: LedgerKey) -> None:
        """Write the intent to make the call.

        Raises:
            StoreError: the call has a result already, or another process has taken the thread over.
        """
        await self._database.run(partial(self._begin, key=key), alone=False)

    async def claim(self, key: LedgerKey) -> Entry | None:
        """Return the call's entry when it has a result; else write the intent to make it, in the same step.

        Raises:
            StoreError: another process has taken the thread over.
        """

        def work(connection: Connection) -> Entry | None:
            found = read_entries(connection, _IS_KEY, key.row)
            if found and found[0].result is not None:
                return found[0]
            self._begin(connection, key)
            return None

        return await self._database.run(work, alone=False)

    def _begin(self, connection: Connection, key: LedgerKey) -> None:
        if key.thread in self._database.held:
            require_held(connection, key.thread)
        _begin(connection, key)

    async def finish(self, key: LedgerKey, result: str, spend: Spend) -> None:
        """Write that the call has the result in blob `result` and what it cost.

        Raises:
            StoreError: the call was not begun, or has a result already.
        """
        await self._database.run(partial(_finish, key=key, result=result, spend=spend), alone=False)

    async def keep(self, key: LedgerKey, blobs: BlobStore, data: bytes, spend: Spend) -> None:
        """Store `data` as a blob, then finish the call with it: one step that no cancellation can split.

        Raises:
            StoreError: as `finish` and `BlobStore.put`.
        """

        def work(connection: Connection) -> None:
            result = blobs.put(data)
            blobs.sync()
            _finish(connection, key, result, spend)

        await self._database.run(work, alone=False)

    async def find(self, key: LedgerKey) -> Entry | None:
        """Return what is known of the call, None when it was never begun."""
        entries = await self._database.run(partial(read_entries, where=_IS_KEY, values=key.row), alone=False)
        return entries[0] if entries else None

    async def entries(self, thread: str) -> list[Entry]:
        """Return the thread's entries in the order of their keys."""
        return await self._database.run(partial(read_entries, where="thread = ?", values=(thread,)), alone=False)

    async def of_round(self, thread: str, round: int, role: str) -> list[Entry]:
        """Return the entries of one role in one round of the thread, in the order of their keys."""
        where = "thread = ? AND round = ? AND role = ?"
        return await self._database.run(partial(read_entries, where=where, values=(thread, round, role)), alone=False)

    async def unfinished(self, thread: str) -> list[Entry]:
        """Return the entries with calls of unknown spend: begun, and interrupted before their result."""
        return [entry for entry in await self.entries(thread) if entry.unknown]

    async def totals(self, thread: str) -> list[Total]:
        """Return the thread's spend by role and model."""
        return add_up(await self.entries(thread))

    async def find_evaluation(self, key: EvaluationKey) -> KnownEvaluation | None:
        """Return the evaluation that any thread recorded under `key`."""

        def work(connection: Connection) -> KnownEvaluation | None:
            row = connection.execute(
                "SELECT result, thread FROM evaluations "
                "WHERE task = ? AND solution = ? AND protocol = ? AND effort = ? AND fingerprint = ?",
                key.row,
            ).fetchone()
            return KnownEvaluation(result=row[0], thread=row[1]) if row else None

        return await self._database.run(work, alone=False)

    async def record_evaluation(self, key: EvaluationKey, result: str, thread: str) -> None:
        """Let any thread find the evaluation in blob `result`, paid for by `thread`; the first one recorded stays."""

        def work(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO evaluations (task, solution, protocol, effort, fingerprint, result, thread, at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (*key.row, result, thread, time.time()),
            )

        await self._database.run(work, alone=False)


async def once(
    ledger: Ledger, blobs: BlobStore, key: LedgerKey, call: Callable[[], Awaitable[tuple[Any, Spend]]]
) -> tuple[Any, Spend, bool]:
    """Return (result, spend, fresh) of the call: as recorded, or made now and recorded.

    Args:
        ledger: where calls are written down.
        blobs: where results are kept.
        key: which call it is.
        call: makes it and returns (result, spend), both JSON. Whatever it raises passes through; the intent stays.

    Returns:
        The result as JSON reads it back (lists for tuples), so that a fresh one equals a recorded one.

    Raises:
        StoreError: the result could not be recorded, or the recorded one is missing or damaged.
        TypeError, ValueError: the result or the spend is no JSON.
    """
    entry = await ledger.claim(key)
    if entry is not None and entry.result is not None and entry.spend is not None:
        return await asyncio.to_thread(blobs.get_json, entry.result), entry.spend, False
    result, spend = await call()
    data = canonical_json(result)
    await ledger.keep(key, blobs, data, spend)
    return json.loads(data), json.loads(canonical_json(spend)), True


def add_up(entries: list[Entry]) -> list[Total]:
    """Return the spend of `entries` by role and model, sorted by both."""
    calls: dict[tuple[str, str], int] = defaultdict(int)
    unknown: dict[tuple[str, str], int] = defaultdict(int)
    sums: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for entry in entries:
        if entry.unknown:
            unknown[entry.key.role, ""] += entry.unknown
        if entry.spend is not None:
            group = (entry.key.role, str(entry.spend.get("model", "")))
            calls[group] += 1
            for name, value in entry.spend.items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    sums[group][name] += value
    return [
        Total(role=role, model=model, calls=calls[role, model], unknown=unknown[role, model], spend=sums[role, model])
        for role, model in sorted(calls.keys() | unknown.keys())
    ]


def read_entries(connection: Connection, where: str, values: tuple[str | int, ...]) -> list[Entry]:
    """Return the entries that the condition `where` selects, in the order of their keys."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM ledger WHERE {where} ORDER BY {_KEY}", values)
    return [_entry(row) for row in rows]


def _entry(row: tuple[Any, ...]) -> Entry:
    thread, round_, cycle, sample, role, turn, request, calls, started_at, finished_at, result, spend = row
    key = LedgerKey(thread=thread, round=round_, cycle=cycle, sample=sample, role=role, turn=turn, request=request)
    return Entry(
        key=key,
        calls=calls,
        started_at=started_at,
        finished_at=finished_at,
        result=result,
        spend=None if spend is None else json.loads(spend),
    )


def _begin(connection: Connection, key: LedgerKey) -> None:
    begun = connection.execute(
        f"INSERT INTO ledger ({_KEY}, calls, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?) "
        f"ON CONFLICT ({_KEY}) DO UPDATE SET calls = ledger.calls + 1, started_at = excluded.started_at "
        "WHERE ledger.result IS NULL",
        (*key.row, time.time()),
    )
    if begun.rowcount != 1:
        raise StoreError(f"{_told(key)} has a result already: it must not be paid for again")


def _finish(connection: Connection, key: LedgerKey, result: str, spend: Spend) -> None:
    finished = connection.execute(
        f"UPDATE ledger SET finished_at = ?, result = ?, spend = ? WHERE {_IS_KEY} AND result IS NULL",
        (time.time(), result, canonical_json(spend).decode(), *key.row),
    )
    if finished.rowcount != 1:
        raise StoreError(f"{_told(key)} cannot be finished: it was not begun, or has a result already")


def _told(key: LedgerKey) -> str:
    return f"the {key.role} call of round {key.round}, cycle {key.cycle}, sample {key.sample}, turn {key.turn}"
