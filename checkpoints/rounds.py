"""Where rounds begin among a thread's checkpoints, and what a person names one of them by."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from checkpoints.packed import planned
from checkpoints.sql import Connection
from checkpoints.threads import Thread
from evaluators.errors import StoreError, UsageError

SELECT, DRAW = "select_action", "instantiate_program"
"""Nodes that a round may begin with: the second one when all its cycles go on."""
NOW = "now"
"""Names a thread's latest checkpoint."""


@dataclass(frozen=True)
class Mark:
    """A checkpoint's place in the search."""

    checkpoint: str
    round: int | None
    """Rounds that had ended; None before initialize has."""
    next: tuple[str, ...]
    """Nodes that run next, one entry for each task; empty when the search has ended."""


@dataclass(frozen=True)
class Point:
    """A checkpoint that was named, and whether it is the thread's latest one."""

    mark: Mark
    latest: bool

    @property
    def round(self) -> int:
        """The last round that had ended, 0 when none had."""
        return self.mark.round or 0


def read_marks(connection: Connection, uuid: str) -> list[Mark]:
    """Return every checkpoint of the thread, the oldest first."""
    if not connection.tables.exist(connection):
        return []
    return [_mark(connection, uuid, name, metadata) for name, metadata in connection.tables.places(connection, uuid)]


def place(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the metadata of a search's checkpoint tells of its place; nothing for other graphs' checkpoints.

    Reading it takes a tenth of the time that unpacking whole checkpoints takes.
    """
    round_ = checkpoint["channel_values"].get("round")
    return {} if round_ is None else {"round": round_, "next": [node for _, node in planned(checkpoint)]}


def _mark(connection: Connection, uuid: str, name: str, metadata: dict[str, Any]) -> Mark:
    if "next" not in metadata:
        metadata = place(unpacked(connection, uuid, name))
    return Mark(name, metadata.get("round"), tuple(metadata.get("next", ())))


def unpacked(connection: Connection, uuid: str, name: str) -> dict[str, Any]:
    """Return a whole checkpoint of the thread, which must exist."""
    saved = connection.tables.find(connection, uuid, name)
    if saved is None:
        raise StoreError(f"checkpoint {name} was dropped meanwhile: do that again")
    return saved.checkpoint


def boundaries(marks: Iterable[Mark]) -> dict[int, Mark]:
    """Return round -> the last checkpoint at which all of it is over and nothing of the next one has begun.

    Of a round that ends a cycle it is the one after the plan was revised; of others the one that draws on.
    """
    found: dict[int, Mark] = {}
    for mark in marks:
        if mark.round is None:
            continue
        known = found.get(mark.round)
        if _over(mark) or (set(mark.next) == {DRAW} and (known is None or not _over(known))):
            found[mark.round] = mark
    return found


def _over(mark: Mark) -> bool:
    return mark.next in ((SELECT,), ())


def find_point(marks: list[Mark], thread: Thread, at: str) -> Point:
    """Return the checkpoint that `at` names: a round, a checkpoint's id or its beginning, or `now`.

    Raises:
        UsageError: there is none, or several; the message says what there is.
    """
    if not marks:
        raise UsageError(f"{thread.name} has no checkpoint yet: resume it, or start another run with `ksearch run`")
    if at == NOW:
        return Point(marks[-1], latest=True)
    if at.isdigit() and len(at) < 8:
        rounds = boundaries(marks)
        if marks[-1].round is not None:
            # The plan of a round that has just ended may not have been revised yet.
            rounds.setdefault(marks[-1].round, marks[-1])
        if int(at) not in rounds:
            last = f"rounds 0 to {max(rounds)}" if rounds else "no round that has ended"
            raise UsageError(f"{thread.name} has no round {at} to go back to: it has {last}")
        mark = rounds[int(at)]
    else:
        fitting = [mark for mark in marks if mark.checkpoint.startswith(at)] if at else []
        if len(fitting) != 1:
            what = f"{len(fitting)} checkpoints that begin with" if fitting else "no checkpoint"
            raise UsageError(f"{thread.name} has {what} {at!r}: name a round, or a checkpoint by more of its id")
        mark = fitting[0]
    return Point(mark, latest=mark is marks[-1])
