"""What came of one program under FlashInfer-Bench's protocol, and the figures made of it. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field, ValidationError

from evaluators.adapters.flashinfer.exporting import word_of
from evaluators.answers import failure_in, unusable, value_of
from evaluators.errors import TaskError
from evaluators.evaluation import TIER_OF, Effort, Environment, Evaluation, Measurement, WorkloadResult
from evaluators.isolation import IsolatedFailure
from evaluators.objective import Record, Value
from evaluators.protocols import FIB
from evaluators.solution import Solution
from evaluators.task import Task, Workload
from evaluators.worker.figures import aggregate
from evaluators.worker.status import Status

NOTE = (
    "FlashInfer-Bench's protocol: checked and timed in the program's own process, so a program may fool it;"
    " not to be compared with ksearch's own figures"
)
TRIALS, REPEATS = 3, 50
"""Trials on inputs of their own, calls of each that count."""


class _Passed(Record):
    """The driver's answer about a program that is right."""

    worst: float = Field(ge=0, allow_inf_nan=False)
    candidate_ms: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    baseline_ms: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    few: bool = False


@dataclass
class Found:
    """What is known of one program."""

    worst: dict[str, float] = field(default_factory=dict)
    """Workload -> largest error."""
    times: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Workload -> milliseconds of baseline and program, by run."""
    failed: WorkloadResult | None = None
    log: str = ""
    few: set[str] = field(default_factory=set)
    """Workloads on which the baseline is slow and was timed with fewer calls."""
    wall_s: float = 0.0

    def add(self, workload: Workload, answer: Any, *, timed: bool) -> None:
        """Keep what the driver answered. Raises IsolatedFailure when the program failed."""
        if isinstance(answer, dict) and "failed" in answer:
            raise failure_in(answer["failed"])
        try:
            passed = _Passed.model_validate(answer)
        except ValidationError as error:
            raise unusable(str(error)) from error
        if timed:
            if passed.baseline_ms is None or passed.candidate_ms is None:
                raise IsolatedFailure(Status.RUNTIME_ERROR, "its process told no times", "")
            self.times.setdefault(workload.name, []).append((passed.baseline_ms, passed.candidate_ms))
        self.worst[workload.name] = max(passed.worst, self.worst.get(workload.name, 0.0))
        self.few |= {workload.name} if passed.few else set()

    def fail(self, workload: Workload, failure: IsolatedFailure) -> None:
        """Keep how the program failed. Of a workload that is held out, only that it did is told."""
        held_out = workload.split == "held_out"
        message = f"{word_of(failure.status)}: {failure.message}"
        self.failed = WorkloadResult(workload=workload.name, status=failure.status, message=message)
        self.log = "" if held_out else failure.log


def record(task: Task, solution: Solution, effort: Effort, found: Found, environment: Environment) -> Evaluation:
    """Return the evaluation of a program."""
    failed, notes = found.failed, [NOTE, *task.notes]
    if found.few:
        notes.append(f"the baseline is slow, and was timed with fewer calls, on {', '.join(sorted(found.few))}")
    return Evaluation(
        status=Status.PASSED if failed is None else failed.status,
        tier=TIER_OF[effort] if failed is None else "built",
        solution=solution.digest,
        task=task.digest,
        effort=effort,
        protocol=FIB,
        message=_message(task, failed),
        log=found.log,
        objective=None if failed is not None or effort == "check" else _objective(task, found),
        workloads=_results(task, found),
        environment=environment,
        notes=tuple(notes),
        device_s=found.wall_s,
        wall_s=found.wall_s,
    )


def ratio(task: Task, found: Found, other: Found) -> Value:
    """Return `other`'s time / `found`'s, aggregated over the workloads, over the runs."""
    runs = len(next(iter(found.times.values())))
    return value_of(
        [
            aggregate([other.times[name][run][1] / found.times[name][run][1] for name in found.times], _how(task))
            for run in range(runs)
        ]
    )


def reject_task(task: Task, workload: Workload, answer: Any) -> None:
    """Raise TaskError unless a driver that was handed no program answered that the task can be judged."""
    if answer != {"alone": True}:
        problem = answer.get("task") if isinstance(answer, dict) else None
        raise TaskError(
            f"task {task.named} on {workload.name}: {problem or 'its own code gave no usable answer'}"[:800]
        )


def _objective(task: Task, found: Found) -> Value:
    """Return baseline / program, aggregated over the workloads, over the runs."""
    runs = zip(*found.times.values(), strict=True)
    return value_of([aggregate([baseline / took for baseline, took in run], _how(task)) for run in runs])


def _how(task: Task) -> str:
    return task.objective.aggregate


def _message(task: Task, failed: WorkloadResult | None) -> str:
    if failed is None:
        return ""
    shown = {workload.name for workload in task.split("search")}
    return f"{failed.workload}: {failed.message}" if failed.workload in shown else "failed on a held-out workload"


def _results(task: Task, found: Found) -> tuple[WorkloadResult, ...]:
    """Return what happened on the search workloads that were reached."""
    results = []
    for workload in task.split("search"):
        name = workload.name
        if found.failed is not None and found.failed.workload == name:
            results.append(found.failed)
        elif name in found.worst:
            measured = _measurement(found.times[name]) if name in found.times else None
            passed = WorkloadResult(
                workload=name, status=Status.PASSED, worst_error=found.worst[name], measurement=measured
            )
            results.append(passed)
    return tuple(results)


def _measurement(times: Sequence[tuple[float, float]]) -> Measurement:
    return Measurement(
        baseline_ms=statistics.median(baseline for baseline, _ in times),
        candidate_ms=statistics.median(took for _, took in times),
        ratio=value_of([baseline / took for baseline, took in times]),
        estimates=len(times),
        repeats=TRIALS * REPEATS,
    )
