"""LangGraph's tables on PostgreSQL: a checkpoint's plain values stand in its row, the others beside it, by version."""

from collections.abc import Iterator
from typing import Any

from checkpoints.packed import unpack
from checkpoints.sql import PACKED_DIGEST_BYTES, Connection, Saved, Write

_OF = "thread_id = ? AND checkpoint_ns = ''"
_SAVED = """
SELECT saved.checkpoint_id, saved.checkpoint, saved.metadata, beside.channels, beside.kinds, beside.contents
FROM checkpoints AS saved CROSS JOIN LATERAL (
    SELECT array_agg(channel) AS channels, array_agg(blobs.type) AS kinds, array_agg(blob) AS contents
    FROM jsonb_each_text(saved.checkpoint -> 'channel_versions') AS version
    JOIN checkpoint_blobs AS blobs ON blobs.thread_id = saved.thread_id AND blobs.checkpoint_ns = saved.checkpoint_ns
        AND blobs.channel = version.key AND blobs.version = version.value
) AS beside
WHERE saved.thread_id = ? AND saved.checkpoint_ns = ''
"""
_USED = """
SELECT version.key, version.value
FROM checkpoints CROSS JOIN LATERAL jsonb_each_text(checkpoint -> 'channel_versions') AS version
WHERE thread_id = ? AND checkpoint_ns = ''
"""
"""Channels and versions that a thread's checkpoints refer to."""


class PostgresTables:
    """See `checkpoints.sql.Tables`."""

    def exist(self, connection: Connection) -> bool:
        """See `Tables`."""
        return bool(connection.execute("SELECT to_regclass('checkpoint_writes') IS NOT NULL").fetchone()[0])

    def places(self, connection: Connection, uuid: str) -> list[tuple[str, dict[str, Any]]]:
        """See `Tables`."""
        sql = f"SELECT checkpoint_id, metadata FROM checkpoints WHERE {_OF} ORDER BY checkpoint_id"
        return list(connection.execute(sql, (uuid,)))

    def find(self, connection: Connection, uuid: str, name: str | None = None) -> Saved | None:
        """See `Tables`."""
        if name is None:
            row = connection.execute(f"{_SAVED} ORDER BY saved.checkpoint_id DESC LIMIT 1", (uuid,)).fetchone()
        else:
            row = connection.execute(f"{_SAVED} AND saved.checkpoint_id = ?", (uuid, name)).fetchone()
        return None if row is None else _saved(row)

    def writes(self, connection: Connection, uuid: str, name: str) -> list[Write]:
        """See `Tables`."""
        sql = (
            f"SELECT task_path, channel, type, blob FROM checkpoint_writes WHERE {_OF} AND checkpoint_id = ? "
            'ORDER BY task_path COLLATE "C", idx'
        )
        return [Write(*row) for row in connection.execute(sql, (uuid, name))]

    def copy(self, connection: Connection, source: str, target: str, names: set[str]) -> None:
        """See `Tables`."""
        connection.execute(
            "INSERT INTO checkpoints "
            "(thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata) "
            "SELECT ?, '', checkpoint_id, lag(checkpoint_id) OVER (ORDER BY checkpoint_id), type, checkpoint, metadata "
            f"FROM checkpoints WHERE {_OF} AND checkpoint_id = ANY(?)",
            (target, source, sorted(names)),
        )
        connection.execute(
            "INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob) "
            "SELECT ?, '', channel, version, type, blob FROM checkpoint_blobs "
            f"WHERE {_OF} AND (channel, version) IN ({_USED})",
            (target, source, target),
        )

    def copy_writes(self, connection: Connection, source: str, target: str, name: str) -> None:
        """See `Tables`."""
        columns = "checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob"
        connection.execute(
            f"INSERT INTO checkpoint_writes (thread_id, {columns}) SELECT ?, {columns} FROM checkpoint_writes "
            f"WHERE {_OF} AND checkpoint_id = ?",
            (target, source, name),
        )

    def keep(self, connection: Connection, uuid: str, names: set[str], last: str) -> None:
        """See `Tables`."""
        connection.execute(f"DELETE FROM checkpoint_writes WHERE {_OF} AND checkpoint_id < ?", (uuid, last))
        kept = sorted(names)
        dropped = connection.execute(f"DELETE FROM checkpoints WHERE {_OF} AND checkpoint_id <> ALL(?)", (uuid, kept))
        if not dropped.rowcount:
            return
        # Joins with lists and anti-joins, whose time does not grow with the square of a long search.
        connection.execute(
            "UPDATE checkpoints SET parent_checkpoint_id = before.id "
            "FROM unnest(?::text[], ?::text[]) AS before (own, id) "
            f"WHERE {_OF} AND checkpoint_id = before.own AND parent_checkpoint_id IS DISTINCT FROM before.id",
            (kept, [None, *kept[:-1]], uuid),
        )
        connection.execute(
            f"DELETE FROM checkpoint_blobs WHERE {_OF} AND NOT EXISTS (SELECT FROM (SELECT DISTINCT * FROM ({_USED}) "
            "AS used) AS used (channel, version) WHERE used.channel = checkpoint_blobs.channel "
            "AND used.version = checkpoint_blobs.version)",
            (uuid, uuid),
        )

    def contents(self, connection: Connection) -> Iterator[bytes]:
        """See `Tables`."""
        if not self.exist(connection):
            return
        # DISTINCT, as branches hold the same values again.
        for (values,) in connection.execute("SELECT DISTINCT (checkpoint -> 'channel_values')::text FROM checkpoints"):
            yield values.encode()
        for table in ("checkpoint_blobs", "checkpoint_writes"):
            sql = f"SELECT DISTINCT blob FROM {table} WHERE length(blob) >= {PACKED_DIGEST_BYTES}"
            for (data,) in connection.execute(sql):
                yield data


def _saved(row: tuple[Any, ...]) -> Saved:
    name, checkpoint, metadata, channels, kinds, contents = row
    values = dict(checkpoint["channel_values"])
    for channel, kind, content in zip(channels or (), kinds or (), contents or (), strict=True):
        if kind != "empty":
            values[channel] = None if kind == "null" else unpack(content) if kind == "msgpack" else content
    return Saved(name, {**checkpoint, "channel_values": values}, metadata)
