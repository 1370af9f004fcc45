"""The supervisor's own work on the GPU, timed by the GPU's events."""

from collections.abc import Callable
from typing import Any

import torch

_torch_cuda: Any = torch.cuda


def device_ns(work: Callable[[], None]) -> float:
    """Return for how many nanoseconds the device was at `work`, which only enqueues it."""
    begin, end = _torch_cuda.Event(enable_timing=True), _torch_cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1e6
