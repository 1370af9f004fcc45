"""What the stores ask of a database, whichever it is: one kind of SQL, transactions, and LangGraph's tables in it.

The SQL of ledger, threads and steering is written once, in what SQLite and PostgreSQL have in common, with `?` for
values. What differs is behind these protocols.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

PACKED_DIGEST_BYTES = 66
"""What a digest takes up in packed data: 64 hex digits after their length."""


class Rows(Protocol):
    """What a statement brought."""

    @property
    def rowcount(self) -> int:
        """Rows that it changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, None when there is none."""
        ...

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the rows that are left."""
        ...


class Connection(Protocol):
    """One connection, in autocommit mode. Used by one thread at a time."""

    @property
    def clock(self) -> str:
        """SQL for the database's own Unix time, seconds: the same for processes on machines whose clocks differ."""
        ...

    @property
    def tables(self) -> "Tables":
        """LangGraph's tables."""
        ...

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Rows:
        """Run one statement."""
        ...

    def begin(self, *, alone: bool = True) -> None:
        """Begin a transaction that writes.

        Args:
            alone: no other such transaction runs meanwhile, in any process. False allows others where the database
                can, for work that is right all the same: a statement or two on rows of its own.
        """
        ...

    def begin_reading(self) -> None:
        """Begin a transaction that sees the database as it is now, whatever others write meanwhile."""
        ...

    def begin_stopping_writers(self) -> None:
        """Begin a transaction during which nobody else writes, LangGraph's savers included."""
        ...

    def commit(self) -> None:
        """Make the transaction's work last."""
        ...

    def rollback(self) -> None:
        """Undo the transaction, if there is one."""
        ...

    def shrink(self) -> bool:
        """Give freed space back and return whether that was possible: not while others read or write."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Saved(NamedTuple):
    """A checkpoint as it is stored, read without LangGraph."""

    name: str
    """Its id."""
    checkpoint: dict[str, Any]
    metadata: dict[str, Any]


class Write(NamedTuple):
    """What a task wrote."""

    path: str
    """LangGraph's name of the task."""
    channel: str
    kind: str
    """How `value` is packed."""
    value: bytes


class Tables(Protocol):
    """LangGraph's checkpoints of searches (the namespace ''), read and changed without LangGraph."""

    def exist(self, connection: Connection) -> bool:
        """Return whether LangGraph has made its tables, which it does a moment after ours."""
        ...

    def places(self, connection: Connection, uuid: str) -> list[tuple[str, dict[str, Any]]]:
        """Return id and metadata of every checkpoint of the thread, the oldest first."""
        ...

    def find(self, connection: Connection, uuid: str, name: str | None = None) -> Saved | None:
        """Return a checkpoint of the thread, without `name` the latest; None when there is none."""
        ...

    def writes(self, connection: Connection, uuid: str, name: str) -> list[Write]:
        """Return what the tasks after a checkpoint have brought so far, by task and in order."""
        ...

    def copy(self, connection: Connection, source: str, target: str, names: set[str]) -> None:
        """Copy these checkpoints to another thread; each gets the one before it as its parent."""
        ...

    def copy_writes(self, connection: Connection, source: str, target: str, name: str) -> None:
        """Copy what the tasks after a checkpoint have brought. Tasks go by the checkpoint's id, which is kept."""
        ...

    def keep(self, connection: Connection, uuid: str, names: set[str], last: str) -> None:
        """Drop all other checkpoints of the thread, and all writes before the checkpoint `last`."""
        ...

    def contents(self, connection: Connection) -> Iterator[bytes]:
        """Yield what checkpoints and writes of all threads hold, packed or as JSON text, at least once each.

        What is too short to hold a digest may be left out.
        """
        ...
