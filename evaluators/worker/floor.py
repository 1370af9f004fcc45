"""The physical floor: no program is faster than its bytes through the caches and its operations through the core.

Deliberately generous: bandwidth is that of the best plain copy of as many bytes, already in the caches, times a
margin; the operation rate is above what one core of today's processors reaches.
"""

import time
from functools import lru_cache

import torch

OPERATIONS_PER_NS = 512.0
"""Two 512-bit fused multiply-adds of 32-bit floats a cycle at 8 GHz."""
_MARGIN = 1.5
_SMALLEST, _LARGEST = 16 << 10, 256 << 20


def floor_ns(nbytes: int, operations: int) -> float:
    """Return the least nanoseconds in which one core can move `nbytes` and do `operations`."""
    return max(nbytes / (_MARGIN * bytes_per_ns(nbytes)) if nbytes else 0.0, operations / OPERATIONS_PER_NS)


def bytes_per_ns(nbytes: int) -> float:
    """Return the highest rate at which this core copies a working set of about `nbytes` (read + written)."""
    size = _SMALLEST
    while size < min(nbytes, _LARGEST):
        size *= 2
    return _copy_rate(size)


@lru_cache(maxsize=32)
def _copy_rate(size: int) -> float:
    source = torch.ones(size // 8, dtype=torch.float32)
    target = torch.zeros_like(source)
    repeats = max(1, (1 << 20) // size)
    best = float("inf")
    until = time.monotonic() + 0.05
    while best == float("inf") or time.monotonic() < until:
        started = time.thread_time_ns()
        for _ in range(repeats):
            target.copy_(source)
        best = min(best, max(1, time.thread_time_ns() - started) / repeats)
    return size / best
