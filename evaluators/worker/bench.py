"""What measuring needs of a device: its memory, its rest between windows, its locks, its limits."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from evaluators.worker.figures import Reading
from evaluators.worker.layout import Layout
from evaluators.worker.session import Session
from evaluators.worker.slots import Content, Slots


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    estimates: int
    """At least."""
    most_estimates: int
    """Taken while a ratio to the baseline is still less certain than wanted."""
    wanted: float
    """Half width of a ratio's interval, as a share, at which no more estimates are taken."""
    seconds: float
    """The least number of estimates should take about this long."""
    windows: int
    """The most windows per program, case and estimate."""
    rounds: int = 1
    """The most estimates from the same processes, which take as long as the first with its start, where there is room
    for inputs that they have not seen."""
    most_s: float = math.inf
    """No more estimates than at least are taken after so long."""
    hopeless: float | None = None
    """A program is not measured further once it is certainly this many times slower than its rival; None: always."""


@dataclass(frozen=True)
class Limits:
    """Sizes that suit the device."""

    window_ns: int
    """A window is at least about this long."""
    most_calls: int
    """In a window."""
    handling_ns: int
    """What filling, answering and verifying cost the supervisor, per window."""
    handling_ns_per_byte: float
    """The same per byte of a slot."""
    pool_bytes: int
    """Memory for secret examples, about."""
    arena_bytes: int
    """Memory for the slots of all programs and cases that are timed together."""
    program_bytes: int = 0
    """Memory of a GPU that a program may take."""
    examples_s: float = 0.2
    """For how long examples of a case are made before fewer are taken than were wanted."""
    least_windows: int = 2
    """Per program, case and estimate, unless a call is very long."""
    alone_ns: float = math.inf
    """How much longer a call may take alone than among others, besides a share of itself; infinite: nobody looks, as a
    processor that a single call keeps busy does several no sooner."""
    alike: bool = True
    """Whether the baseline's windows have as many calls as the programs'."""


class Bench(Protocol):
    """A device on which programs are called."""

    device: str
    protocol: str
    efforts: Mapping[str, Effort]
    limits: Limits
    pinned: bool
    """Whether the processes of a visit keep to the supervisor's processor, another one in each visit."""
    reading: Reading
    """What is made of a program's times in several estimates."""
    by_wall_clock: bool
    """Whether a window takes the wall time until its device is done; else, the processor time of its process."""

    def slots(self, layout: Layout, count: int) -> Slots:
        """Return new slots in the device's memory. Raises HarnessFault when there is no room."""
        ...

    def building(self) -> AbstractContextManager[None]:
        """Hold what must be held while a program is built."""
        ...

    def checking(self) -> AbstractContextManager[None]:
        """Hold what must be held while a program is checked."""
        ...

    def timing(self) -> AbstractContextManager[None]:
        """Hold what must be held while programs are timed."""
        ...

    def filling(self, slots: Slots, examples: Sequence[Content]) -> Callable[[], int]:
        """Return what poisons the slots' outputs, writes these examples into them, in order, and leaves caches cold.

        That may be called again, and returns for how many nanoseconds others kept the device busy meanwhile, as far as
        can be seen.
        """
        ...

    def learn(self, slots: Slots, examples: Sequence[Content]) -> None:
        """Learn anew how long filling such slots takes when nobody else is at work: before a program maps them."""
        ...

    def rest(self) -> int:
        """Wait until the device has done what the supervisor asked of it and leave its caches cold.

        Return for how many nanoseconds others kept the device busy meanwhile, as far as can be seen.
        """
        ...

    def tidy(self) -> None:
        """Give the device's memory back that a job has used, for others who share it."""
        ...

    def best(self, windows: list[float]) -> float:
        """Return the time of a call from those of several windows."""
        ...

    def hand_over_ns(self, layout: Layout) -> float:
        """Return what of a call's time is the copying of returned values into their slot, where the program does it."""
        ...

    def further_threads(self, session: Session) -> list[str]:
        """Return the names of a program's threads that may have worked for it beside its main one."""
        ...

    def impossible(self, took_ns: float, nbytes: int, operations: int) -> float | None:
        """Return the physical floor when `took_ns` is below it, else None."""
        ...

    def remarks(self) -> list[str]:
        """Return facts about the device that a verdict should keep."""
        ...
