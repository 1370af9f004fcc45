"""The connection to SQLite, and LangGraph's tables in it."""

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from checkpoints.faults import is_code
from checkpoints.packed import unpack
from checkpoints.sql import PACKED_DIGEST_BYTES, Connection, Saved, Write

_OF = "thread_id = ? AND checkpoint_ns = ''"
_LISTED = "checkpoint_id IN (SELECT value FROM json_each(?))"
_SAVED = f"SELECT checkpoint_id, checkpoint, metadata FROM checkpoints WHERE {_OF}"


class SqliteTables:
    """See `checkpoints.sql.Tables`."""

    def exist(self, connection: Connection) -> bool:
        """See `Tables`."""
        return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'writes'").fetchone() is not None

    def places(self, connection: Connection, uuid: str) -> list[tuple[str, dict[str, Any]]]:
        """See `Tables`."""
        sql = f"SELECT checkpoint_id, metadata FROM checkpoints WHERE {_OF} ORDER BY checkpoint_id"
        return [(name, json.loads(metadata)) for name, metadata in connection.execute(sql, (uuid,))]

    def find(self, connection: Connection, uuid: str, name: str | None = None) -> Saved | None:
        """See `Tables`."""
        if name is None:
            row = connection.execute(f"{_SAVED} ORDER BY checkpoint_id DESC LIMIT 1", (uuid,)).fetchone()
        else:
            row = connection.execute(f"{_SAVED} AND checkpoint_id = ?", (uuid, name)).fetchone()
        return None if row is None else _saved(row)

    def writes(self, connection: Connection, uuid: str, name: str) -> list[Write]:
        """See `Tables`."""
        sql = (
            f"SELECT task_path, channel, type, value FROM writes WHERE {_OF} AND checkpoint_id = ? "
            "ORDER BY task_path, idx"
        )
        return [Write(*row) for row in connection.execute(sql, (uuid, name))]

    def copy(self, connection: Connection, source: str, target: str, names: set[str]) -> None:
        """See `Tables`."""
        connection.execute(
            "INSERT INTO checkpoints "
            "(thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata) "
            "SELECT ?, '', checkpoint_id, lag(checkpoint_id) OVER (ORDER BY checkpoint_id), type, checkpoint, metadata "
            f"FROM checkpoints WHERE {_OF} AND {_LISTED}",
            (target, source, json.dumps(sorted(names))),
        )

    def copy_writes(self, connection: Connection, source: str, target: str, name: str) -> None:
        """See `Tables`."""
        columns = "checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value"
        connection.execute(
            f"INSERT INTO writes (thread_id, {columns}) SELECT ?, {columns} FROM writes "
            f"WHERE {_OF} AND checkpoint_id = ?",
            (target, source, name),
        )

    def keep(self, connection: Connection, uuid: str, names: set[str], last: str) -> None:
        """See `Tables`."""
        connection.execute(f"DELETE FROM writes WHERE {_OF} AND checkpoint_id < ?", (uuid, last))
        dropped = connection.execute(
            f"DELETE FROM checkpoints WHERE {_OF} AND NOT {_LISTED}", (uuid, json.dumps(sorted(names)))
        )
        if dropped.rowcount:
            connection.execute(
                "UPDATE checkpoints SET parent_checkpoint_id = before.id FROM ("
                "SELECT checkpoint_id AS own, lag(checkpoint_id) OVER (ORDER BY checkpoint_id) AS id FROM checkpoints "
                f"WHERE {_OF}) AS before "
                f"WHERE {_OF} AND checkpoint_id = before.own AND parent_checkpoint_id IS NOT before.id",
                (uuid, uuid),
            )

    def contents(self, connection: Connection) -> Iterator[bytes]:
        """See `Tables`."""
        if self.exist(connection):
            written = f"SELECT value FROM writes WHERE length(value) >= {PACKED_DIGEST_BYTES}"
            for sql in ("SELECT checkpoint FROM checkpoints", written):
                for (data,) in connection.execute(sql):
                    yield data


class SqliteConnection(sqlite3.Connection):
    """See `checkpoints.sql.Connection`. Writers of one file are always alone."""

    clock = "((julianday('now') - 2440587.5) * 86400.0)"
    tables = SqliteTables()

    def begin(self, *, alone: bool = True) -> None:
        """See `Connection`."""
        self.execute("BEGIN IMMEDIATE")

    def begin_reading(self) -> None:
        """See `Connection`."""
        self.execute("BEGIN")

    def begin_stopping_writers(self) -> None:
        """See `Connection`."""
        self.begin()

    def shrink(self) -> bool:
        """See `Connection`."""
        try:
            self.execute("VACUUM")
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:
            if not is_code(error, sqlite3.SQLITE_BUSY) and not is_code(error, sqlite3.SQLITE_LOCKED):
                raise
            return False
        return True


def _saved(row: tuple[str, bytes, bytes]) -> Saved:
    return Saved(row[0], unpack(row[1]), json.loads(row[2]))
