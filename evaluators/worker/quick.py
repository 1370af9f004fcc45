"""Which processors are quick just now.

One whose core somebody else uses too is half as quick, for seconds at a time. Under a hypervisor that may be another
machine, of which nothing is seen here but the time that work takes.
"""

import os
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from statistics import median

_MOST_TRIED = 32
_LOOPS, _STEPS = 21, 1_000
"""Loops of some 25 us each."""
_ALIKE = 1.1
"""How many times as long as on the quickest work may take on one that is as good."""
_LEAST, _SHARE = 2, 4
"""Nobody is confined to fewer, nor to fewer than one of so many: others come and go, the system must have a choice."""


def quick(processors: Iterable[int]) -> frozenset[int]:
    """Return those that are quick; all of them, which may be none, when none can be tried."""
    given = sorted(processors)
    before, took = os.sched_getaffinity(0), dict[int, float]()
    try:
        for processor in secrets.SystemRandom().sample(given, min(len(given), _MOST_TRIED)):
            with suppress(OSError):  # it was taken from us
                os.sched_setaffinity(0, {processor})
                took[processor] = median(_loop_ns() for _ in range(_LOOPS))
    finally:
        os.sched_setaffinity(0, before)
    return nearly_quickest(took) if took else frozenset(given)


def nearly_quickest(took_ns: Mapping[int, float]) -> frozenset[int]:
    """Return the processors on which work took hardly longer than on the quickest, by what it took on each."""
    ordered = sorted(took_ns, key=lambda processor: took_ns[processor])
    alike = [processor for processor in ordered if took_ns[processor] <= _ALIKE * took_ns[ordered[0]]]
    return frozenset([*alike, *ordered[: max(_LEAST, len(ordered) // _SHARE)]])


def _loop_ns() -> int:
    started, total = time.perf_counter_ns(), 0
    for step in range(_STEPS):
        total += step
    return time.perf_counter_ns() - started
