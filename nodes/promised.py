"""Nodes that people's requests have inserted: the log of edits knows the names that they had while they waited."""

from collections.abc import Set

from checkpoints.blobs import BlobStore
from checkpoints.logs import latest
from graph.state import Log


def find_inserted(blobs: BlobStore, log: Log, names: Set[str]) -> dict[str, str]:
    """Return the ids of the nodes with these names; none for a name of which nothing came.

    The log is read, newest first, as far as it takes. Raises StoreError.
    """
    found: dict[str, str] = {}
    entries = latest(blobs, log)
    while len(found) < len(names):
        entry = next(entries, None)
        if entry is None:
            break
        found |= {name: node for name, node in entry.get("inserted", {}).items() if name in names}
    return found
