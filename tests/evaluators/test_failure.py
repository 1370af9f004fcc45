"""Whether something failed for want of memory: one list of words for references, programs and drivers."""

import pytest

from evaluators.worker.failure import lacks_memory


class Full(MemoryError):
    """Of a name that tells nothing."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        Full("no"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: you tried"),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes"),
        "MemoryError: Unable to allocate 3 GiB",
    ],
)
def test_want_of_memory(error: BaseException | str) -> None:
    assert lacks_memory(error)
    assert not lacks_memory(ValueError("memory is a word"))
