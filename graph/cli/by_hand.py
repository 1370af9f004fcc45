"""Reading what was judged by hand, without LangGraph."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from checkpoints.blobs import BlobStore
from checkpoints.database import open_blobs
from checkpoints.history import read_ledger
from checkpoints.place import Place
from evaluators.errors import UsageError
from evaluators.task import Task
from graph.report.figures import ratio_to_baseline
from nodes.by_hand import ROLE, THREAD, Judged


@dataclass(frozen=True)
class Kept:
    """One visit of `ksearch evaluate`."""

    record: str
    at: float
    """Unix time of its end, seconds."""
    judged: Judged
    blobs: BlobStore

    @cached_property
    def task(self) -> Task:
        """The task."""
        return Task.model_validate(self.blobs.get_json(self.judged.task))

    @property
    def listed(self) -> dict[str, Any]:
        """The visit in short, as plain JSON."""
        evaluations = zip(self.judged.files, self.judged.comparison.evaluations, strict=True)
        return {
            "record": self.record,
            "at": self.at,
            "task": self.task.name,
            "programs": [
                {"file": file, "status": evaluation.status.value, "effort": evaluation.effort, "ratio": self._ratio(at)}
                for at, (file, evaluation) in enumerate(evaluations)
            ],
        }

    def _ratio(self, at: int) -> float | None:
        ratio = ratio_to_baseline(self.task.objective, self.judged.comparison.evaluations[at])
        return None if ratio is None else ratio.value


def read_by_hand(home: Place) -> list[Kept]:
    """Return every visit, the latest first. Raises StoreError, UsageError as `checkpoints.history.read_ledger`."""
    blobs = open_blobs(home)
    return [
        Kept(entry.result, entry.finished_at, Judged.model_validate(blobs.get_json(entry.result)), blobs)
        for entry in read_ledger(home, THREAD)
        if entry.key.role == ROLE and entry.result is not None and entry.finished_at is not None
    ]


def find_by_hand(home: Place, record: str) -> Kept:
    """Return the one visit whose record begins so. Raises UsageError when none or several do."""
    found = [kept for kept in read_by_hand(home) if kept.record.startswith(record)]
    if len(found) != 1:
        raise UsageError(
            f"{len(found) or 'no'} records begin with {record!r}: `ksearch evaluations` lists them with their names"
        )
    return found[0]
