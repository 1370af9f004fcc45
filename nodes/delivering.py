"""What another machine found, brought into the ledger of the run that waits for it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from checkpoints.blobs import BlobStore
from checkpoints.database import open_blobs, open_database
from checkpoints.ledger import Ledger
from checkpoints.place import Place
from checkpoints.thread_store import Threads
from checkpoints.threads import Thread
from evaluators.errors import UsageError
from evaluators.evaluation import Effort, Evaluation
from evaluators.jobs import evaluation as record_of
from evaluators.recording import evaluation_request
from evaluators.solution import Solution
from evaluators.task import Task
from evaluators.worker.results import Outcome, Result, ResultFault, read_result
from nodes.bundling import EVENT
from nodes.paid import PaidCalls
from nodes.reusing import share


@dataclass(frozen=True)
class Delivered:
    """What a delivery brought."""

    evaluations: int
    """Now on record."""
    failed: tuple[str, ...]
    """How the other machine failed, for each program that it could not judge."""


@dataclass(frozen=True)
class _Contents:
    """What the run knows of the bundle."""

    task: Task
    programs: dict[str, Solution]
    """By digest."""


async def deliver(home: Place, thread: Thread, file: Path) -> Delivered:
    """Write the evaluations in `file` into the ledger of `thread`, once.

    Raises UsageError when the file is no result, was cut off or changed, belongs to a bundle that this run has not
    written, or brings nothing new; StoreError.
    """
    result = await asyncio.to_thread(_read, file)
    blobs = open_blobs(home)
    async with open_database(home) as database:
        contents = await _contents(Threads(database), blobs, thread, result, file)
        judged = [outcome for outcome in result.outcomes if outcome.answer is not None]
        records = [_record(contents, outcome, file) for outcome in judged]
        ledger, new = Ledger(database), 0
        for outcome, record in zip(judged, records, strict=True):
            new += await _pay(ledger, blobs, thread, contents, outcome, record)
    failed = tuple(outcome.failed for outcome in result.outcomes if outcome.answer is None)
    if not new and not failed:
        raise UsageError(f"{file} was delivered to {thread.name} before: nothing in it is new")
    return Delivered(new, failed)


def _read(file: Path) -> Result:
    try:
        return read_result(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except ResultFault as error:
        raise UsageError(f"{file} {error}") from error


async def _contents(threads: Threads, blobs: BlobStore, thread: Thread, result: Result, file: Path) -> _Contents:
    facts = await _written(threads, thread, result)
    if facts is not None:
        return await asyncio.to_thread(_load, blobs, facts)
    for other in await threads.all():
        if await _written(threads, other, result) is not None:
            raise UsageError(f"{file} belongs to {other.name}: ksearch deliver {other.name} {file}")
    bundle = result.bundle[:12]
    raise UsageError(f"{file} is the result of bundle {bundle}, which no run here has written: is it the right --home?")


async def _written(threads: Threads, thread: Thread, result: Result) -> dict[str, Any] | None:
    """Return what the run noted when it wrote the result's bundle, None when it wrote none such."""
    events = [event for event in await threads.events(thread.uuid) if event.kind == EVENT]
    return next((event.data for event in events if event.data["digest"] == result.bundle), None)


def _load(blobs: BlobStore, facts: dict[str, Any]) -> _Contents:
    return _Contents(
        task=Task.model_validate(blobs.get_json(facts["task"])),
        programs={digest: Solution.model_validate(blobs.get_json(blob)) for digest, blob in facts["programs"].items()},
    )


def _programs(contents: _Contents, outcome: Outcome) -> Sequence[Solution]:
    request = outcome.request
    return [contents.programs[digest] for digest in (request.solution, request.rival) if digest is not None]


def _record(contents: _Contents, outcome: Outcome, file: Path) -> Evaluation:
    """Return an outcome as a record. Raises UsageError when it does not hold together."""
    assert outcome.answer is not None
    try:
        effort: Effort = next(effort for effort in get_args(Effort) if effort == outcome.request.effort)
        return record_of(contents.task, _programs(contents, outcome), effort, outcome.answer)
    except (KeyError, IndexError, TypeError, ValueError, StopIteration) as error:
        words = " ".join(str(error).split())[:200]
        raise UsageError(f"{file} does not hold what a result of this run holds: {words}") from error


async def _pay(
    ledger: Ledger, blobs: BlobStore, thread: Thread, contents: _Contents, outcome: Outcome, record: Evaluation
) -> bool:
    """Write one evaluation down; return whether it is new."""
    request = outcome.request
    solution, rival = (*_programs(contents, outcome), None)[:2]
    assert solution is not None
    calls = PaidCalls(ledger, blobs, thread.uuid, request.round, request.cycle, request.sample)
    new = False

    async def call() -> tuple[Any, dict[str, Any]]:
        nonlocal new
        new = True
        return record.model_dump(mode="json"), {"device_s": record.device_s, "wall_s": record.wall_s}

    asked = evaluation_request(contents.task, solution, record.effort, rival)
    await calls.once(request.role, asked, call, request.turn)
    if new and rival is None:
        await share(calls, contents.task, solution, record)
    return new
