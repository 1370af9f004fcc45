"""Our records in the format that flashinfer-bench loads: definitions, solutions and traces."""

import json
import math
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluators.adapters.flashinfer.records import (
    DTYPES,
    Argument,
    BuildSpec,
    ConstAxis,
    Correctness,
    Definition,
    FibSolution,
    Format,
    Machine,
    Number,
    Performance,
    Random,
    Source,
    Stored,
    Trace,
    TraceEvaluation,
    VarAxis,
)
from evaluators.adapters.flashinfer.records import Workload as FibWorkload
from evaluators.errors import TaskError
from evaluators.evaluation import Evaluation, WorkloadResult
from evaluators.solution import Solution
from evaluators.task import Scalar, Task, Tensor, Workload
from evaluators.worker.status import Status

STATUS: Mapping[Status, str] = {
    Status.PASSED: "PASSED",
    Status.NOT_TIMED: "PASSED",
    Status.WRONG_SHAPE: "INCORRECT_SHAPE",
    Status.WRONG_DTYPE: "INCORRECT_DTYPE",
    Status.WRONG_VALUES: "INCORRECT_NUMERICAL",
    Status.NON_FINITE: "INCORRECT_NUMERICAL",
    Status.BUILD_ERROR: "COMPILE_ERROR",
    Status.IMPORT_ERROR: "COMPILE_ERROR",
    Status.TIMEOUT: "TIMEOUT",
}
"""Our status -> the format's; those that are not listed are its RUNTIME_ERROR."""
AUTHOR = "ksearch"
_LOG_BYTES = 5 << 20
_OP_TYPES = ("gqa_paged", "gqa_ragged", "mla_paged", "moe", "gemm", "rmsnorm", "sampling", "gdn", "dsa_paged")


def word_of(status: Status) -> str:
    """Return the format's word for a status."""
    return STATUS.get(status, "RUNTIME_ERROR")


def export_definition(task: Task, op_type: str) -> Definition:
    """Return a task as a definition; its reference is called through `run`. Raises TaskError where it has no words."""
    axes = {**{axis: ConstAxis(value=size) for axis, size in task.constants.items()}}
    return Definition(
        name=task.name,
        op_type=op_type,
        axes={**axes, **{axis: VarAxis() for axis in task.axes}},
        inputs={name: _argument(task, name, item) for name, item in task.inputs.items()},
        outputs={name: _argument(task, name, item) for name, item in task.outputs.items()},
        reference=_run(task),
        description=task.title or None,
    )


def export_workload(task: Task, workload: Workload) -> FibWorkload:
    """Return one workload. Inputs are `random` but for numbers, and tensors that are stored, of imported tasks."""
    inputs: dict[str, Random | Number | Stored] = {}
    for name, item in task.inputs.items():
        stored = workload.params.get(f"stored_{name}")
        if isinstance(stored, str):
            inputs[name] = Stored(path=stored.split(":", 3)[3], tensor_key=name)
        elif isinstance(item, Scalar) and isinstance(workload.params.get(name), int | float):
            inputs[name] = Number(value=_number(workload.params[name]))
        else:
            inputs[name] = Random()
    return FibWorkload(uuid=_uuid(task, workload), axes=dict(workload.axes), inputs=inputs)


def export_solution(task: Task, solution: Solution, author: str, hardware: Sequence[str]) -> FibSolution:
    """Return a program. Raises TaskError for a way of calling it that the format does not know."""
    if solution.binding not in ("dps", "value", "torch"):
        raise TaskError(f"a program with binding {solution.binding} cannot be written for flashinfer-bench")
    return FibSolution(
        name=f"{task.name}_{solution.digest[:12]}",
        definition=task.name,
        author=author,
        spec=BuildSpec(
            language=solution.language,
            target_hardware=tuple(hardware),
            entry_point=f"{solution.main_file}::{solution.entry_point}",
            destination_passing_style=solution.binding != "value",
            binding="torch" if solution.language in ("cpp", "cuda") else None,
        ),
        sources=tuple(Source(path=name, content=text) for name, text in solution.files.items()),
        description=f"sha256 {solution.digest}",
    )


def export_traces(task: Task, evaluation: Evaluation, solution: FibSolution, timestamp: str) -> list[Trace]:
    """Return one trace for each workload that the evaluation reached; `timestamp` in ISO 8601.

    The format asks for the largest absolute and relative errors, which are not kept: they read 0, and how much of the
    tolerance was used stands in `extra`.
    """
    workloads = {workload.name: workload for workload in task.workloads}
    machine = _machine(evaluation)
    return [
        Trace(
            definition=task.name,
            workload=export_workload(task, workloads[result.workload]),
            solution=solution.name,
            evaluation=_evaluation(evaluation, result, machine, timestamp),
        )
        for result in evaluation.workloads
        if result.workload in workloads
    ]


def write_all(root: Path, task: Task, solution: Solution, evaluation: Evaluation) -> list[Path]:
    """Write a task, a program for it and what became of it, as flashinfer-bench has them; return the files.

    Raises TaskError for what the format has no words for.
    """
    op_type = _op_type(task)
    workloads = [export_workload(task, workload) for workload in task.workloads]
    hardware = [] if evaluation.environment is None else [evaluation.environment.device]
    made = export_solution(task, solution, AUTHOR, hardware)
    traces = export_traces(task, evaluation, made, datetime.now(UTC).isoformat(timespec="seconds"))
    written = [
        save(root, export_definition(task, op_type), op_type),
        save_workloads(root, task.name, op_type, workloads),
        save(root, made, op_type),
    ]
    return [*written, save_traces(root, AUTHOR, op_type, traces)] if traces else written


def _op_type(task: Task) -> str:
    """Return what stands before the sizes in the names of the format: gqa_paged, mla_paged, moe; else `custom`."""
    return next((kind for kind in _OP_TYPES if task.name.startswith(kind)), "custom")


def save(root: Path, record: Definition | FibSolution, op_type: str) -> Path:
    """Write a definition or a solution where flashinfer-bench looks for it; return the file."""
    if isinstance(record, Definition):
        path = root / "definitions" / op_type / f"{record.name}.json"
    else:
        path = root / "solutions" / record.author / op_type / record.definition / f"{record.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_plain(record), indent=2) + "\n")
    return path


def save_workloads(root: Path, definition: str, op_type: str, workloads: Sequence[FibWorkload]) -> Path:
    """Write workloads where flashinfer-bench looks for them; return the file."""
    lines = [
        {"definition": definition, "solution": None, "workload": _plain(workload), "evaluation": None}
        for workload in workloads
    ]
    return _save_lines(root / "workloads" / op_type / f"{definition}.jsonl", lines)


def save_traces(root: Path, author: str, op_type: str, traces: Sequence[Trace]) -> Path:
    """Write traces of one definition where flashinfer-bench looks for them; return the file."""
    path = root / "traces" / author / op_type / f"{traces[0].definition}.jsonl"
    return _save_lines(path, [_plain(trace) for trace in traces])


def _save_lines(path: Path, lines: Sequence[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))
    return path


def _plain(record: Format) -> Any:
    """Return a record as JSON data; what is None is left out, except a shape, where null means a Python number."""
    return _without_none(record.model_dump(mode="json"))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(item) for name, item in value.items() if item is not None or name == "shape"}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def _argument(task: Task, name: str, item: Tensor | Scalar) -> Argument:
    dtype = item.scalar if isinstance(item, Scalar) else item.dtype
    if dtype not in DTYPES:
        raise TaskError(f"task {task.name}: {name}: {dtype} cannot be written for flashinfer-bench")
    shape = None if isinstance(item, Scalar) else item.shape
    return Argument(shape=shape, dtype=dtype, description=item.description or None)


def _run(task: Task) -> str:
    outputs, named = list(task.outputs), ", ".join(f"{name}={name}" for name in task.inputs)
    return "\n".join(
        [
            task.reference.rstrip(),
            "",
            "",
            f"def run({', '.join(task.inputs)}):",
            f"    answer = reference({named})",
            "    if isinstance(answer, dict):",
            f"        answer = tuple(answer[name] for name in {outputs!r})",
            "    return answer[0] if isinstance(answer, (tuple, list)) and len(answer) == 1 else answer",
            "",
        ]
    )


def _number(value: object) -> int | float:
    if isinstance(value, int | float):
        return value
    raise TypeError(f"{value!r} is no number")


def _uuid(task: Task, workload: Workload) -> str:
    """Return the workload's name when it is a UUID (that of an imported one), else one that depends on all of it."""
    try:
        return str(uuid.UUID(workload.name))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{task.name}/{workload.model_dump_json()}"))


def _machine(evaluation: Evaluation) -> Machine:
    stated = evaluation.environment
    if stated is None:
        return Machine(hardware="unknown")
    libs = {"torch": stated.torch, "triton": stated.triton, "driver": stated.driver, "compiler": stated.compiler}
    return Machine(hardware=stated.device, libs={name: version for name, version in libs.items() if version})


def _evaluation(evaluation: Evaluation, result: WorkloadResult, machine: Machine, timestamp: str) -> TraceEvaluation:
    status = word_of(result.status)
    timed = result.measurement
    if status == "PASSED" and timed is None:
        # The format has no word for a program that is right and was not timed.
        status = "RUNTIME_ERROR"
    correctness = None
    if status in ("PASSED", "INCORRECT_NUMERICAL"):
        used = result.worst_error
        extra = {} if used is None or not math.isfinite(used) else {"worst_error_of_tolerance": used}
        correctness = Correctness(extra=extra or None)
    performance = None
    if status == "PASSED" and timed is not None:
        performance = Performance(
            latency_ms=timed.candidate_ms, reference_latency_ms=timed.baseline_ms, speedup_factor=timed.ratio.value
        )
    log = "\n".join(part for part in (result.message, evaluation.log) if part)
    return TraceEvaluation(
        status=status,
        environment=machine,
        timestamp=timestamp,
        log=log.encode()[:_LOG_BYTES].decode(errors="ignore"),
        correctness=correctness,
        performance=performance,
    )
