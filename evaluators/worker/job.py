"""Jobs and verdicts as plain data: what crosses the pipe between ksearch and its supervisor, as JSON."""

import dataclasses
import types
import typing
from dataclasses import dataclass
from typing import Any, TypeVar

from evaluators.worker.status import Status

T = TypeVar("T")


@dataclass(frozen=True)
class Argument:
    """An input or output. `shape` in symbolic axes; None: a scalar passed by value."""

    name: str
    dtype: str
    shape: tuple[str, ...] | None


@dataclass(frozen=True)
class Case:
    """One workload; `axes` holds every axis' size, constants included."""

    name: str
    held_out: bool
    axes: dict[str, int]
    params: dict[str, Any]
    timed: bool = True


@dataclass(frozen=True)
class TaskSpec:
    """What the supervisor needs of a task."""

    name: str
    """What messages call it: `evaluators.task.Task.named`."""
    digest: str
    axes: tuple[str, ...]
    """Variable axes, in the order in which a plain C function receives them."""
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    cases: tuple[Case, ...]
    rtol: float
    atol: float
    matched: float
    """Share of the elements that must match."""
    objective: str
    goal: str
    unit: str
    aggregate: str
    reference: str
    """Source of the reference module."""
    timeout_s: float
    rule: str = "sum"
    """How atol and rtol go together; see `evaluators.task.Tolerance`."""
    normalised: float | None = None
    """Largest RMS of the error as a share of the expected values' standard deviation; None: not looked at."""
    device: str = "cpu"
    """`cpu` or `cuda`: where the arguments are."""
    workloads_at: str = ""
    """File in which a person finds the workloads' sizes; empty: there is no need to say."""


@dataclass(frozen=True)
class Program:
    """One candidate."""

    digest: str
    files: dict[str, str]
    main_file: str
    language: str
    entry_point: str
    binding: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """One request: judge every program; time those that pass together (unless `effort` is `check`)."""

    task: TaskSpec
    programs: tuple[Program, ...]
    effort: str
    rules_off: tuple[str, ...] = ()
    """Integrity rules that are not applied (tests of the rules use it; noted in the verdict)."""


@dataclass(frozen=True)
class Figure:
    """A measured value with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Timed:
    """Times of one case: the baseline against one program."""

    baseline_ms: float
    candidate_ms: float
    ratio: Figure
    estimates: int
    repeats: int


@dataclass(frozen=True)
class CaseVerdict:
    """What happened on one case."""

    case: str
    status: Status
    message: str = ""
    worst_error: float | None = None
    timed: Timed | None = None


@dataclass(frozen=True)
class ProgramVerdict:
    """What became of one program; the fields are those of `evaluators.evaluation.Evaluation`."""

    status: Status
    tier: str
    message: str = ""
    log: str = ""
    rule: str | None = None
    objective: Figure | None = None
    cases: tuple[CaseVerdict, ...] = ()
    doubt: str = ""
    notes: tuple[str, ...] = ()
    build_s: float = 0.0
    device_s: float = 0.0
    wall_s: float = 0.0


@dataclass(frozen=True)
class PairVerdict:
    """Time of program `b` / time of program `a` (indices into the job's programs)."""

    a: int
    b: int
    ratio: Figure


@dataclass(frozen=True)
class Verdict:
    """The answer to a job: one verdict per program, and every pair of those that were timed."""

    programs: tuple[ProgramVerdict, ...]
    pairs: tuple[PairVerdict, ...]


def encode(record: Any) -> dict[str, Any]:
    """Return a dataclass of this module as plain JSON data."""
    return dataclasses.asdict(record)


def decode(kind: type[T], data: Any) -> T:
    """Return `data`, plain JSON, as the dataclass `kind`. Raises TypeError or ValueError when it does not fit."""
    return typing.cast(T, _decode(kind, data))


def _decode(kind: Any, data: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return typing.cast(Any, kind)(**{key: _decode(hints[key], value) for key, value in data.items()})
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return tuple(_decode(args[0], item) for item in data)
    if origin is dict:
        return {key: _decode(args[1], value) for key, value in data.items()}
    if origin in (types.UnionType, typing.Union):
        return None if data is None else _decode(next(arg for arg in args if arg is not type(None)), data)
    return Status(data) if kind is Status else data
