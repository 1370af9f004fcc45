"""The physical floor: no program is faster than its bytes through the caches and its operations through the core.

Deliberately generous: bandwidth is that of the best plain copy of as many bytes, already in the caches, times a
margin; the operation rate is above what one core of today's processors reaches.
"""

import time

import torch

OPERATIONS_PER_NS = 512.0
"""Two 512-bit fused multiply-adds of 32-bit floats a cycle at 8 GHz."""
_MARGIN = 2.0
_SMALLEST, _LARGEST = 16 << 10, 256 << 20
_SECONDS = 0.05
_highest: dict[int, float] = {}


def is_below_floor(took_ns: float, nbytes: int, operations: int) -> float | None:
    """Return the floor when `took_ns` is below it, else None.

    Other work on the machine can make the copy slow, never fast: it is measured again before anything is called
    impossible, and the highest rate ever seen counts.
    """
    least = floor_ns(nbytes, operations)
    for _ in range(2):
        if took_ns >= least:
            return None
        _measure(_size(nbytes))
        least = floor_ns(nbytes, operations)
    return None if took_ns >= least else least


def floor_ns(nbytes: int, operations: int) -> float:
    """Return the least nanoseconds in which one core can move `nbytes` and do `operations`."""
    size = _size(nbytes)
    if nbytes and size not in _highest:
        _measure(size)
    return max(nbytes / (_MARGIN * _highest[size]) if nbytes else 0.0, operations / OPERATIONS_PER_NS)


def _size(nbytes: int) -> int:
    """Return a working set of about `nbytes`, so that the copy is measured in the same level of the caches."""
    size = _SMALLEST
    while size < min(nbytes, _LARGEST):
        size *= 2
    return size


def _measure(size: int) -> None:
    """Note the highest rate (bytes read and written per nanosecond) at which this core copies a working set."""
    source = torch.ones(size // 8, dtype=torch.float32)
    target = torch.zeros_like(source)
    repeats = max(1, (1 << 20) // size)
    best = float("inf")
    until = time.monotonic() + _SECONDS
    while best == float("inf") or time.monotonic() < until:
        started = time.thread_time_ns()
        for _ in range(repeats):
            target.copy_(source)
        best = min(best, max(1, time.thread_time_ns() - started) / repeats)
    _highest[size] = max(_highest.get(size, 0.0), size / best)
