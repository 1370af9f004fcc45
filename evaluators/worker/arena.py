"""Shared memory with the slots of one case, owned by the supervisor: filled, poisoned and read only by it."""

import ctypes
import fcntl
import mmap
import os
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from evaluators.worker import syscalls
from evaluators.worker.layout import Field, Layout
from evaluators.worker.memory import view
from evaluators.worker.slots import Content

Bytes = npt.NDArray[np.uint8]
_NAN_BITS = {"float32": 0x7FC00000, "float64": 0x7FF8000000000000, "float16": 0x7E00, "bfloat16": 0x7FC0}
_NAN_PAYLOAD = {"float32": 0x3FFFFF, "float64": 0xFFFFFFFFFFFF, "float16": 0x1FF, "bfloat16": 0x3F}
_NAN_BYTES = {"float8_e4m3fn": (0x7F, 0xFF), "float8_e5m2": (0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF)}
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Arena:
    """`slots` slots. Outputs hold secret poison (a NaN with a random payload, a random integer) until written."""

    def __init__(self, layout: Layout, slots: int) -> None:
        """Allocate it, guards filled."""
        self.layout, self.slots = layout, slots
        self.fd = os.memfd_create("slots", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.nbytes = slots * layout.stride
        os.ftruncate(self.fd, self.nbytes)
        # What lies beyond the slots would not be wiped.
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        self._memory = mmap.mmap(self.fd, slots * layout.stride, flags=mmap.MAP_SHARED)
        self._bytes: Bytes = np.frombuffer(self._memory, dtype=np.uint8).reshape(slots, layout.stride)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._poison = {field.name: poison(field) for field in layout.outputs}
        self._gaps = gaps(layout)
        self._guard = {gap: np.frombuffer(secrets.token_bytes(gap[1] - gap[0]), dtype=np.uint8) for gap in self._gaps}
        self.reset_guards()

    def reset_guards(self) -> None:
        """Write the guards anew."""
        for (start, end), pattern in self._guard.items():
            self._bytes[:, start:end] = pattern

    def wipe(self) -> None:
        """Write zeros into all of it, up to the end of its last page, and the guards anew."""
        ctypes.memset(self.address, 0, -(-self.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE)
        self.reset_guards()

    def fill_scalars(self, slot: int, example: Content) -> None:
        """Write an example's scalars alone."""
        for field in self.layout.inputs:
            if field.shape is None:
                self._bytes[slot, field.offset : field.offset + field.nbytes] = example.inputs[field.name]

    def lend(self) -> int:
        """Return a new descriptor, which shares no offset or lock with those of other processes."""
        return os.open(f"/proc/self/fd/{self.fd}", os.O_RDWR | os.O_CLOEXEC)

    def fill(self, slot: int, example: Content) -> None:
        """Write an example's inputs into `slot` and poison its outputs."""
        row = self._bytes[slot]
        for field in self.layout.inputs:
            row[field.offset : field.offset + field.nbytes] = example.inputs[field.name]
        for field in self.layout.outputs:
            pattern = self._poison[field.name]
            row[field.offset : field.offset + field.nbytes].view(pattern.dtype)[:] = pattern

    def filling(self, examples: Sequence[Content]) -> Callable[[], None]:
        """Return what writes one example's inputs into each slot, in order, and poisons its outputs."""

        def write() -> None:
            for slot, example in enumerate(examples):
                self.fill(slot, example)

        return write

    def tensor(self, slot: int, field: Field) -> torch.Tensor:
        """Return an argument as a tensor over the shared memory."""
        return view(self._memory, field, slot * self.layout.stride)

    def output_bytes(self, slot: int, field: Field) -> Bytes:
        """Return an output's bytes, shared."""
        return self._bytes[slot, field.offset : field.offset + field.nbytes]

    def snapshot(self, slot: int) -> dict[str, Bytes]:
        """Return a copy of every output's bytes by name."""
        return {field.name: self.output_bytes(slot, field).copy() for field in self.layout.outputs}

    def locate(self, slots: list[int], offsets: list[int]) -> Any:
        """Return what `sample` takes to read the bytes at `offsets` of each of `slots`."""
        return np.ix_(slots, offsets)

    def sample(self, place: Any) -> Bytes:
        """Return a copy of the bytes at a place: [slots, offsets]."""
        data: Bytes = self._bytes[place]
        return data

    def unwritten(self, data: Bytes, field: Field) -> int:
        """Return how many elements of an output's bytes are still poison."""
        pattern = self._poison[field.name]
        return int(np.count_nonzero(data.view(pattern.dtype) == pattern))

    def changed_input(self, slot: int, example: Content) -> str | None:
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


def same_bytes(a: Any, b: Any) -> bool:
    """Return whether two contiguous byte arrays (or two tensors of bytes) of equal length agree."""
    if isinstance(a, torch.Tensor):
        # A GPU compares eight bytes as fast as one.
        wide = torch.int64 if a.numel() % 8 == 0 else torch.uint8
        return bool(torch.equal(a.view(wide), b.view(wide)))
    return syscalls.equal_bytes(a.ctypes.data, b.ctypes.data, a.nbytes)


def random_output_offsets(layout: Layout, count: int) -> list[int]:
    """Return secret random byte offsets inside the outputs of a slot."""
    picked = []
    for field in layout.outputs:
        picked += [field.offset + secrets.randbelow(field.nbytes) for _ in range(count)]
    return picked


def poison(field: Field) -> Any:
    """Return a secret unsigned integer of the size of an element: a NaN with a random payload, or random bits."""
    items = field.nbytes
    for size in field.shape or ():
        items //= size
    kind = _UNSIGNED[items]
    if field.dtype in _NAN_BITS:
        return kind(_NAN_BITS[field.dtype] | secrets.randbelow(_NAN_PAYLOAD[field.dtype]) + 1)
    if field.dtype in _NAN_BYTES:
        return kind(secrets.choice(_NAN_BYTES[field.dtype]))
    if field.dtype == "bool":
        return kind(secrets.randbelow(254) + 2)
    return kind(secrets.randbits(8 * items))


def gaps(layout: Layout) -> list[tuple[int, int]]:
    """Return the parts of a slot that hold no argument, as offsets."""
    found, end = [], 0
    for field in layout.fields:
        found.append((end, field.offset))
        end = field.offset + field.nbytes
    found.append((end, layout.stride))
    return found
