"""Devices by name, as the option `devices` gives them: `cpu`, `cpu:3`, `cpu:0-3`, and GPUs (worker/gpus.py)."""

import asyncio
import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from evaluators.errors import InfrastructureError, UsageError
from evaluators.local import LocalEvaluator
from evaluators.worker import gpus

_CPU = re.compile(r"cpu(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?")


@dataclass(frozen=True)
class Device:
    """Something that one evaluation at a time is timed on."""

    name: str
    kind: str
    """As `Task.device`."""
    make: Callable[[], LocalEvaluator]
    """Returns an evaluator that uses this device and no other."""


def parse_devices(text: str) -> tuple[Device, ...]:
    """Return the devices that `text` names, separated by commas. Raises UsageError."""
    devices = tuple(_device(name.strip()) for name in text.split(","))
    names = [device.name for device in devices]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"option devices: {name} is named twice")
    return devices


def _device(name: str) -> Device:
    if gpus.is_gpu(name) and not name.isdigit():
        try:
            gpu = gpus.visible(name)
        except ValueError as error:
            raise UsageError(f"option devices: {error}") from error
        # One name for each: however it is written, a GPU is in the pool once.
        return Device(f"cuda:{gpu}" if gpu.isdigit() else gpu, "cuda", lambda: LocalEvaluator(gpu=gpu))
    found = _CPU.fullmatch(name)
    if found is None:
        raise UsageError(
            f"option devices: {name!r} names none; write cpu, cpu:3, cpu:0-3, cuda or cuda:1, separated by commas"
        )
    if found["first"] is None:
        return Device(name, "cpu", LocalEvaluator)
    first = int(found["first"])
    processors = frozenset(range(first, int(found["last"] or first) + 1))
    if not processors:
        raise UsageError(f"option devices: {name}: the range is empty")
    return Device(name, "cpu", lambda: PinnedEvaluator(processors))


class PinnedEvaluator(LocalEvaluator):
    """Judges on some of this machine's processors only."""

    def __init__(self, processors: frozenset[int]) -> None:
        """Nothing starts until the first job."""
        super().__init__()
        self._processors = processors

    async def _start(self) -> asyncio.subprocess.Process:
        process = await super()._start()
        try:
            # Its children, the programs among them, inherit this.
            os.sched_setaffinity(process.pid, self._processors)
        except OSError as error:
            await self._stop()
            numbers = ", ".join(map(str, sorted(self._processors)))
            raise InfrastructureError(
                f"this machine does not give us processors {numbers}: {error.strerror}"
            ) from error
        return process
