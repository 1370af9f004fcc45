"""Which processors the supervisor and the programs run on while programs are timed."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_LEAST = 4
"""Of fewer processors none is kept free of programs."""


@dataclass(frozen=True)
class Seats:
    """Processors; empty: any."""

    supervisor: frozenset[int] = frozenset()
    programs: frozenset[int] = frozenset()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Keep this process to its own meanwhile."""
        if not self.supervisor:
            yield
            return
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self.supervisor)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


class Seating:
    """The seats of one run's visits."""

    def __init__(self, *, together: bool) -> None:
        """Choose where to begin.

        `together`: in each visit everyone shares one processor, another one than before. What the supervisor writes for
        a window is then in the caches of the processor that works on it, and whatever else uses that processor, or its
        twin on the same core, slows all alike. Otherwise the supervisor, which waits without sleeping, keeps a core to
        itself for the whole run: a program on its twin would be slower, now and then. Programs are moved to the quick
        ones among theirs when an estimate begins.
        """
        self._together = together
        self._all = sorted(os.sched_getaffinity(0))
        self._first = secrets.randbelow(len(self._all))

    def seats(self, visit: int) -> Seats:
        """Return the seats of a visit, by its number."""
        if self._together:
            shared = frozenset({self._all[(self._first + visit) % len(self._all)]})
            return Seats(shared, shared)
        own = self._all[self._first]
        others = frozenset(self._all) - twins(own)
        return Seats(frozenset({own}), others) if others and len(self._all) >= _LEAST else Seats()


def twins(processor: int) -> frozenset[int]:
    """Return the processors that share a core with this one, itself included."""
    try:
        text = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list").read_text()
    except OSError:
        return frozenset({processor})
    found = {processor}
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)
