"""Programs judged by hand: measured when a person asks, and kept in the ledger like everything that was paid for."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from checkpoints.blobs import BlobStore
from checkpoints.database import make_home, open_blobs, open_database
from checkpoints.ledger import Ledger
from checkpoints.place import Place
from evaluators.evaluation import Comparison, Effort
from evaluators.evaluator import Evaluator
from evaluators.objective import Record
from evaluators.solution import Solution
from evaluators.task import Task
from nodes.paid import PaidCalls
from nodes.reusing import share

THREAD = "by hand"
"""Stands in the ledger where a run's uuid would."""
ROLE = "comparison"


class Judged(Record):
    """What the ledger keeps of one visit."""

    task: str
    """Blob of the task."""
    files: tuple[str, ...]
    """What the person called each program."""
    solutions: tuple[str, ...]
    """Blob of each program."""
    comparison: Comparison


class ByHand(Record):
    """What a visit brought."""

    record: str
    """Blob of the `Judged`."""
    comparison: Comparison


async def judge_by_hand(
    folder: Place, evaluator: Evaluator, task: Task, programs: Sequence[tuple[str, Solution]], effort: Effort
) -> ByHand:
    """Judge `programs` (what the person calls each, and it), several ones in one interleaved run, and record it.

    Every visit measures anew. Raises StoreError when `folder` cannot keep the record, and as `Evaluator`.
    """
    await asyncio.to_thread(make_home, folder)
    blobs = await asyncio.to_thread(open_blobs, folder)
    solutions = [solution for _, solution in programs]
    async with open_database(folder) as database:
        calls = PaidCalls(Ledger(database), blobs, THREAD, round=0)
        kept = [await _keep(blobs, record) for record in (task, *solutions)]
        files = [name for name, _ in programs]
        request = {"task": task.digest, "solutions": kept[1:], "effort": effort, "at_ns": time.time_ns()}

        async def call() -> tuple[Any, dict[str, Any]]:
            started = time.monotonic()
            found = await _measured(evaluator, task, solutions, effort)
            judged = Judged(task=kept[0], files=tuple(files), solutions=tuple(kept[1:]), comparison=found)
            device_s = sum(evaluation.device_s for evaluation in found.evaluations)
            return judged.model_dump(mode="json"), {"device_s": device_s, "wall_s": time.monotonic() - started}

        judged = Judged.model_validate(await calls.once(ROLE, request, call))
        await _share(calls, task, solutions, judged.comparison)
        return ByHand(record=await _keep(blobs, judged), comparison=judged.comparison)


async def _measured(evaluator: Evaluator, task: Task, solutions: Sequence[Solution], effort: Effort) -> Comparison:
    if len(solutions) > 1:
        return await evaluator.compare(task, solutions, effort)
    evaluation = await evaluator.evaluate(task, solutions[0], effort)
    return Comparison(
        task=task.digest,
        protocol=evaluation.protocol,
        evaluations=(evaluation,),
        pairs=(),
        environment=evaluation.environment,
    )


async def _share(calls: PaidCalls, task: Task, solutions: Sequence[Solution], comparison: Comparison) -> None:
    """Let runs find a program's evaluation. One of several shared its window with the others: that is not theirs."""
    if len(solutions) == 1:
        (evaluation,) = comparison.evaluations
        await _keep(calls.blobs, evaluation)
        await share(calls, task, solutions[0], evaluation)


async def _keep(blobs: BlobStore, record: Record) -> str:
    return await asyncio.to_thread(blobs.put_json, record.model_dump(mode="json"))
