"""Call arguments over shared memory, and the contract of returned values (runner side)."""

import ctypes
import mmap
from typing import Any

import torch

from evaluators.worker.failure import CandidateFailure
from evaluators.worker.layout import Field, Layout
from evaluators.worker.rules import OUTPUT_TYPE
from evaluators.worker.status import Status

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "int64": torch.int64,
    "int32": torch.int32,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
_SCALARS: dict[str, Any] = {
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
}


def view(memory: mmap.mmap, field: Field, slot_offset: int) -> torch.Tensor:
    """Return the tensor (a scalar: of shape []) at `field` of the slot that begins at `slot_offset`."""
    count = field.nbytes // torch.empty((), dtype=DTYPES[field.dtype]).element_size()
    flat = torch.frombuffer(memory, dtype=DTYPES[field.dtype], count=count, offset=slot_offset + field.offset)
    return flat.view(field.shape or ())


def tensors(memory: mmap.mmap, layout: Layout, slot: int, *, outputs: bool) -> dict[str, torch.Tensor]:
    """Return one slot's outputs (or inputs, scalars left out) by name."""
    fields = layout.outputs if outputs else layout.inputs
    return {field.name: view(memory, field, slot * layout.stride) for field in fields if field.shape is not None}


def arguments(
    binding: str, memory: mmap.mmap, base: int, layout: Layout, slot: int, axes: list[int]
) -> tuple[Any, ...]:
    """Return what the program is called with on one slot, by position."""
    start = slot * layout.stride
    if binding == "plain_c":
        inputs = [_pointer_or_scalar(field, base + start) for field in layout.inputs]
        outputs = [ctypes.c_void_p(base + start + field.offset) for field in layout.outputs]
        return (*inputs, *outputs, *(ctypes.c_int64(size) for size in axes))
    values: dict[str, Any] = {}
    for field in layout.inputs:
        tensor = view(memory, field, start)
        values[field.name] = tensor if field.shape is not None else tensor.item()
    if binding in ("value", "baseline"):
        return tuple(values.values())
    return (*values.values(), *tensors(memory, layout, slot, outputs=True).values())


def check_result(
    result: Any, layout: Layout, inputs: dict[str, torch.Tensor], earlier: list[torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return a program's returned value by output name.

    Raises CandidateFailure when it is not what the task declares, or shares memory with an input or earlier output.
    """
    fields = layout.outputs
    items: list[Any]
    if type(result) is dict and set(result) == {field.name for field in fields}:
        items = [result[field.name] for field in fields]
    else:
        items = list(result) if isinstance(result, (tuple, list)) and len(fields) > 1 else [result]
    if len(items) != len(fields):
        raise CandidateFailure(Status.WRONG_SHAPE, f"returned {len(items)} values, expected {len(fields)}")
    values: dict[str, torch.Tensor] = {}
    for field, value in zip(fields, items, strict=True):
        _check_tensor(field, value)
        for name, other in inputs.items():
            if _overlap(value, other):
                raise CandidateFailure(Status.ALIASED_OUTPUT, f"{field.name} shares memory with input {name}")
        if any(_overlap(value, other) for other in [*earlier, *values.values()]):
            raise CandidateFailure(Status.ALIASED_OUTPUT, f"{field.name} shares memory with another result")
        values[field.name] = value
    return values


def _check_tensor(field: Field, value: Any) -> None:
    kind = type(value)
    if kind is not torch.Tensor:
        if isinstance(value, torch.Tensor):
            message = f"{field.name} is a {kind.__name__}, only torch.Tensor itself counts"
            raise CandidateFailure(Status.INTEGRITY, message, rule=OUTPUT_TYPE)
        raise CandidateFailure(Status.WRONG_DTYPE, f"{field.name} is a {kind.__name__}, expected a torch.Tensor")
    if value.dtype != DTYPES[field.dtype]:
        raise CandidateFailure(Status.WRONG_DTYPE, f"{field.name} is {value.dtype}, expected torch.{field.dtype}")
    if tuple(value.shape) != field.shape:
        expected = list(field.shape or ())
        raise CandidateFailure(Status.WRONG_SHAPE, f"{field.name} has shape {list(value.shape)}, expected {expected}")
    if value.layout is not torch.strided or value.device.type != "cpu" or not value.is_contiguous():
        raise CandidateFailure(Status.WRONG_LAYOUT, f"{field.name} must be a contiguous CPU tensor")


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    start_a, start_b = a.data_ptr(), b.data_ptr()
    return start_a < start_b + b.nbytes and start_b < start_a + a.nbytes


def _pointer_or_scalar(field: Field, start: int) -> Any:
    address = start + field.offset
    if field.shape is not None:
        return ctypes.c_void_p(address)
    kind = _SCALARS[field.dtype]
    return kind(kind.from_address(address).value)
