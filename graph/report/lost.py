"""What a blob held that is missing or damaged: told from the rows that name it, for people who look for a copy."""

from collections.abc import Iterator, Mapping
from typing import Any

from checkpoints.blobs import BlobStore
from checkpoints.database import open_blobs
from checkpoints.history import Snapshot, read_record, read_states
from checkpoints.logs import read
from checkpoints.place import Place
from evaluators.errors import StoreError

_PARTS = {
    ("config",): "its options",
    ("task", "blob"): "its task",
    ("tree", "blob"): "its plan",
    ("attempts", "head"): "the index of its attempts",
    ("edits", "head"): "the index of its edits",
    ("incumbent", "solution"): "its best program",
    ("incumbent", "evaluation"): "the evaluation of its best program",
}


def held(home: Place, digest: str) -> list[str]:
    """Return what the blob held, one text for each run that needs it; none when no row names it.

    Raises:
        StoreError: the database cannot be read.
    """
    return [
        f"{snapshot.thread.name}: {', '.join(parts)}"
        for snapshot in read_states(home)
        if (parts := list(dict.fromkeys(_held(home, snapshot, digest))))
    ]


def _held(home: Place, snapshot: Snapshot, digest: str) -> Iterator[str]:
    if snapshot.thread.config == digest:
        yield "its options"
    for path, name in _PARTS.items():
        if _at(snapshot.values, path) == digest:
            yield name
    for entry in read_record(home, snapshot.thread.uuid).entries:
        if entry.result == digest:
            key = entry.key
            place = f", cycle {key.cycle}, sample {key.sample}" if key.cycle else ""
            yield f"what the {key.role} returned in round {key.round}{place}"
    yield from _in_log(open_blobs(home), snapshot.values, digest)


def _in_log(blobs: BlobStore, values: Mapping[str, Any], digest: str) -> Iterator[str]:
    """Yield what the log of attempts knows, as far as it can be read."""
    if "attempts" not in values:
        return
    entries = read(blobs, values["attempts"])
    while True:
        try:
            entry = next(entries, None)
        except StoreError as error:
            yield f"entries of the log ({str(error).partition(':')[0]})"
            return
        if entry is None:
            return
        for name, what in (("solution", "the program"), ("evaluation", "the evaluation")):
            if entry["result"][name] == digest:
                yield f"{what} of attempt {entry['number']} ({entry['node']}, round {entry['round']})"


def _at(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = values
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found
