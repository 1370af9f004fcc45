"""Where runs live: in a folder, or on a PostgreSQL server that several machines share."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from evaluators.errors import UsageError

SCHEMES = ("postgresql", "postgres")
SCHEMA = "ksearch"
SECRET = ("password", "sslpassword")
"""Parameters that have no business in an address, which is shown and kept in the shell's history."""


@dataclass(frozen=True)
class ServerHome:
    """A home on a PostgreSQL server: one schema of a database. The address holds no secrets."""

    url: str
    """Without the schema, as the server's client library reads it."""
    schema: str = SCHEMA
    """All tables are in it, so one database can hold several homes."""

    def __str__(self) -> str:
        """Return the whole address."""
        mark = "&" if "?" in self.url else "?"
        return self.url if self.schema == SCHEMA else f"{self.url}{mark}schema={self.schema}"


Place = Path | ServerHome
"""A folder of runs, or a home on a server."""


def find_place(home: Place | str | None = None) -> Place:
    """Return where the runs live: `home`, else KSEARCH_HOME, else `.ksearch` in the current folder.

    Raises:
        UsageError: the address of a server is no good, or holds a password; the folder is a file.
    """
    if isinstance(home, ServerHome):
        return home
    text = str(home or os.environ.get("KSEARCH_HOME") or ".ksearch")
    scheme, is_address, _ = text.partition("://")
    if is_address and scheme in SCHEMES:
        return server_home(text)
    if is_address:
        raise UsageError(f"{scheme}://: runs live in a folder, or at postgresql://SERVER/DATABASE")
    try:
        taken = Path(text).is_file()
    except OSError as error:  # a name that is too long
        raise UsageError(f"{text}: {error.strerror}: name the folder of the runs (--home, or KSEARCH_HOME)") from error
    if taken:
        raise UsageError(f"{text} is a file: name the folder of the runs (--home, or KSEARCH_HOME)")
    return Path(text)


def server_home(url: str) -> ServerHome:
    """Return the home at the address `url`, of which `?schema=NAME` names the schema.

    Raises:
        UsageError: it holds a password or is no address; the message does not repeat it.
    """
    try:
        parts = urlsplit(url)
        given = parse_qsl(parts.query, keep_blank_values=True)
        secret = parts.password is not None or any(name in SECRET for name, _ in given)
    except ValueError as error:
        raise UsageError(f"the address of the runs is no URL: {error}") from error
    if secret:
        raise UsageError(
            "the address of the runs holds a password: leave it out, and give it in PGPASSWORD or ~/.pgpass"
        )
    if not parts.netloc and not parts.path.strip("/") and not parts.query:
        raise UsageError(f"{url} names no server: write postgresql://SERVER/DATABASE")
    schema = dict(given).get("schema", SCHEMA)
    if not schema.isidentifier() or not schema.isascii() or schema != schema.lower():
        raise UsageError(f"schema={schema}: is a name of small letters, digits and `_`")
    query = urlencode([(name, value) for name, value in given if name != "schema"])
    return ServerHome(urlunsplit(parts._replace(query=query)), schema)


def local_folder(place: Place) -> Path:
    """Return the folder for what stays on this machine: logs of visits and bundles."""
    return Path(".ksearch") if isinstance(place, ServerHome) else place
