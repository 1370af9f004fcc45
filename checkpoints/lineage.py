"""Where threads branched off."""

from checkpoints.sql import Connection
from evaluators.objective import Record


class Lineage(Record):
    """Where a thread branched off."""

    child: str
    """uuid of the branch."""
    parent: str
    """uuid of the thread that it came from."""
    checkpoint: str
    """Id of the parent's checkpoint it starts from."""
    round: int
    """The last round that they share."""


def add_lineage(connection: Connection, lineage: Lineage) -> None:
    """Record where a thread branched off, which happens once."""
    connection.execute(
        "INSERT INTO lineage (child, parent, checkpoint, round) VALUES (?, ?, ?, ?)",
        (lineage.child, lineage.parent, lineage.checkpoint, lineage.round),
    )


def read_ancestors(connection: Connection, uuid: str) -> list[Lineage]:
    """Return where the thread branched off, where its parent did, and so on."""
    found: list[Lineage] = []
    child = uuid
    while True:
        row = connection.execute("SELECT parent, checkpoint, round FROM lineage WHERE child = ?", (child,)).fetchone()
        if row is None:
            return found
        found.append(Lineage(child=child, parent=row[0], checkpoint=row[1], round=row[2]))
        child = row[0]
