"""Call arguments over mapped slots, and the contract of returned values (runner side)."""

import ctypes
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from evaluators.worker.dtypes import DTYPES
from evaluators.worker.failure import CandidateFailure
from evaluators.worker.layout import Field
from evaluators.worker.memory import C_SCALARS, Memory, c_argument
from evaluators.worker.rules import OUTPUT_TYPE
from evaluators.worker.status import Status


def tensors(memory: Memory, slot: int, *, outputs: bool) -> dict[str, torch.Tensor]:
    """Return one slot's outputs (or inputs, scalars left out) by name."""
    fields = memory.layout.outputs if outputs else memory.layout.inputs
    return {field.name: memory.tensor(field, slot) for field in fields if field.shape is not None}


def arguments(binding: str, memory: Memory, slot: int, axes: list[int]) -> tuple[Any, ...]:
    """Return what the program is called with on one slot, by position."""
    layout = memory.layout
    if binding == "plain_c":
        pointers = [c_argument(memory, field, slot) for field in (*layout.inputs, *layout.outputs)]
        return (*pointers, *(ctypes.c_int64(size) for size in axes), *memory.trailing)
    values: dict[str, Any] = {}
    for field in layout.inputs:
        tensor = memory.tensor(field, slot)
        values[field.name] = tensor if field.shape is not None else tensor.item()
    if binding in ("value", "baseline"):
        return tuple(values.values())
    return (*values.values(), *tensors(memory, slot, outputs=True).values())


def scalar_readers(binding: str, memory: Memory, slot: int) -> list[tuple[int, Callable[[], Any]]]:
    """Return each scalar's place among the arguments, and what reads it."""
    readers: list[tuple[int, Callable[[], Any]]] = []
    for place, field in enumerate(memory.layout.inputs):
        if field.shape is None:
            read = memory.tensor(field, slot).item
            kind = C_SCALARS[field.dtype] if binding == "plain_c" else None
            readers.append((place, read if kind is None else partial(_converted, kind, read)))
    return readers


def _converted(kind: Callable[[Any], Any], read: Callable[[], Any]) -> Any:
    return kind(read())


def check_result(result: Any, memory: Memory, slot: int) -> list[torch.Tensor]:
    """Return a value that a program returned as a list in the outputs' order.

    Raises CandidateFailure when it is not what the task declares, or shares memory with the slots.
    """
    fields = memory.layout.outputs
    items = result_items(result, fields)
    if len(items) != len(fields):
        raise CandidateFailure(Status.WRONG_SHAPE, f"returned {len(items)} values, expected {len(fields)}")
    for field, value in zip(fields, items, strict=True):
        _check_tensor(field, value, memory.device)
        if _overlap(_extent(value), memory.extent):
            inputs = (one for one in memory.layout.inputs if _overlap(_extent(value), _place(memory, one, slot)))
            other = next((f"input {one.name}" for one in inputs), "the arguments")
            raise CandidateFailure(Status.ALIASED_OUTPUT, f"{field.name} shares memory with {other}")
    return items


def check_apart(results: list[torch.Tensor]) -> None:
    """Raise CandidateFailure when two results share memory."""
    extents = sorted(_extent(result) for result in results)
    if any(_overlap(one, other) for one, other in pairwise(extents)):
        raise CandidateFailure(Status.ALIASED_OUTPUT, "a result shares memory with another result")


def hand_over(result: Any, targets: list[torch.Tensor], outputs: tuple[Field, ...]) -> None:
    """Copy a returned value into its slot; what does not fit is left out: `check_result` says why."""
    for target, item in zip(targets, result_items(result, outputs), strict=False):
        if type(item) is torch.Tensor and _agree(item, target):
            target.copy_(item)


def _agree(item: torch.Tensor, target: torch.Tensor) -> bool:
    return item.dtype == target.dtype and item.shape == target.shape and item.device == target.device


def addresses(results: list[Any], outputs: tuple[Field, ...]) -> list[int]:
    """Return where the data of each output of each call begins, 0 for what is no such tensor: `check_result` says why.

    What lies there is read and overwritten, so it must be all of the tensor's. Programs are timed while this is done,
    which is why the most usual results come first.
    """
    if len(outputs) == 1 and all([type(result) is torch.Tensor for result in results]):
        nbytes = outputs[0].nbytes
        try:
            return [one.data_ptr() if one.nbytes == nbytes and one.is_contiguous() else 0 for one in results]
        except RuntimeError:
            # A tensor that has no data, such as a sparse one.
            return [0] * len(results)
    return [address for result in results for address in _addresses(result, outputs)]


def _addresses(result: Any, outputs: tuple[Field, ...]) -> list[int]:
    items = result_items(result, outputs)
    if len(items) != len(outputs):
        return [0] * len(outputs)
    return [_address(item, field.nbytes) for item, field in zip(items, outputs, strict=True)]


def _address(item: Any, nbytes: int) -> int:
    plain = type(item) is torch.Tensor and item.layout is torch.strided and item.device.type == "cpu"
    return item.data_ptr() if plain and item.nbytes == nbytes and item.is_contiguous() else 0


def result_items(result: Any, outputs: tuple[Field, ...]) -> list[Any]:
    """Return what a program returned, by position or by name, as a list in the outputs' order."""
    if isinstance(result, dict) and set(result) == {field.name for field in outputs}:
        return [result[field.name] for field in outputs]
    return list(result) if isinstance(result, (tuple, list)) and len(outputs) > 1 else [result]


def _check_tensor(field: Field, value: Any, device: str) -> None:
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
    if value.is_neg() or value.is_conj():
        raise CandidateFailure(Status.WRONG_LAYOUT, f"{field.name} must be resolved (resolve_neg, resolve_conj)")
    if value.layout is not torch.strided or value.device.type != device or not value.is_contiguous():
        place = "CPU" if device == "cpu" else "CUDA"
        raise CandidateFailure(Status.WRONG_LAYOUT, f"{field.name} must be a contiguous {place} tensor")


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    start = tensor.data_ptr()
    return start, start + tensor.nbytes


def _place(memory: Memory, field: Field, slot: int) -> tuple[int, int]:
    start = memory.address(field, slot)
    return start, start + field.nbytes


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]
