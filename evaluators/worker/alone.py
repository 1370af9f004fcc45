"""What single calls take: the baseline's, by which windows are sized, and a program's whose windows seem too quick.

All inputs of a window are in memory when it begins. A program that replaces the runner's loop could do its calls in one
go, which on a device that a single call does not fill takes hardly longer than one. Calls that are made one by one take
about what a call alone takes, less what is done only once in a window or overlaps.
"""

import math
from collections.abc import Sequence

from evaluators.worker.bench import Limits
from evaluators.worker.build import Built
from evaluators.worker.check import Checks, call_once
from evaluators.worker.job import Case
from evaluators.worker.judge import judge
from evaluators.worker.layout import lay_out
from evaluators.worker.session import Session

_TIMES, _TIMES_SHORT = 2.2, 6.0
"""More than the 2 that a host and a device which work at the same time gain at most; short calls find a cold host."""
_LAUNCH_NS = 1_000
"""Nothing is launched in less."""


def least_ns(alone_ns: float, limits: Limits) -> float:
    """Return the least that a call among others takes when one alone takes `alone_ns`."""
    if math.isinf(limits.alone_ns):
        return 0.0
    return max(_LAUNCH_NS, (alone_ns - limits.alone_ns) / _TIMES, (alone_ns - limits.alone_ns / 3) / _TIMES_SHORT)


def single_calls_ns(
    checks: Checks, built: Built, cases: Sequence[Case], calls: int, *, fresh: bool
) -> tuple[list[list[int]], float]:
    """Return what each of so many single calls per case took, nanoseconds, in a new process; all are verified.

    Also return for how long the device's context started, seconds. `fresh`: each call has inputs of its own. Raises
    CandidateFailure, TaskFault.
    """
    arenas = [checks.bench.slots(lay_out(checks.task, case), 1) for case in cases]
    held_bytes = sum(arena.layout.stride for arena in arenas)
    returns = built.binding in ("value", "baseline")
    session = Session(checks.shop, checks.task, built, held_bytes, results=returns)
    try:
        session.load()
        all_took = []
        for index, (case, arena) in enumerate(zip(cases, arenas, strict=True)):
            example, took = checks.oracle.example(case), []
            session.set_up(index, case, arena)
            for number in range(calls):
                if number and fresh:
                    example = checks.oracle.example(case)
                took.append(call_once(session, checks.bench, index, arena, example))
                answered = arena.snapshot(0)
                session.collect(check=True)
                judge(checks.task, arena, answered, example)
            all_took.append(took)
        return all_took, session.started_s
    finally:
        session.end()
        for arena in arenas:
            arena.close()
