"""A thread at every one of its checkpoints."""

from contextlib import closing

from checkpoints.database import open_reader
from checkpoints.history import Snapshot, read_snapshot
from checkpoints.place import Place
from checkpoints.rounds import read_marks
from checkpoints.threads import find_thread


def snapshots(home: Place, name: str) -> list[Snapshot]:
    """The latest first. `next` names every node that ran after the checkpoint, done or not."""
    with closing(open_reader(home)) as connection:
        marks = read_marks(connection, find_thread(connection, name).uuid)
    return [read_snapshot(home, name, mark.checkpoint) for mark in reversed(marks)]
