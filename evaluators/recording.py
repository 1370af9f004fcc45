"""A recorded run as one file: every reply and every evaluation, found again by what was asked, not by when.

JSON lines. The first is the header, each further one an entry: who asked (role), where in the search (round, cycle,
sample, turn), the digest of what was asked without anything measured, and the result.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field

from evaluators.digest import digest_json
from evaluators.errors import UsageError
from evaluators.evaluation import Effort
from evaluators.objective import Record
from evaluators.solution import Solution
from evaluators.task import Task

VERSION = 1
Kind = Literal["reply", "evaluation"]
T = TypeVar("T", bound=Record)


class CassetteMiss(UsageError):
    """The cassette holds no result for what is asked: the search has left the recorded course."""


class Header(Record):
    """What was recorded."""

    cassette: int = VERSION
    """Version of the format."""
    task: str
    """Name of the task."""
    config: dict[str, Any]
    """The configuration in force at the end."""


class Place(Record):
    """Where in the search something is asked."""

    role: str
    round: int = Field(ge=0)
    cycle: int = Field(ge=0)
    sample: int = Field(ge=0)
    turn: int = Field(default=0, ge=0)

    def __str__(self) -> str:
        """Return how to name it to a person."""
        return f"{self.role}, round {self.round}, cycle {self.cycle}, sample {self.sample}, turn {self.turn}"


class CassetteEntry(Record):
    """One recorded call."""

    kind: Kind
    place: Place
    digest: str
    """Of the request, without measured figures."""
    asked: Any = None
    """What was asked, for people to read; not used in replay."""
    result: Any
    """As the ledger has it."""


class Cassette:
    """The entries of one file."""

    def __init__(self, file: Path, header: Header, entries: Iterable[CassetteEntry]) -> None:
        self.file = file
        self.header = header
        self.entries = tuple(entries)
        self._exact = {(entry.kind, entry.place, entry.digest): entry for entry in reversed(self.entries)}
        self._anywhere = {(entry.kind, entry.digest): entry for entry in reversed(self.entries)}

    def find(self, kind: Kind, place: Place, digest: str) -> CassetteEntry | None:
        """Return the entry for the request at this very place, None when there is none."""
        return self._exact.get((kind, place, digest))

    def get(self, kind: Kind, place: Place, digest: str) -> CassetteEntry:
        """Return the entry for the request at this very place. Raises CassetteMiss, naming the request."""
        found = self.find(kind, place, digest)
        if found is None:
            raise CassetteMiss(
                f"{self.file} holds no {kind} for {place}, request {digest[:12]}{self._near(kind, place)}"
            )
        return found

    def anywhere(self, kind: Kind, digest: str) -> CassetteEntry | None:
        """Return the first entry for the request, wherever in the search it was made; None when there is none."""
        return self._anywhere.get((kind, digest))

    def _near(self, kind: Kind, place: Place) -> str:
        others = [entry.digest[:12] for entry in self.entries if (entry.kind, entry.place) == (kind, place)]
        return f"; there it has {', '.join(others)}" if others else "; it has nothing there"


def load_cassette(file: Path) -> Cassette:
    """Return the cassette in `file`. Raises UsageError, naming file and line, when it is none."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read as a cassette: {error}") from error
    first, *rest = [line for line in lines if line.strip()] or [""]
    header = _parsed(file, 1, first, Header)
    entries = [_parsed(file, number, line, CassetteEntry) for number, line in enumerate(rest, start=2)]
    if header.cassette != VERSION:
        raise UsageError(f"{file}: a cassette of version {header.cassette}; this ksearch reads {VERSION}")
    return Cassette(file, header, entries)


def _parsed(file: Path, number: int, line: str, model: type[T]) -> T:
    try:
        return model.model_validate(json.loads(line))
    except ValueError as error:
        raise UsageError(f"{file}: record {number} is no part of a cassette: {str(error).splitlines()[0]}") from error


def evaluation_request(task: Task, solution: Solution, effort: Effort, rival: Solution | None) -> dict[str, Any]:
    """Return what identifies an evaluation: the ledger and cassettes use it alike."""
    return {
        "task": task.digest,
        "solution": solution.digest,
        "effort": effort,
        "rival": None if rival is None else rival.digest,
    }


def evaluation_digest(task: Task, solution: Solution, effort: Effort, rival: Solution | None) -> str:
    """Return the digest of `evaluation_request` (64 hex digits)."""
    return digest_json(evaluation_request(task, solution, effort, rival))
