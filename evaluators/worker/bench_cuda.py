"""A GPU as a device: protocol `cuda-strict-1`.

A window is a batch of calls, each on a slot of its own, with inputs that no call has seen, followed by a wait for the
whole device; the supervisor's wall clock around it counts. Before each window the supervisor writes the inputs in one
go, flushes the second-level cache, so that every call finds its inputs in memory, and has the device turn to the
program's context, which takes about 0.4 ms. How long that takes is watched: it is no time for work. A program's time on
a case is the middle window's time per call (of two, the shorter one's), less what an empty window costs and, when it
returns its outputs, less the copy of them into the slot. Of several estimates the longest of the shortest quarter
counts.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import torch

from evaluators.worker import cuda, floor_cuda, nvml, timing_lock
from evaluators.worker.arena_cuda import CudaArena
from evaluators.worker.bench import Effort, Limits
from evaluators.worker.charges import Least
from evaluators.worker.device_view import view
from evaluators.worker.dtypes import DTYPES
from evaluators.worker.failure import CandidateFailure, HarnessFault
from evaluators.worker.figures import LOWER
from evaluators.worker.layout import Layout
from evaluators.worker.session import Session
from evaluators.worker.slots import Content, Slots
from evaluators.worker.status import Status
from evaluators.worker.stopwatch import device_ns

_FLUSH_BYTES = 256 << 20
_REPEATS, _COPIES = 7, 20
_LEARN, _UNEVEN = 3, 0.03
"""How often slots are filled to learn how long that takes, and how much longer it takes now and then."""
_LEAST_FREE, _FREE_TO_BEGIN = 0.05, 0.5
_PROGRAM = 0.4
"""What a program may take of the device's memory, a share of all."""
_POOL, _ARENAS = 0.3, 0.48
"""Shares of what is free besides that."""


class CudaBench:
    """The one GPU that this process sees."""

    device = "cuda"
    protocol = "cuda-strict-1"
    reading = LOWER
    by_wall_clock = True
    pinned = False
    efforts: Mapping[str, Effort] = {
        "search": Effort(5, 40, wanted=0.01, seconds=2.5, windows=4, rounds=20, most_s=5.0, hopeless=1.1),
        "certify": Effort(6, 20, wanted=0.005, seconds=12.0, windows=6, most_s=20.0),
    }

    def __init__(self) -> None:
        """Start the device's context in this process, which nothing untrusted ever runs in."""
        self.properties = torch.cuda.get_device_properties(0)
        self.uuid = device_name()
        total = self.properties.total_memory
        spare = (1 - _PROGRAM) * total
        self.limits = Limits(
            window_ns=8_000_000,
            most_calls=128,
            handling_ns=400_000,
            handling_ns_per_byte=0.002,
            pool_bytes=int(spare * _POOL),
            arena_bytes=int(spare * _ARENAS),
            program_bytes=int(total * _PROGRAM),
            examples_s=0.6,
            least_windows=1,
            alone_ns=75_000,
            alike=False,
        )
        self._flush = torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self._value = 0
        self._hand_over: dict[tuple[int, ...], float] = {}
        self._fills, self._rests = Least[tuple[Layout, int]](_UNEVEN), Least[None]()
        for _ in range(_REPEATS):
            self._rests.excess(None, self._time_flush())
        self._before = nvml.read(self.uuid)

    def slots(self, layout: Layout, count: int) -> Slots:
        """Return new slots in the device's memory."""
        return CudaArena(layout, count)

    def building(self) -> AbstractContextManager[None]:
        """Hold nothing: builds do not touch the device."""
        return nullcontext()

    def checking(self) -> AbstractContextManager[None]:
        """Keep the device alone."""
        return self._alone()

    def timing(self) -> AbstractContextManager[None]:
        """Keep the device alone."""
        return self._alone()

    def filling(self, slots: Slots, examples: Sequence[Content]) -> Callable[[], int]:
        """Return what writes poison, inputs, then more than the second-level cache holds, and how much longer it took.

        Longer than ever since it was learnt, that is. All is written in one go, right before a window: what waits for
        any of it on the device, to begin before the clock runs, delays the rest. Raises CandidateFailure as `rest`
        does.
        """
        self._see_memory()
        return self._filling(slots, examples)

    def learn(self, slots: Slots, examples: Sequence[Content]) -> None:
        """Fill them some times; what was known of such slots is forgotten."""
        self._fills.forget((slots.layout, len(examples)))
        fill = self._filling(slots, examples)
        for _ in range(_LEARN):
            fill()

    def rest(self) -> int:
        """Wait for the device, then write more than its second-level cache holds; return how much longer it took.

        Raises CandidateFailure when programs have left no memory: those of the supervisor never do.
        """
        self._see_memory()
        return self._rests.excess(None, self._time_flush())

    def _filling(self, slots: Slots, examples: Sequence[Content]) -> Callable[[], int]:
        write, key = slots.filling(examples), (slots.layout, len(examples))
        return lambda: self._fills.excess(key, self._time_flush(write))

    def _see_memory(self) -> None:
        free, total = torch.cuda.mem_get_info()
        if free < _LEAST_FREE * total:
            # What references leave behind is kept by this process' allocator.
            torch.cuda.empty_cache()
            free, total = torch.cuda.mem_get_info()
        if free < _LEAST_FREE * total:
            message = f"only {free / 2**30:.1f} of {total / 2**30:.0f} GiB of the device's memory are left"
            raise CandidateFailure(Status.OUT_OF_MEMORY, message)

    def tidy(self) -> None:
        """Empty torch's cache."""
        torch.cuda.empty_cache()

    def best(self, windows: list[float]) -> float:
        """Return the lower one of the middle: a host that is slow for a while makes a call slower, never faster."""
        return statistics.median_low(windows)

    def hand_over_ns(self, layout: Layout) -> float:
        """Return the time of copying freshly written outputs into a slot, measured here once per set of sizes."""
        sizes = tuple(field.nbytes for field in layout.outputs)
        if sizes not in self._hand_over:
            self._hand_over[sizes] = sum(self._copy_ns(nbytes) for nbytes in sizes)
        return self._hand_over[sizes]

    def further_threads(self, session: Session) -> list[str]:
        """Return the names of those that have run since the program's last first call on a case, which may compile."""
        return session.working_threads()

    def impossible(self, took_ns: float, nbytes: int, operations: int) -> float | None:
        """Return the physical floor when `took_ns` is below it, else None."""
        return floor_cuda.is_below_floor(took_ns, nbytes, operations, self.properties)

    def remarks(self) -> list[str]:
        """Return the clocks of the device."""
        before, self._before = self._before, nvml.read(self.uuid)
        readings = [(when, read) for when, read in (("before", before), ("after", self._before)) if read is not None]
        return [f"device {when}: {read.words()}" for when, read in readings] or ["device: clocks are not known"]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with timing_lock.held(alone=True, device=self.uuid):
            self._take_memory()
            try:
                yield
            finally:
                torch.cuda.empty_cache()

    def _take_memory(self) -> None:
        """Set the limits by the memory that is free. Raises HarnessFault when that is too little to judge anything."""
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        if free < _FREE_TO_BEGIN * total:
            words = f"only {free / 2**30:.0f} of {total / 2**30:.0f} GiB of the device's memory are free"
            raise HarnessFault(f"{words}: end what else uses it, or name another device")
        spare = free - self.limits.program_bytes
        self.limits = replace(self.limits, pool_bytes=int(spare * _POOL), arena_bytes=int(spare * _ARENAS))

    def _time_flush(self, first: Callable[[], None] | None = None) -> int:
        torch.cuda.synchronize()
        cuda.reset_persisting_cache()
        self._value = (self._value + 1) % 251
        started = time.perf_counter_ns()
        if first is not None:
            first()
        self._flush.fill_(self._value)
        torch.cuda.synchronize()
        return time.perf_counter_ns() - started

    def _copy_ns(self, nbytes: int) -> float:
        """Return the slope of a copy after the source was written."""
        kind = DTYPES["uint8"] if nbytes % 4 else DTYPES["float32"]
        mapping, fd = cuda.allocate(nbytes)
        try:
            target = view(mapping.address, (nbytes // kind.itemsize,), kind)
            source = torch.empty_like(target)
            with_copy = min(_batch(source, target, copy=True) for _ in range(_REPEATS))
            without = min(_batch(source, target, copy=False) for _ in range(_REPEATS))
        finally:
            torch.cuda.synchronize()
            mapping.close_shared(fd)
        return max(0.0, (with_copy - without) / _COPIES)


def device_name() -> str:
    """Return the identity of the one GPU that this process sees, by which its lock is named; starts no context."""
    return f"GPU-{torch.cuda.get_device_properties(0).uuid}"


def _batch(source: torch.Tensor, target: torch.Tensor, *, copy: bool) -> float:
    def work() -> None:
        for number in range(_COPIES):
            source.fill_(number)
            if copy:
                target.copy_(source)

    return device_ns(work)
