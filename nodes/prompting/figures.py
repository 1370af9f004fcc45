"""Measured figures per workload, side by side. Only the search split is ever shown."""

from collections.abc import Mapping
from dataclasses import dataclass

from evaluators.evaluation import Evaluation, WorkloadResult
from evaluators.task import Task
from evaluators.worker.status import Status


@dataclass(frozen=True)
class Cell:
    """One program on one workload."""

    status: str
    """`passed`, how it failed, or `-` when it was not run."""
    ms: float | None = None
    """Milliseconds of one call; None when it was not timed."""
    ratio: float | None = None
    """Baseline time / program's time, from one interleaved run."""


@dataclass(frozen=True)
class Row:
    """One workload."""

    workload: str
    baseline_ms: float | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Figures:
    """A table: a row per search workload, a cell per program."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Effect:
    """What a change did on one workload."""

    workload: str
    effect: float
    """Ratio after / ratio before: above 1, it became faster. Ratios to the baseline cancel drifts of the machine."""


def figures(task: Task, programs: Mapping[str, Evaluation]) -> Figures:
    """Return the table of `programs` (title -> evaluation) on the task's search workloads."""
    found = {title: _results(evaluation) for title, evaluation in programs.items()}
    rows = []
    for workload in task.split("search"):
        cells = tuple(_cell(results.get(workload.name)) for results in found.values())
        times = [results[workload.name].measurement for results in found.values() if workload.name in results]
        baseline = next((time.baseline_ms for time in times if time is not None), None)
        rows.append(Row(workload.name, baseline, cells))
    return Figures(tuple(programs), tuple(rows))


def effects(task: Task, before: Evaluation | None, after: Evaluation | None) -> tuple[Effect, ...]:
    """Return how much faster `after` is than `before` on every search workload where both were timed."""
    if before is None or after is None:
        return ()
    old, new = _results(before), _results(after)
    found = []
    for workload in task.split("search"):
        a, b = (_cell(results.get(workload.name)).ratio for results in (old, new))
        if a is not None and b is not None:
            found.append(Effect(workload.name, b / a))
    return tuple(found)


def failing(task: Task, evaluation: Evaluation) -> tuple[WorkloadResult, ...]:
    """Return the search workloads on which the program did not pass."""
    shown = {workload.name for workload in task.split("search")}
    return tuple(
        result for result in evaluation.workloads if result.workload in shown and result.status is not Status.PASSED
    )


def measured_on(evaluation: Evaluation | None) -> str:
    """Return the machine and the compilers behind an evaluation's figures, empty when they are not known."""
    if evaluation is None or evaluation.environment is None:
        return ""
    environment = evaluation.environment
    torch = f"torch {environment.torch}" if environment.torch else ""
    triton = f"triton {environment.triton}" if environment.triton else ""
    parts = [part for part in (environment.driver, environment.compiler, torch, triton) if part]
    return f"{environment.device} ({', '.join(parts)})" if parts else environment.device


def _results(evaluation: Evaluation) -> dict[str, WorkloadResult]:
    return {result.workload: result for result in evaluation.workloads}


def _cell(result: WorkloadResult | None) -> Cell:
    if result is None:
        return Cell("-")
    measurement = result.measurement
    if measurement is None:
        return Cell(result.status.value)
    return Cell(result.status.value, measurement.candidate_ms, measurement.ratio.value)
