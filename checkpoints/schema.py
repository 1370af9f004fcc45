"""The tables of ksearch's database and their version. The checkpoint tables beside them are LangGraph's own."""

import sqlite3
import time
from pathlib import Path

from checkpoints.faults import is_code
from evaluators.errors import UsageError

APPLICATION_ID = 0x6B736561
"""Marks a SQLite file as ours ("ksea"), in the header field that is made for it."""

MIGRATIONS = (
    """
    CREATE TABLE threads (
        uuid TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        task TEXT NOT NULL,
        config TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('running', 'paused', 'finished', 'interrupted', 'failed')),
        reason TEXT NOT NULL DEFAULT '',
        holder TEXT
    );
    CREATE TABLE events (
        thread TEXT NOT NULL,
        seq INTEGER NOT NULL,
        kind TEXT NOT NULL,
        data TEXT NOT NULL,
        at REAL NOT NULL,
        PRIMARY KEY (thread, seq)
    );
    CREATE TABLE lineage (
        child TEXT PRIMARY KEY,
        parent TEXT NOT NULL,
        checkpoint TEXT NOT NULL,
        round INTEGER NOT NULL
    );
    CREATE TABLE ledger (
        thread TEXT NOT NULL,
        round INTEGER NOT NULL,
        cycle INTEGER NOT NULL,
        sample INTEGER NOT NULL,
        role TEXT NOT NULL,
        turn INTEGER NOT NULL,
        request TEXT NOT NULL,
        calls INTEGER NOT NULL,
        started_at REAL NOT NULL,
        finished_at REAL,
        result TEXT,
        spend TEXT,
        CHECK ((finished_at IS NULL) = (result IS NULL) AND (result IS NULL) = (spend IS NULL)),
        PRIMARY KEY (thread, round, cycle, sample, role, turn, request)
    ) WITHOUT ROWID;
    CREATE TABLE evaluations (
        task TEXT NOT NULL,
        solution TEXT NOT NULL,
        protocol TEXT NOT NULL,
        effort TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        result TEXT NOT NULL,
        thread TEXT NOT NULL,
        at REAL NOT NULL,
        PRIMARY KEY (task, solution, protocol, effort, fingerprint)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE requests (
        thread TEXT NOT NULL,
        seq INTEGER NOT NULL,
        data TEXT NOT NULL,
        at REAL NOT NULL,
        PRIMARY KEY (thread, seq)
    );
    CREATE TABLE pauses (
        thread TEXT PRIMARY KEY,
        at REAL NOT NULL
    );
    """,
    """
    ALTER TABLE threads ADD COLUMN beat_at REAL;
    CREATE TABLE settings (
        name TEXT PRIMARY KEY,
        value TEXT NOT NULL
    );
    """,
)
"""Step n brings a database from version n to n + 1. Steps are only ever added."""

VERSION = len(MIGRATIONS)


def check(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema version of the database, 0 when it is new and empty. Changes nothing.

    Raises:
        UsageError: the database belongs to another program or to a newer ksearch.
    """
    application, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
    if application == APPLICATION_ID:
        if version > VERSION:
            raise UsageError(
                f"{path} was written by a newer ksearch (schema {version}, this one knows {VERSION}): "
                "upgrade ksearch or choose another folder for the runs"
            )
        return version
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application or version or tables:
        raise UsageError(f"{path} belongs to another program: choose another folder for the runs")
    return 0


def prepare(connection: sqlite3.Connection, path: Path, patience_s: float) -> None:
    """Bring the database to this version's tables, in WAL mode; several processes may do so at once.

    Args:
        connection: in autocommit mode.
        path: the database's file, for messages.
        patience_s: seconds to wait for other processes.

    Raises:
        UsageError: as `check`; the file is left as it was.
        sqlite3.Error: the database cannot be written.
    """
    version = check(connection, path)
    _enter_wal(connection, patience_s)
    if version == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in MIGRATIONS[check(connection, path) :]:
            for statement in step.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _enter_wal(connection: sqlite3.Connection, patience_s: float) -> None:
    """Switch to WAL. SQLite does not wait for locks in this one statement, so we do."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_code(error, sqlite3.SQLITE_BUSY) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
