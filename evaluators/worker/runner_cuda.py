"""What is different when the runner's slots are on a GPU: mapping them, and calling until the device is done.

A window ends with a wait for the whole device context, so work on any stream counts; returned values are copied into
their slots within the window, so that what the supervisor finds there when it is answered is all that there will be.
The driver's own function is bound before a program is loaded.
"""

import ctypes
import os
from typing import Any

import torch

from evaluators.worker import cuda
from evaluators.worker.cuda_errors import failure_of
from evaluators.worker.device_view import view
from evaluators.worker.dtypes import DTYPES
from evaluators.worker.layout import Field, Layout

_SPOILED = 0xA5


class DeviceMemory:
    """Slots in memory of the GPU."""

    device = "cuda"
    trailing: tuple[Any, ...] = (ctypes.c_void_p(0),)
    """The default stream."""

    def __init__(self, fd: int, layout: Layout, nbytes: int) -> None:
        """Map it and close `fd`."""
        self.layout = layout
        self._mapping = cuda.open_shared(fd, nbytes)
        os.close(fd)

    def tensor(self, field: Field, slot: int) -> torch.Tensor:
        """Return an argument (a scalar: of shape []) as a tensor."""
        return view(self.address(field, slot), field.shape or (), DTYPES[field.dtype])

    @property
    def extent(self) -> tuple[int, int]:
        """Where all slots begin and end."""
        return self._mapping.address, self._mapping.address + self._mapping.nbytes

    def address(self, field: Field, slot: int) -> int:
        """Return where an argument begins."""
        return self._mapping.address + slot * self.layout.stride + field.offset


class Device:
    """The GPU as the runner uses it."""

    def __init__(self, memory_bytes: int) -> None:
        """Start the context; torch's allocator takes `memory_bytes` at most."""
        torch.zeros(1, device="cuda")
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, memory_bytes / total))
        self._synchronize = cuda.synchronizer()
        self._tick = torch.zeros(1, device="cuda")
        self._last_error: Any = None

    def watch(self, last_error: Any) -> None:
        """Look at the launch errors of a plain C program, which its own copy of the runtime keeps."""
        self._last_error = last_error

    def spoil(self, results: list[torch.Tensor]) -> None:
        """Overwrite what was returned: what is kept for the next call must be written anew, as slots must."""
        for result in results:
            cuda.fill(result.data_ptr(), result.nbytes, _SPOILED)

    def finish(self) -> None:
        """Wait for everything. Raises CandidateFailure for what went wrong since the last time.

        The device does something in any case: a window without calls is answered when the device has come to it.
        """
        if self._last_error is not None:
            words = self._last_error()
            if words:
                raise failure_of(words.decode(), launching=True)
        self._tick.zero_()
        code = self._synchronize()
        if code:
            raise failure_of(cuda.error_name(code), launching=False)
