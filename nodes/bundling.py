"""What a run waits for, gathered into one bundle: every pending evaluation, the incumbent, and what may follow."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints.blobs import BlobStore
from checkpoints.database import open_blobs, open_database
from checkpoints.faults import storage_errors
from checkpoints.history import Snapshot
from checkpoints.place import Place, local_folder
from checkpoints.thread_store import Threads
from evaluators.bundling import Packed, bundled_job, pack
from evaluators.local import MEMORY_BYTES
from evaluators.protocols import tie_margin
from evaluators.solution import Solution
from evaluators.task import Task
from evaluators.worker.bundle import Incumbent, Request
from graph.state import searched
from nodes.deferral import DeferredQuestion, deferred

EVENT = "bundle"
"""Kind of the event that tells which bundles a run has written."""


@dataclass(frozen=True)
class Bundled:
    """A bundle on disk."""

    file: Path
    digest: str
    evaluations: int
    """That the run waits for."""

    @property
    def result(self) -> str:
        """Name of the result, as the worker calls it."""
        return f"{self.file.stem}.result.json"


async def write_bundle(home: Place, snapshot: Snapshot, folder: Path | None = None) -> Bundled | None:
    """Write what the run waits for into one bundle, in `folder` (default: `bundles` beside the runs), and note it.

    Returns None when it waits for no evaluation. Raises StoreError.
    """
    questions = deferred(snapshot.interrupts)
    if not questions:
        return None
    thread = snapshot.thread
    blobs = open_blobs(home)
    packed, programs = await asyncio.to_thread(_pack, blobs, snapshot, questions)
    folder = local_folder(home) / "bundles" if folder is None else folder
    file = folder / f"{thread.name}-{packed.digest[:12]}.zip"
    with storage_errors(folder):
        await asyncio.to_thread(_write, file, packed.content)
    async with open_database(home) as database:
        threads = Threads(database)
        known = [event.data["digest"] for event in await threads.events(thread.uuid) if event.kind == EVENT]
        if packed.digest not in known:
            facts = {"digest": packed.digest, "task": questions[0].task, "programs": programs}
            await threads.add_event(thread.uuid, EVENT, facts)
    return Bundled(file, packed.digest, len(questions))


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}")
    partial.write_bytes(content)
    partial.replace(file)


def _pack(blobs: BlobStore, snapshot: Snapshot, questions: Sequence[DeferredQuestion]) -> tuple[Packed, dict[str, str]]:
    """Return the bundle, and the blob of each of its programs by the program's digest."""
    task = Task.model_validate(blobs.get_json(questions[0].task))
    values = snapshot.values
    incumbent = values.get("incumbent")
    wanted = {blob for question in questions for blob in (question.solution, question.rival) if blob is not None}
    wanted |= set() if incumbent is None else {incumbent["solution"]}
    wanted |= {cycle["best"]["solution"] for cycle in values.get("cycles", []) if cycle["best"] is not None}
    solutions = {blob: Solution.model_validate(blobs.get_json(blob)) for blob in sorted(wanted)}
    digests = {blob: solution.digest for blob, solution in solutions.items()}
    requests = [_request(question, digests) for question in questions]
    if any(question.role == "evaluator" for question in questions):
        requests += _if_moved(values, questions[0].round, digests)
    job = bundled_job(
        task,
        {solution.digest: solution for solution in solutions.values()},
        requests,
        None if incumbent is None else Incumbent(digests[incumbent["solution"]], searched(incumbent)["value"]),
        values.get("environment", ""),
        tie_margin(task.device, task.verdict),
        MEMORY_BYTES,
    )
    return pack(snapshot.thread.uuid, snapshot.thread.name, job), {digests[blob]: blob for blob in solutions}


def _request(question: DeferredQuestion, digests: Mapping[str, str]) -> Request:
    return Request(
        role=question.role,
        round=question.round,
        cycle=question.cycle,
        sample=question.sample,
        turn=question.turn,
        effort=question.effort,
        solution=digests[question.solution],
        rival=None if question.rival is None else digests[question.rival],
    )


def _if_moved(values: Mapping[str, Any], round_: int, digests: Mapping[str, str]) -> list[Request]:
    """Return what nodes/remeasuring.py asks for when the programs are judged in another environment than before."""
    incumbent = values.get("incumbent")
    again = [] if incumbent is None else [("certify", incumbent["solution"])]
    again += [("search", cycle["best"]["solution"]) for cycle in values.get("cycles", []) if cycle["best"] is not None]
    return [
        Request("remeasurement", round_, 0, 0, 0, effort, digests[blob], None, moved_only=True)
        for effort, blob in dict.fromkeys(again)
    ]
