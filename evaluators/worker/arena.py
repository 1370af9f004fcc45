"""Shared memory with the slots of one case, owned by the supervisor: filled, poisoned and read only by it."""

import ctypes
import mmap
import os
import secrets
from typing import Any

import numpy as np
import torch

from evaluators.worker import syscalls
from evaluators.worker.calls import view
from evaluators.worker.layout import Field, Layout
from evaluators.worker.oracle import Bytes, Example

_NAN_BITS = {"float32": 0x7FC00000, "float64": 0x7FF8000000000000, "float16": 0x7E00, "bfloat16": 0x7FC0}
_NAN_PAYLOAD = {"float32": 0x3FFFFF, "float64": 0xFFFFFFFFFFFF, "float16": 0x1FF, "bfloat16": 0x3F}
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Arena:
    """`slots` slots. Outputs hold secret poison (a NaN with a random payload, a random integer) until written."""

    def __init__(self, layout: Layout, slots: int) -> None:
        """Allocate it, guards filled."""
        self.layout, self.slots = layout, slots
        self.fd = os.memfd_create("slots", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, slots * layout.stride)
        self._memory = mmap.mmap(self.fd, slots * layout.stride, flags=mmap.MAP_SHARED)
        self._bytes: Bytes = np.frombuffer(self._memory, dtype=np.uint8).reshape(slots, layout.stride)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._poison = {field.name: _poison(field) for field in layout.outputs}
        self._gaps = _gaps(layout)
        self._guard = {gap: np.frombuffer(secrets.token_bytes(gap[1] - gap[0]), dtype=np.uint8) for gap in self._gaps}
        self.reset_guards()

    def reset_guards(self) -> None:
        """Write the guards anew."""
        for (start, end), pattern in self._guard.items():
            self._bytes[:, start:end] = pattern

    def fill(self, slot: int, example: Example) -> None:
        """Write an example's inputs into `slot` and poison its outputs."""
        row = self._bytes[slot]
        for field in self.layout.inputs:
            row[field.offset : field.offset + field.nbytes] = example.inputs[field.name]
        for field in self.layout.outputs:
            pattern = self._poison[field.name]
            row[field.offset : field.offset + field.nbytes].view(pattern.dtype)[:] = pattern

    def tensor(self, slot: int, field: Field) -> torch.Tensor:
        """Return an argument as a tensor over the shared memory."""
        return view(self._memory, field, slot * self.layout.stride)

    def output_bytes(self, slot: int, field: Field) -> Bytes:
        """Return an output's bytes, shared."""
        return self._bytes[slot, field.offset : field.offset + field.nbytes]

    def sample(self, slots: list[int], offsets: list[int]) -> Bytes:
        """Return a copy of the bytes at `offsets` of each of `slots`: [slots, offsets]."""
        return self._bytes[np.ix_(slots, offsets)]

    def unwritten(self, data: Bytes, field: Field) -> int:
        """Return how many elements of an output's bytes are still poison."""
        pattern = self._poison[field.name]
        return int((data.view(pattern.dtype) == pattern).sum())

    def changed_input(self, slot: int, example: Example) -> str | None:
        """Return the name of an input that no longer holds what was written there."""
        row = self._bytes[slot]
        for field in self.layout.inputs:
            if not same_bytes(row[field.offset : field.offset + field.nbytes], example.inputs[field.name]):
                return field.name
        return None

    def overrun(self) -> int:
        """Return how many guard bytes have been overwritten."""
        return sum(int((self._bytes[:, start:end] != pattern).sum()) for (start, end), pattern in self._guard.items())

    def close(self) -> None:
        """Give up the descriptor; the memory goes with the last view of it."""
        os.close(self.fd)


def same_bytes(a: Bytes, b: Bytes) -> bool:
    """Return whether two contiguous byte arrays of equal length agree."""
    return syscalls.equal_bytes(a.ctypes.data, b.ctypes.data, a.nbytes)


def random_output_offsets(layout: Layout, count: int) -> list[int]:
    """Return secret random byte offsets inside the outputs of a slot."""
    picked = []
    for field in layout.outputs:
        picked += [field.offset + secrets.randbelow(field.nbytes) for _ in range(count)]
    return picked


def _poison(field: Field) -> Any:
    items = field.nbytes
    for size in field.shape or ():
        items //= size
    kind = _UNSIGNED[items]
    if field.dtype in _NAN_BITS:
        return kind(_NAN_BITS[field.dtype] | secrets.randbelow(_NAN_PAYLOAD[field.dtype]) + 1)
    if field.dtype == "bool":
        return kind(secrets.randbelow(254) + 2)
    return kind(secrets.randbits(8 * items))


def _gaps(layout: Layout) -> list[tuple[int, int]]:
    gaps, end = [], 0
    for field in layout.fields:
        gaps.append((end, field.offset))
        end = field.offset + field.nbytes
    gaps.append((end, layout.stride))
    return gaps
