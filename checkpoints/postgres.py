"""Connections to a home on a PostgreSQL server. Needs the extra `postgres`; nothing here imports LangGraph."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from checkpoints.place import ServerHome
from checkpoints.postgres_tables import PostgresTables
from checkpoints.schema import MIGRATIONS, VERSION
from checkpoints.sql import Rows
from evaluators.errors import StoreError, UsageError

try:
    import psycopg
    from psycopg import sql as compose
    from psycopg.conninfo import conninfo_to_dict
except ImportError as missing:
    raise UsageError("a home on a server needs PostgreSQL's client: pip install 'kernel-search[postgres]'") from missing

PATIENCE_S = 10.0
"""How long to wait for a connection, and for others' transactions, unless told otherwise."""
_DEFAULTS: dict[str, str | int] = {
    "application_name": "ksearch",
    "connect_timeout": 10,
    # A server that vanishes without a word is noticed after half a minute and not after hours.
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_DIALECT = {"TEXT": 'TEXT COLLATE "C"', "REAL": "DOUBLE PRECISION", " WITHOUT ROWID": ""}
"""SQLite's words -> PostgreSQL's, in the definitions of tables. Text is ordered by its bytes, as in SQLite."""
_MARK = "ksearch_schema"
"""Our table with the schema's version; a schema with tables but without this one is another program's."""
_RESUME = "then resume the run; nothing that was recorded is lost"
_AWAY = "{place} cannot be reached ({text}): start it again, or correct the address, " + _RESUME
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('ksearch ' || current_schema()))"
_BY_STATE = {
    "28": "{place} does not let us in ({text}): check the user, and the password in PGPASSWORD or ~/.pgpass",
    "3D": "{place}: there is no such database ({text}): create it, or correct the address",
    "42501": "{place} does not let us work ({text}): grant this user the right to create a schema, or to use ours",
    "53": "{place} has run out of room or connections ({text}): give it some, " + _RESUME,
    "55P03": "another process keeps {place} locked: end it or wait for it, " + _RESUME,
    "25006": "{place} cannot be written ({text}): connect to the server that takes writes, " + _RESUME,
    "XX": "{place} is damaged ({text}): restore it from a copy; programs and replies are safe in the blobs",
}
"""Beginnings of SQLSTATE -> what to do."""


@contextmanager
def server_errors(place: ServerHome) -> Iterator[None]:
    """Turn the client's errors within the block into StoreError: one line, without a secret.

    Raises:
        StoreError: for every psycopg.Error, with the original as its cause.
    """
    try:
        yield
    except psycopg.Error as error:
        state, text = error.sqlstate or "", " ".join(str(error).split())
        fitting = [line for begin, line in _BY_STATE.items() if state.startswith(begin)]
        if not fitting and "password" in text:
            fitting = [_BY_STATE["28"]]
        away = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        otherwise = _AWAY if away else "{place} failed ({text})"
        raise StoreError((fitting or [otherwise])[0].format(place=place, text=text)) from error


def parameters(place: ServerHome) -> dict[str, Any]:
    """Return what the client connects with; a password comes from PGPASSWORD or ~/.pgpass, never from us.

    Raises:
        UsageError: the address holds a parameter that the client does not know.
    """
    try:
        given = conninfo_to_dict(place.url)
    except psycopg.ProgrammingError as error:
        raise UsageError(f"{place}: {' '.join(str(error).split())}") from error
    return {**_DEFAULTS, **given, "autocommit": True}


def settings(place: ServerHome, patience_s: float) -> tuple[compose.SQL | compose.Composed, ...]:
    """Return the statements that every connection begins with."""
    return (
        compose.SQL("SET search_path TO {}").format(compose.Identifier(place.schema)),
        compose.SQL("SET lock_timeout TO {}").format(compose.Literal(round(patience_s * 1000))),
        compose.SQL("SET client_min_messages TO warning"),
    )


class PostgresConnection:
    """See `checkpoints.sql.Connection`. A connection that broke is made anew at the next transaction."""

    clock = "extract(epoch FROM clock_timestamp())::float8"
    tables = PostgresTables()

    def __init__(self, place: ServerHome, patience_s: float = PATIENCE_S) -> None:
        self._place = place
        self._patience_s = patience_s
        self._connection = self._connect()

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Rows:
        """Run one statement. Raises StoreError."""
        with server_errors(self._place):
            return self._connection.execute(_marked(sql), tuple(values))

    def begin(self, *, alone: bool = True) -> None:
        """See `Connection`."""
        if self._connection.closed:
            self._connection = self._connect()
        self.execute("BEGIN")
        if alone:
            with self._undone():
                self.execute(_LOCK)

    def begin_reading(self) -> None:
        """See `Connection`."""
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def begin_stopping_writers(self) -> None:
        """See `Connection`."""
        self.begin()
        with self._undone():
            rows = self.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
            tables = ", ".join(sorted(name for (name,) in rows))
            self.execute(f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE")

    def commit(self) -> None:
        """See `Connection`."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """See `Connection`. A connection that broke has undone the transaction."""
        if not self._connection.closed:
            self.execute("ROLLBACK")

    def shrink(self) -> bool:
        """See `Connection`. The server's own housekeeping does that, and reuses the space meanwhile."""
        return True

    def close(self) -> None:
        """See `Connection`."""
        self._connection.close()

    def _connect(self) -> psycopg.Connection[Any]:
        with server_errors(self._place):
            connection: psycopg.Connection[Any] = psycopg.connect(**parameters(self._place))
            with _closed_on_error(connection):
                for statement in settings(self._place, self._patience_s):
                    connection.execute(statement)
        return connection

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """Undo the transaction when the block fails."""
        try:
            yield
        except BaseException:
            self.rollback()
            raise


@contextmanager
def _closed_on_error(connection: PostgresConnection | psycopg.Connection[Any]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def connect(place: ServerHome, *, patience_s: float = PATIENCE_S) -> PostgresConnection:
    """Open a home for writing, making its schema or bringing it up to date first.

    Args:
        place: the home.
        patience_s: seconds to wait for another process's transaction.

    Raises:
        StoreError: the server cannot be reached, or refuses.
        UsageError: the schema belongs to another program or to a newer ksearch, and is left as it was.
    """
    connection = PostgresConnection(place, patience_s)
    with _closed_on_error(connection):
        if check(connection, place) < VERSION:
            _prepare(connection, place)
    return connection


def connect_reader(place: ServerHome) -> PostgresConnection:
    """Open an existing home for reading. Raises as `connect`."""
    connection = PostgresConnection(place)
    with _closed_on_error(connection):
        if 0 < check(connection, place) < VERSION:
            connect(place).close()
    return connection


def exists(place: ServerHome) -> bool:
    """Return whether there is a home at this place. Raises as `connect`."""
    connection = PostgresConnection(place)
    try:
        return check(connection, place) > 0
    finally:
        connection.close()


def check(connection: PostgresConnection, place: ServerHome) -> int:
    """Return the schema's version, 0 when it is new or empty. Changes nothing.

    Raises:
        UsageError: it belongs to another program or to a newer ksearch.
    """
    rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = ?", (place.schema,)).fetchall()
    tables = {name for (name,) in rows}
    if _MARK not in tables:
        if tables:
            raise UsageError(f"{place} belongs to another program: choose another schema with ?schema=NAME")
        return 0
    version = int(connection.execute(f"SELECT version FROM {_MARK}").fetchone()[0])
    if version > VERSION:
        raise UsageError(
            f"{place} was written by a newer ksearch (schema {version}, this one knows {VERSION}): "
            "upgrade ksearch or choose another home"
        )
    return version


def _prepare(connection: PostgresConnection, place: ServerHome) -> None:
    """Make our tables; several processes may do so at once."""
    connection.begin(alone=False)
    try:
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(?))", (f"ksearch makes {place.schema}",))
        if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (place.schema,)).fetchone() is None:
            connection.execute(f"CREATE SCHEMA {place.schema}")
        version = check(connection, place)
        for step in MIGRATIONS[version:]:
            for statement in filter(str.strip, step.split(";")):
                connection.execute(_defined(statement))
        if version == 0:
            connection.execute(f"CREATE TABLE {_MARK} (version INTEGER NOT NULL)")
            connection.execute(f"INSERT INTO {_MARK} (version) VALUES (0)")
        connection.execute(f"UPDATE {_MARK} SET version = ?", (VERSION,))
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def _defined(statement: str) -> str:
    for word, ours in _DIALECT.items():
        statement = statement.replace(word, ours)
    return statement


@cache
def _marked(sql: str) -> bytes:
    """Return the statement with psycopg's marks for values."""
    return sql.replace("%", "%%").replace("?", "%s").encode()
