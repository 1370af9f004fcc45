"""The slots of one case as call arguments, in shared memory of this machine (runner side)."""

import ctypes
import mmap
import os
from typing import Any, Protocol

import torch

from evaluators.worker import syscalls
from evaluators.worker.dtypes import DTYPES
from evaluators.worker.layout import Field, Layout

C_SCALARS: dict[str, Any] = {
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
}
"""Type of a scalar -> what a plain C function receives."""


class Memory(Protocol):
    """Mapped slots."""

    layout: Layout
    device: str
    """Where tensors over it are: `cpu` or `cuda`."""
    trailing: tuple[Any, ...]
    """What a plain C function receives last: on a GPU, the stream."""

    def tensor(self, field: Field, slot: int) -> torch.Tensor:
        """Return an argument (a scalar: of shape []) as a tensor."""
        ...

    @property
    def extent(self) -> tuple[int, int]:
        """Where all slots begin and end."""
        ...

    def address(self, field: Field, slot: int) -> int:
        """Return where an argument begins."""
        ...


class HostMemory:
    """Slots in shared memory."""

    device = "cpu"
    trailing: tuple[Any, ...] = ()

    def __init__(self, fd: int, layout: Layout) -> None:
        """Map it, every page present, and close `fd`."""
        self.layout = layout
        self._memory = mmap.mmap(fd, 0, flags=mmap.MAP_SHARED)
        syscalls.populate(self._memory)
        os.close(fd)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def tensor(self, field: Field, slot: int) -> torch.Tensor:
        """Return an argument (a scalar: of shape []) as a tensor."""
        return view(self._memory, field, slot * self.layout.stride)

    @property
    def extent(self) -> tuple[int, int]:
        """Where all slots begin and end."""
        return self._base, self._base + len(self._memory)

    def address(self, field: Field, slot: int) -> int:
        """Return where an argument begins."""
        return self._base + slot * self.layout.stride + field.offset


def view(memory: mmap.mmap, field: Field, slot_offset: int) -> torch.Tensor:
    """Return the tensor (a scalar: of shape []) at `field` of the slot that begins at `slot_offset`."""
    count = field.nbytes // torch.empty((), dtype=DTYPES[field.dtype]).element_size()
    flat = torch.frombuffer(memory, dtype=DTYPES[field.dtype], count=count, offset=slot_offset + field.offset)
    return flat.view(field.shape or ())


def c_argument(memory: Memory, field: Field, slot: int) -> Any:
    """Return what a plain C function receives: a pointer, a scalar by value."""
    if field.shape is not None:
        return ctypes.c_void_p(memory.address(field, slot))
    return C_SCALARS[field.dtype](memory.tensor(field, slot).item())
