"""The few calls of the CUDA driver that torch does not offer, through ctypes: memory that another process can map.

Memory is a physical allocation with a file descriptor (cuMemCreate, cuMemExportToShareableHandle), so it crosses PID,
network and IPC namespaces where the handles of cudaIpcGetMemHandle may not, and a handle shows exactly one allocation.
Every call raises CudaError, and works in the current context, which is torch's.
"""

import ctypes
import os
from functools import lru_cache
from typing import Any

_PINNED, _ON_DEVICE, _POSIX_FD, _READ_WRITE = 1, 1, 1, 3
_GRANULARITY_MINIMUM = 0
_OUT_OF_MEMORY = 2


class CudaError(Exception):
    """The driver refused a call."""

    def __init__(self, code: int, what: str) -> None:
        """Keep the driver's code."""
        super().__init__(f"{what}: {_name(code)}")
        self.code = code

    @property
    def is_out_of_memory(self) -> bool:
        """Whether the device has no memory left."""
        return self.code == _OUT_OF_MEMORY


class _Location(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("device", ctypes.c_int)]


class _Properties(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 32),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class Mapping:
    """Device memory at an address of this process. `close` unmaps it; the memory lives while anyone maps it."""

    def __init__(self, handle: int, nbytes: int, device: int) -> None:
        """Map the allocation behind `handle` and give the handle up."""
        self.nbytes = nbytes
        address = ctypes.c_uint64()
        _call("cuMemAddressReserve", ctypes.byref(address), _size(nbytes), _size(0), ctypes.c_uint64(0), _u64(0))
        self.address = int(address.value)
        try:
            _call("cuMemMap", address, _size(nbytes), _size(0), _u64(handle), _u64(0))
            access = _Access(_Location(_ON_DEVICE, device), _READ_WRITE)
            _call("cuMemSetAccess", address, _size(nbytes), ctypes.byref(access), _size(1))
        finally:
            _call("cuMemRelease", _u64(handle))

    def close(self) -> None:
        """Unmap it. No kernel may be using it."""
        if self.address:
            _call("cuMemUnmap", _u64(self.address), _size(self.nbytes))
            _call("cuMemAddressFree", _u64(self.address), _size(self.nbytes))
            self.address = 0

    def close_shared(self, fd: int) -> None:
        """Unmap it and close the descriptor that goes with it."""
        os.close(fd)
        self.close()


def allocate(nbytes: int, device: int = 0) -> tuple[Mapping, int]:
    """Return new memory of at least `nbytes`, mapped here, and a file descriptor by which others can map it."""
    properties = _Properties(_PINNED, _POSIX_FD, _Location(_ON_DEVICE, device), None)
    step = ctypes.c_size_t()
    _call("cuMemGetAllocationGranularity", ctypes.byref(step), ctypes.byref(properties), _GRANULARITY_MINIMUM)
    rounded = -(-nbytes // step.value) * step.value
    handle = ctypes.c_uint64()
    _call("cuMemCreate", ctypes.byref(handle), _size(rounded), ctypes.byref(properties), _u64(0))
    fd = ctypes.c_int(-1)
    _call("cuMemExportToShareableHandle", ctypes.byref(fd), handle, _POSIX_FD, _u64(0))
    os.set_inheritable(fd.value, False)
    return Mapping(int(handle.value), rounded, device), fd.value


def open_shared(fd: int, nbytes: int, device: int = 0) -> Mapping:
    """Map memory of exactly `nbytes` that another process allocated. The descriptor may be closed afterwards."""
    handle = ctypes.c_uint64()
    _call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), _POSIX_FD)
    return Mapping(int(handle.value), nbytes, device)


def fill(address: int, nbytes: int, value: int) -> None:
    """Set bytes of this context's memory; the device does so later than it is asked to, after the default stream."""
    if nbytes:
        _call("cuMemsetD8Async", _u64(address), ctypes.c_ubyte(value), _size(nbytes), ctypes.c_void_p(0))


def synchronizer() -> Any:
    """Return a function that waits for all work of this context and returns the driver's code (0: all went well)."""
    function = _driver().cuCtxSynchronize
    function.restype = ctypes.c_int
    return function


def reset_persisting_cache() -> None:
    """Let go of second-level cache lines that were set aside to stay."""
    _call("cuCtxResetPersistingL2Cache")


def error_name(code: int) -> str:
    """Return the driver's name of an error code."""
    return _name(code)


@lru_cache(maxsize=1)
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _call(name: str, *arguments: Any) -> None:
    function = _driver()[name]
    function.restype = ctypes.c_int
    code = function(*arguments)
    if code:
        raise CudaError(code, name)


def _name(code: int) -> str:
    text = ctypes.c_char_p()
    _driver().cuGetErrorName(code, ctypes.byref(text))
    return text.value.decode() if text.value else f"CUDA error {code}"


def _size(value: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(value)


def _u64(value: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(value)
