"""Where the arguments of one case lie in shared memory: slots of equal size, each with every input and output.

    slot: | guard | input | guard | ... | output | guard |

Guards are random bytes that tell a write past an output's end. Offsets differ modulo the page size, as those of tensors
from an allocator do.
"""

from dataclasses import dataclass
from typing import Any

from evaluators.worker.job import Argument, Case, TaskSpec

GUARD_BYTES = 256
_ALIGNMENT = {"cpu": 64, "cuda": 512}
"""That of torch's own allocators."""
ITEM_BYTES = {
    "float32": 4,
    "float64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int64": 8,
    "int32": 4,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
"""Type of a tensor -> bytes of one element."""


@dataclass(frozen=True)
class Field:
    """One argument inside a slot."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    """None: a scalar, kept as one item."""
    offset: int
    nbytes: int
    output: bool


@dataclass(frozen=True)
class Layout:
    """One slot; slot `i` begins at `i * stride`."""

    fields: tuple[Field, ...]
    stride: int

    @property
    def inputs(self) -> tuple[Field, ...]:
        """The inputs, in declared order."""
        return tuple(field for field in self.fields if not field.output)

    @property
    def outputs(self) -> tuple[Field, ...]:
        """The outputs, in declared order."""
        return tuple(field for field in self.fields if field.output)


def lay_out(task: TaskSpec, case: Case) -> Layout:
    """Return where the arguments of `case` lie."""
    fields, offset, alignment = [], 0, _ALIGNMENT[task.device]
    for index, (argument, output) in enumerate(
        [(argument, False) for argument in task.inputs] + [(argument, True) for argument in task.outputs]
    ):
        offset = _align(offset + GUARD_BYTES + alignment * (index % 7), alignment)
        shape = _shape(argument, case)
        nbytes = _count(shape) * ITEM_BYTES[argument.dtype]
        fields.append(Field(argument.name, argument.dtype, shape, offset, nbytes, output))
        offset += nbytes
    return Layout(tuple(fields), _align(offset + GUARD_BYTES, alignment))


def decode_layout(data: dict[str, Any]) -> Layout:
    """Return a layout from its JSON form (`dataclasses.asdict`)."""
    fields = tuple(
        Field(**{**field, "shape": None if field["shape"] is None else tuple(field["shape"])})
        for field in data["fields"]
    )
    return Layout(fields, data["stride"])


def _shape(argument: Argument, case: Case) -> tuple[int, ...] | None:
    return None if argument.shape is None else tuple(case.axes[axis] for axis in argument.shape)


def _count(shape: tuple[int, ...] | None) -> int:
    count = 1
    for size in shape or ():
        count *= size
    return count


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
