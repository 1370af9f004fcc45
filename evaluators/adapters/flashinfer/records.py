"""The format of a flashinfer-trace folder, as far as it is used. Fields that are not are passed over when reading."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

from evaluators.task import AxisSize, Label, Name

Size = Annotated[AxisSize, Strict()]
"""Of an axis: neither true nor \"4\" is one."""

DTYPES = (
    "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1",
    "int64", "int32", "int16", "int8", "bool",
)  # fmt: skip
"""Types that the format knows."""


class Format(BaseModel):
    """Base of the format's records."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class ConstAxis(Format):
    """An axis of one size."""

    type: Literal["const"] = "const"
    value: Size
    description: str | None = None


class VarAxis(Format):
    """An axis whose size a workload gives."""

    type: Literal["var"] = "var"
    description: str | None = None


class Argument(Format):
    """An input or output. `shape` null: a Python number."""

    shape: tuple[Name, ...] | None
    dtype: str
    description: str | None = None


class Definition(Format):
    """What to compute. The order of inputs, then outputs, is the order of the arguments."""

    name: str
    op_type: str
    axes: dict[Name, Annotated[ConstAxis | VarAxis, Field(discriminator="type")]]
    inputs: dict[Name, Argument] = Field(min_length=1)
    outputs: dict[Name, Argument] = Field(min_length=1)
    reference: str
    """Python source with `run(*inputs)`, which returns the outputs."""
    tags: tuple[str, ...] = ()
    description: str | None = None
    constraints: tuple[str, ...] = ()


class Random(Format):
    """Drawn anew for every evaluation."""

    type: Literal["random"] = "random"


class Number(Format):
    """A given number."""

    type: Literal["scalar"] = "scalar"
    value: int | float | bool


class Stored(Format):
    """A tensor in a safetensors file; `path` is relative to the folder's root."""

    type: Literal["safetensors"] = "safetensors"
    path: str
    tensor_key: str


class Workload(Format):
    """One size, and where each input comes from."""

    uuid: Label
    axes: dict[Name, Size]
    inputs: dict[Name, Annotated[Random | Number | Stored, Field(discriminator="type")]]


class WorkloadLine(Format):
    """A line of workloads/*/*.jsonl: a trace that nothing has run yet."""

    definition: str
    workload: Workload


class Source(Format):
    """One file of a solution."""

    path: str
    content: str


class BuildSpec(Format):
    """How a solution is built and called."""

    language: str
    target_hardware: tuple[str, ...]
    entry_point: str
    """`file::symbol`."""
    dependencies: tuple[str, ...] = ()
    destination_passing_style: bool = True
    binding: str | None = None


class FibSolution(Format):
    """A program for a definition."""

    name: str
    definition: str
    author: str
    spec: BuildSpec
    sources: tuple[Source, ...] = Field(min_length=1)
    description: str | None = None


class Correctness(Format):
    """How far off a program was."""

    max_relative_error: float = 0.0
    max_absolute_error: float = 0.0
    extra: dict[str, Any] | None = None


class Performance(Format):
    """How long a program took."""

    latency_ms: float
    reference_latency_ms: float
    speedup_factor: float


class Machine(Format):
    """Where a program ran."""

    hardware: str
    libs: dict[str, str] = {}


class TraceEvaluation(Format):
    """What became of a program on one workload."""

    status: str
    environment: Machine
    timestamp: str
    log: str = ""
    correctness: Correctness | None = None
    performance: Performance | None = None


class Trace(Format):
    """One program on one workload."""

    definition: str
    workload: Workload
    solution: str
    evaluation: TraceEvaluation
