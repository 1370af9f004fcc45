"""The physical floor on a GPU: no program is faster than its bytes through the memory and its operations.

Deliberately generous: what fits into the second-level cache is not counted, the memory's rate is the best copy seen
here times a margin, and operations go at the fastest dense rate that the architecture has for any type.
"""

from typing import Any

import torch

from evaluators.worker.stopwatch import device_ns

_MARGIN = 1.25
_OPERATIONS_PER_NS = {7: 0.3e6, 8: 1.4e6, 9: 2.1e6, 10: 16e6, 12: 5e6}
"""Compute capability -> dense operations a nanosecond of the largest part (8-bit types; 4-bit ones from 10)."""
_BYTES, _REPEATS = 1 << 30, 6
_highest: dict[str, float] = {}


def is_below_floor(took_ns: float, nbytes: int, operations: int, properties: Any) -> float | None:
    """Return the floor when `took_ns` is below it, else None; `properties` are torch's of the device."""
    least = floor_ns(nbytes, operations, properties)
    if took_ns >= least:
        return None
    _measure(properties.name)
    least = floor_ns(nbytes, operations, properties)
    return None if took_ns >= least else least


def floor_ns(nbytes: int, operations: int, properties: Any) -> float:
    """Return the least nanoseconds in which the device can move `nbytes` and do `operations`."""
    if properties.name not in _highest:
        _measure(properties.name)
    moved = max(0, nbytes - properties.L2_cache_size)
    rate = _OPERATIONS_PER_NS.get(properties.major, max(_OPERATIONS_PER_NS.values()))
    return float(max(moved / (_MARGIN * _highest[properties.name]), operations / rate))


def _measure(name: str) -> None:
    """Note the highest rate (bytes read and written per nanosecond) of a plain copy."""
    nbytes = min(_BYTES, torch.cuda.mem_get_info()[0] // 8)
    source = torch.ones(nbytes, dtype=torch.uint8, device="cuda")
    target = torch.zeros_like(source)
    for _ in range(_REPEATS):
        took = device_ns(lambda: _copy(target, source))
        _highest[name] = max(_highest.get(name, 0.0), 2 * nbytes / took)


def _copy(target: torch.Tensor, source: torch.Tensor) -> None:
    target.copy_(source)
