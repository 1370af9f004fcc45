"""The processor as a device: protocol `cpu-abba-1`."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import torch

from evaluators.worker import calls, descendants, floor, timing_lock
from evaluators.worker.arena import Arena
from evaluators.worker.bench import Effort, Limits
from evaluators.worker.figures import MIDDLE
from evaluators.worker.layout import Layout
from evaluators.worker.session import Session
from evaluators.worker.slots import Content, Slots

_REPEATS, _COPIES = 7, 16


class CpuBench:
    """One thread, minimum processor time, timing alone on the machine."""

    device = "cpu"
    protocol = "cpu-abba-1"
    reading = MIDDLE
    by_wall_clock = False
    pinned = True
    # More windows, each of which takes new inputs, hardly help: on a busy machine estimates of a ratio deviate by 4.1 %
    # with 12 and by 3.7 % with 30 (standard deviation; softmax and trimul_small).
    efforts: Mapping[str, Effort] = {
        "search": Effort(estimates=5, most_estimates=9, wanted=0.03, seconds=2.0, windows=12),
        "certify": Effort(estimates=7, most_estimates=14, wanted=0.015, seconds=5.0, windows=16),
    }
    # A window is about as long as it takes for what it starts with to leave the caches, which costs about 20 us.
    limits = Limits(
        window_ns=1_000_000,
        most_calls=64,
        handling_ns=200_000,
        handling_ns_per_byte=0.4,
        pool_bytes=512 << 20,
        arena_bytes=64 << 30,
    )

    def __init__(self) -> None:
        """Know no copies yet."""
        self._hand_over: dict[tuple[int, ...], float] = {}

    def slots(self, layout: Layout, count: int) -> Slots:
        """Return new slots in shared memory."""
        return Arena(layout, count)

    def building(self) -> AbstractContextManager[None]:
        """Let others build and check, but not time, meanwhile."""
        return timing_lock.held(alone=False)

    def checking(self) -> AbstractContextManager[None]:
        """Let others build and check, but not time, meanwhile."""
        return timing_lock.held(alone=False)

    def timing(self) -> AbstractContextManager[None]:
        """Keep the machine alone."""
        return timing_lock.held(alone=True)

    def filling(self, slots: Slots, examples: Sequence[Content]) -> Callable[[], int]:
        """Return what writes these examples into the slots, in order, and poisons their outputs; it returns 0."""
        write = slots.filling(examples)

        def fill() -> int:
            write()
            return 0

        return fill

    def learn(self, slots: Slots, examples: Sequence[Content]) -> None:
        """Do nothing: a process' clock counts what it does meanwhile."""

    def rest(self) -> int:
        """Do nothing: a process' clock counts what it does between windows."""
        return 0

    def best(self, windows: list[float]) -> float:
        """Return the fastest: other work on the machine makes a call slower, never faster."""
        return min(windows)

    def hand_over_ns(self, layout: Layout) -> float:
        """Return the shortest time of copying freshly written outputs into a slot, measured once per set of sizes."""
        sizes = tuple(field.nbytes for field in layout.outputs)
        if sizes not in self._hand_over:
            self._hand_over[sizes] = _copy_ns(layout)
        return self._hand_over[sizes]

    def tidy(self) -> None:
        """Do nothing: memory that is let go of is the machine's again."""

    def further_threads(self, session: Session) -> list[str]:
        """Return the names of all threads besides the main one."""
        pid = session.child.pid
        return [name for tid, name in descendants.thread_names(pid).items() if tid != pid]

    def impossible(self, took_ns: float, nbytes: int, operations: int) -> float | None:
        """Return the physical floor when `took_ns` is below it, else None."""
        return floor.is_below_floor(took_ns, nbytes, operations)

    def remarks(self) -> list[str]:
        """Return what certification did not measure."""
        return ["all-core: not measured (the protocol times one thread)"]


def _copy_ns(layout: Layout) -> float:
    """Return what a copy takes, once the slots' pages are present: the shortest of several rounds."""
    arena, rounds = Arena(layout, _COPIES), []
    try:
        for _ in range(_REPEATS):
            took = 0
            for slot in range(_COPIES):
                targets = [arena.tensor(slot, field) for field in layout.outputs]
                made = [torch.ones_like(target) for target in targets]
                started = time.perf_counter_ns()
                calls.hand_over(made if len(made) > 1 else made[0], targets, layout.outputs)
                took += time.perf_counter_ns() - started
            rounds.append(took / _COPIES)
        return min(rounds)
    finally:
        arena.close()
