"""Where the blobs of a home on a server are: said once by KSEARCH_BLOBS, and known to the database from then on."""

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from checkpoints.blobs import BlobFolder, BlobStore
from checkpoints.place import ServerHome
from checkpoints.sql import Connection
from evaluators.errors import UsageError

BLOBS = "KSEARCH_BLOBS"
"""Environment variable: a folder, or a URL that fsspec knows, such as s3://bucket/folder. On a machine where the same
folder has another path it says that path."""
_SECRET = re.compile(r"secret|password|token|key|sig", re.IGNORECASE)


def place_of_blobs() -> str | None:
    """Return what KSEARCH_BLOBS says, a folder with its whole path; None when it says nothing.

    Raises:
        UsageError: a URL that holds credentials, which would be kept in the database.
    """
    given = os.environ.get(BLOBS)
    if not given:
        return None
    if "://" not in given:
        return str(Path(given).expanduser().absolute())
    parts = urlsplit(given)
    if parts.username or parts.password or any(_SECRET.search(name) for name, _ in parse_qsl(parts.query)):
        raise UsageError(
            f"{BLOBS} holds credentials: leave them out, and give them where the storage's own client looks for them"
        )
    return given


def settle_blobs(connection: Connection) -> None:
    """Let the database know where blobs are, unless it does; within a transaction. Raises UsageError."""
    given = place_of_blobs()
    if given is not None:
        connection.execute("INSERT INTO settings (name, value) VALUES ('blobs', ?) ON CONFLICT DO NOTHING", (given,))


def server_blobs(home: ServerHome, *, power_safe: bool = False) -> BlobStore:
    """Open the blobs of a home on a server.

    Raises:
        StoreError: the server or the storage cannot be reached.
        UsageError: nobody has said where the blobs are, or what is said is no good.
    """
    place = place_of_blobs() or _known(home)
    if place is None:
        raise UsageError(f"say where the blobs of {home} go: {BLOBS}=FOLDER or a URL, which all its machines can reach")
    if "://" not in place:
        return BlobFolder(Path(place), power_safe=power_safe, home=home)
    from checkpoints.bucket import BlobBucket

    return BlobBucket(place, home)


def _known(home: ServerHome) -> str | None:
    from checkpoints.postgres import check, connect_reader

    connection = connect_reader(home)
    try:
        if not check(connection, home):
            return None
        row = connection.execute("SELECT value FROM settings WHERE name = 'blobs'").fetchone()
        return None if row is None else str(row[0])
    finally:
        connection.close()
