"""What a reference takes and returns: found by running it, confined, on every workload."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from evaluators.adapters.axes import Axes
from evaluators.adapters.driver_source import driver_source
from evaluators.adapters.source_file import SourceFile
from evaluators.digest import canonical_json
from evaluators.errors import TaskError
from evaluators.invalid import first_problem
from evaluators.isolation import IsolatedFailure, isolation
from evaluators.objective import Record
from evaluators.task import AxisSize, DType, Scalar, Tensor, Workload
from evaluators.task_file import one_line
from evaluators.worker.status import Status

PROBE_S = 60.0
"""How long a reference may take on all workloads together, seconds."""


class _Seen(Record):
    """A tensor's type and shape."""

    dtype: DType
    shape: tuple[AxisSize, ...]


class _Number(Record):
    """A number's type."""

    scalar: Literal["int64", "float64"]


_Entry = tuple[Annotated[str | None, Field(max_length=200)], _Seen | _Number]


class _Case(Record):
    inputs: tuple[_Entry, ...]
    outputs: tuple[_Entry, ...]


_CASES = TypeAdapter(tuple[_Case, ...])


class Unended(TaskError):
    """A reference does not return in time."""


class NoRoom(TaskError):
    """A workload needs more memory than a reference is given."""

    def __init__(self, message: str, workload: Workload, problem: str) -> None:
        """`problem`: the message without the file."""
        super().__init__(message)
        self.workload, self.problem = workload, problem


@dataclass(frozen=True)
class Signature:
    """The parts of a task that follow from what was seen."""

    inputs: dict[str, Tensor | Scalar]
    outputs: dict[str, Tensor]
    constants: dict[str, int]
    axes: tuple[str, ...]
    workloads: tuple[Workload, ...]
    about: Any
    """What the reference's function `about` says, JSON."""


def probed(
    source: SourceFile, reference: str, workloads: Sequence[Workload], timeout_s: float, *, fake: bool
) -> Signature:
    """Return what `reference`, source in the tasks' format, makes and returns at `workloads`, within `timeout_s`.

    With `fake`, nothing is computed where sizes and types can be told without: for what is large, or needs a GPU.
    Raises TaskError that names the file of `source` and what failed; Unended when that is time, NoRoom when memory.
    """
    cases = [{"axes": dict(workload.axes), "params": dict(workload.params)} for workload in workloads]
    answer = _asked(str(source.path), reference, canonical_json(cases), min(timeout_s, PROBE_S), fake)
    if "problem" in answer:
        raise _failure(source, answer, workloads)
    try:
        seen = _CASES.validate_python(answer["cases"])
    except ValidationError as error:
        source.refuse(f"what it makes is not understood: {first_problem(error, answer['cases'])}")
    except KeyError as error:
        source.refuse(f"what it makes is not understood: {error}")
    return _signature(source, seen, workloads, answer.get("about"))


def _failure(source: SourceFile, answer: Mapping[str, Any], workloads: Sequence[Workload]) -> TaskError:
    """Return the error that stands for an answer with a problem."""
    problem, number = one_line(str(answer["problem"])[:600]), answer.get("case")
    reason = one_line(f"{source.path}: {problem}")
    if answer.get("unended"):
        return Unended(reason)
    if answer.get("no_room") and type(number) is int and 0 <= number < len(workloads):
        return NoRoom(reason, workloads[number], problem)
    return TaskError(reason)


@lru_cache(maxsize=16)
def _asked(file: str, reference: str, cases: bytes, timeout_s: float, fake: bool) -> Mapping[str, Any]:
    """Return the driver's answer, remembered by all that it depends on."""
    request = {"reference": reference, "cases": json.loads(cases), "file": Path(file).name, "fake": fake}
    with isolation() as server:
        try:
            answer = server.run(driver_source("probe"), request, timeout_s=timeout_s).value
        except IsolatedFailure as failure:
            stage = failure.stage or "running it to see what it makes"
            return {"problem": f"{stage}: {failure.message}", "unended": failure.status is Status.TIMEOUT}
    return answer if isinstance(answer, dict) else {}


def _signature(source: SourceFile, seen: Sequence[_Case], workloads: Sequence[Workload], about: Any) -> Signature:
    axes = Axes([workload.axes for workload in workloads])
    inputs: dict[str, Tensor | Scalar] = {}
    for name, entries in _columns(source, [case.inputs for case in seen], "inputs"):
        inputs[name] = _argument(source, axes, name, entries)
    outputs: dict[str, Tensor] = {}
    for name, entries in _columns(source, [case.outputs for case in seen], "reference"):
        name = name if name not in inputs else f"{name}_out"
        output = _argument(source, axes, name, entries)
        if not isinstance(output, Tensor):
            source.refuse(f"reference: must return tensors, {name} is a number")
        outputs[name] = output
    placed = tuple(
        workload.model_copy(update={"axes": axes.variable(number)}) for number, workload in enumerate(workloads)
    )
    return Signature(inputs, outputs, axes.constants, tuple(placed[0].axes), placed, about)


def _columns(
    source: SourceFile, groups: Sequence[Sequence[_Entry]], what: str
) -> list[tuple[str, list[_Seen | _Number]]]:
    """Return name and entries per workload; unnamed ones are called y, or y0, y1 and so on."""
    names = [name if name is not None else f"y{place}" for place, (name, _) in enumerate(groups[0])]
    if len(groups[0]) == 1 and groups[0][0][0] is None:
        names = ["y"]
    if not names:
        source.refuse(f"{what}: gives no tensors")
    for name in names:
        if not name.isidentifier():
            source.refuse(f"{what}: {name!r} cannot be an argument's name")
    if any([name for name, _ in group] != [name for name, _ in groups[0]] for group in groups):
        source.refuse(f"{what}: gives other names at one workload than at another")
    return [(name, [group[place][1] for group in groups]) for place, name in enumerate(names)]


def _argument(source: SourceFile, axes: Axes, name: str, entries: Sequence[_Seen | _Number]) -> Tensor | Scalar:
    first = entries[0]
    if isinstance(first, _Number):
        if any(not isinstance(entry, _Number) for entry in entries):
            source.refuse(f"{name}: is a number at one workload and a tensor at another")
        kinds = {entry.scalar for entry in entries if isinstance(entry, _Number)}
        return Scalar(scalar="float64" if "float64" in kinds else "int64")
    seen = [entry for entry in entries if isinstance(entry, _Seen)]
    if len(seen) != len(entries) or any((s.dtype, len(s.shape)) != (first.dtype, len(first.shape)) for s in seen):
        source.refuse(f"{name}: has another type or number of dimensions at one workload than at another")
    return Tensor(shape=axes.shape(name, [entry.shape for entry in seen]), dtype=first.dtype)
