"""A task: what to compute, on which workloads, how it is checked and judged. Self-contained data."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from evaluators.digest import digest_json
from evaluators.knobs import declared_flags
from evaluators.objective import Objective, Record
from evaluators.solution import Binding, Language, Solution, with_main_file

DType = Literal[
    "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
    "int64", "int32", "int8", "uint8", "bool",
]  # fmt: skip
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
AxisSize = Annotated[int, Field(ge=1, le=2**31 - 1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
LONGEST_NAME = 200
"""Of a task: runs and the files that are written for them are called by it."""
_FOR_PEOPLE = {"origin", "reference_at", "workloads_at", "notes"}
"""Fields of a task that do not make it another one."""
LONGEST_TIMEOUT_S = 1e6
"""Of a check: more than any takes, so that limits that are multiples of it fit what counts them."""


def _printable(text: str) -> str:
    """Return a name that is shown in terminals; raises ValueError for one that could steer them."""
    if not text.isprintable():
        raise ValueError("must be printable, on one line")
    return text


Label = Annotated[str, Field(min_length=1), AfterValidator(_printable)]
"""What people read of a workload."""


class Tensor(Record):
    """A tensor argument: `shape` in symbolic axes (`["rows", "cols"]`), row-major and contiguous."""

    shape: tuple[Name, ...]
    dtype: DType
    description: str = ""


class Scalar(Record):
    """A scalar argument, passed by value."""

    scalar: Literal["float32", "float64", "int32", "int64"]
    description: str = ""


class Workload(Record):
    """One size at which the task is checked and timed."""

    name: Label
    split: Literal["search", "held_out"] = "search"
    axes: dict[Name, AxisSize]
    """Variable axis -> size. Constant axes are the task's."""
    params: dict[Name, int | Finite | str | bool] = {}
    """Further arguments of the input generator (a distribution, a mask density)."""
    timed: bool = True
    """Whether it is timed too, or only checked."""


class Tolerance(Record):
    """When an output is right. A value that is not finite where the expected one is never is."""

    rtol: float = Field(ge=0, allow_inf_nan=False)
    atol: float = Field(ge=0, allow_inf_nan=False)
    rule: Literal["sum", "either"] = "sum"
    """An element matches when |got - expected| <= atol + rtol |expected| (`sum`), or when the absolute error is within
    atol or the relative one, |got - expected| / (|expected| + 1e-8), within rtol (`either`, as FlashInfer-Bench does;
    a value that is not finite is then wrong even where it is expected)."""
    matched: float = Field(default=1.0, gt=0, le=1)
    """Share of the elements that must match."""
    normalised: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Largest RMS of the error as a share of the standard deviation of the expected values, per output; it sees small
    errors everywhere, to which an element's own limits are blind. None: not looked at."""


class Contract(Record):
    """How a program in one language is called."""

    entry_point: Name
    binding: Binding
    flags: tuple[str, ...] = ()
    """Compiler flags of a program that declares none."""
    seed: dict[str, str] | None = None
    """Files of a plain, correct program to start from; None when there is none."""
    main_file: str = ""
    """The seed's file that defines the entry point; left out: the first."""
    wrapper: str = ""
    """Python source of a function `call(*inputs)` that calls a program in the way of another format; the program's
    entry point is there as `_program`."""

    @model_validator(mode="before")
    @classmethod
    def _first_file_is_main(cls, data: Any) -> Any:
        return with_main_file(data, "seed")

    @model_validator(mode="after")
    def _main_file_exists(self) -> "Contract":
        if self.seed is not None and self.main_file not in self.seed:
            raise ValueError(f"main_file: the seed has no file {self.main_file!r}")
        return self


class Task(Record):
    """What to compute. Holds the reference's source, so that a task is complete wherever it travels."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=LONGEST_NAME)
    title: str = ""
    description: str
    """The specification a coder reads, Markdown."""
    device: Literal["cpu", "cuda"] = "cpu"
    constants: dict[Name, AxisSize] = {}
    """Constant axis -> size."""
    axes: tuple[Name, ...]
    """Variable axes in the order in which a plain C entry point receives them (int64_t, after the tensors)."""
    inputs: dict[Name, Tensor | Scalar]
    outputs: dict[Name, Tensor]
    arguments: tuple[Name, ...] = ()
    """Inputs, then outputs, in the order in which they are passed; left out: as written. (The order of `inputs` and
    `outputs` themselves is lost in canonical JSON; it is put right from here.)"""
    workloads: tuple[Workload, ...] = Field(min_length=1)
    tolerance: Tolerance
    objective: Objective = Objective()
    contracts: dict[Language, Contract] = Field(min_length=1)
    """Language -> contract, in the order in which `Language` lists them."""
    reference: str
    """Source of reference.py: `inputs(axes, params, seed)`, `reference(**inputs)`, optional `baseline(**inputs)`
    (timed; default: the reference) or `planned_baseline(**inputs)` (returns the function without arguments that is
    timed in its place; what it does before is not), and `floor(axes) -> {"bytes": int, "operations": int}`,
    optionally with `"practical_us": float`."""
    verdict: Literal["harness", "user", "gpumode", "fib"] = "harness"
    """Who decides: our evaluator; the user's own (`user`), a file whose source `reference` then holds and whose
    function the only workload names; (`gpumode`) the eval.py among `files`; or (`fib`) FlashInfer-Bench's rule and way
    of timing, applied in the program's own process."""
    files: dict[str, str] = {}
    """Files that the task's own evaluator, or a wrapped program, finds beside it: name -> text."""
    timeout_s: float = Field(default=60.0, gt=0, le=LONGEST_TIMEOUT_S)
    """Wall-clock limit of the run stage of one evaluation's correctness check, seconds."""
    origin: str = "built-in"
    """Where the task came from, for people: `built-in`, or the reference it was resolved from."""
    reference_at: str = ""
    """Where a person finds the source of the reference: a file, and the field of it; empty: there is no need to say."""
    workloads_at: str = ""
    """Where a person finds the workloads' sizes: a file; empty: there is no need to say."""
    notes: tuple[str, ...] = ()
    """What people should know of the task's data; evaluations carry it too."""

    @model_validator(mode="before")
    @classmethod
    def _in_order(cls, data: Any) -> Any:
        """Fill in `arguments`, and put inputs, outputs and contracts in their order."""
        groups = ("inputs", "outputs", "contracts")
        if not isinstance(data, Mapping) or not all(isinstance(data.get(name), Mapping) for name in groups):
            return data
        arguments = data.get("arguments") or (*data["inputs"], *data["outputs"])
        if not isinstance(arguments, list | tuple) or not all(isinstance(name, str) for name in arguments):
            return data
        return {
            **data,
            "arguments": arguments,
            "inputs": _sorted_by(arguments, data["inputs"]),
            "outputs": _sorted_by(arguments, data["outputs"]),
            "contracts": _sorted_by(get_args(Language), data["contracts"]),
        }

    @model_validator(mode="after")
    def _consistent(self) -> "Task":
        self._check_arguments()
        self._check_workloads()
        return self

    def _check_arguments(self) -> None:
        known = set(self.axes) | set(self.constants)
        if len(set(self.axes)) != len(self.axes) or set(self.axes) & set(self.constants):
            raise ValueError("axes: an axis is listed twice")
        for name, tensor in [*self.inputs.items(), *self.outputs.items()]:
            if isinstance(tensor, Tensor) and not set(tensor.shape) <= known:
                raise ValueError(f"{name}.shape: unknown axis {sorted(set(tensor.shape) - known)[0]!r}")
        if set(self.inputs) & set(self.outputs):
            raise ValueError("outputs: a name is both an input and an output")
        if self.arguments != (*self.inputs, *self.outputs):
            raise ValueError("arguments: must list every input, then every output, each once")

    def _check_workloads(self) -> None:
        for workload in self.workloads:
            if set(workload.axes) != set(self.axes):
                raise ValueError(f"workload {workload.name!r}: axes must be exactly {list(self.axes)}")
        twice = repeated([workload.name for workload in self.workloads])
        if twice is not None:
            raise ValueError(f"workloads: the name {twice!r} is used twice")
        if not any(workload.timed for workload in self.split("search")):
            raise ValueError('workloads: at least one must have split = "search", and be timed')

    def split(self, split: Literal["search", "held_out"]) -> tuple[Workload, ...]:
        """Return the workloads of one split, in order."""
        return tuple(workload for workload in self.workloads if workload.split == split)

    @property
    def digest(self) -> str:
        """Identity: sha256 over everything but where the task came from and its notes (64 hex digits).

        Fields at their defaults are left out, so that a new optional field does not make every task another one. A
        default must therefore never change its meaning.
        """
        return self._kept(
            "_digest", lambda: digest_json(self.model_dump(mode="json", exclude=_FOR_PEOPLE, exclude_defaults=True))
        )

    @property
    def named(self) -> str:
        """What messages about the reference call the task: its name, and where the reference stands."""
        return f"{self.name} ({self.reference_at})" if self.reference_at else self.name

    @property
    def brings_judge(self) -> bool:
        """Whether an evaluator that the task holds decides, so that it declares no arguments, tolerance and so on."""
        return self.verdict in ("user", "gpumode")

    def sizes(self, workload: Workload) -> Mapping[str, int]:
        """Return every axis' size for one workload, constants included."""
        return {**self.constants, **workload.axes}

    def seed(self, language: Language) -> Solution | None:
        """Return the task's seed program in `language`, or None when it ships none."""
        contract = self.contracts.get(language)
        if contract is None or contract.seed is None:
            return None
        return contract_solution(contract, language, contract.seed)


def repeated(names: Iterable[str]) -> str | None:
    """Return the first of `names` that comes again, None when each is there once."""
    seen = set[str]()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _sorted_by(order: Sequence[str], items: Mapping[str, Any]) -> dict[str, Any]:
    """Return `items` in the given order; what it does not list comes last, as written."""
    return {name: items[name] for name in (*order, *items) if name in items}


def contract_solution(contract: Contract, language: Language, files: Mapping[str, str]) -> Solution:
    """Return `files` as a solution that is called as `contract` says, with the flags the main file declares.

    The main file is the contract's when `files` has it, else the first.
    """
    main_file = contract.main_file if contract.main_file in files else next(iter(files))
    flags = declared_flags(files[main_file])
    return Solution(
        files=dict(files),
        main_file=main_file,
        language=language,
        entry_point=contract.entry_point,
        binding=contract.binding,
        flags=contract.flags if flags is None else flags,
    )
