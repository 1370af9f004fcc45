"""Timing: programs in sibling processes, taken in turn, by the supervisor's clock (`cpu-abba-1`, `cuda-strict-1`).

A visit starts a fresh process per program and takes one estimate; on a GPU it takes more, each with new inputs, for as
long as it took to get there: processes differ. The baseline, which nobody distrusts, is started once on a GPU; on the
processor it is started in each visit, and all processes of a visit share one processor with the supervisor, another one
than before.
An estimate takes windows (batches of calls) of every case in palindromic order: A B B A. Before a window the
supervisor writes fresh secret inputs and poison into the window's slots, so all programs find their data equally
warm. It reads its clock around each window. A program's time on a case is what the device's protocol makes of its
windows' times per call, less what an empty window costs. On the processor a window is charged with what the program
used before and after it, too, with reading scalars, and with what it slept and took to let go of its results beyond the
baseline: one window alone decides, so every one must pay for all its work. Every output is verified, and its slot is
looked at before it is used again; a secret sample is taken at each answer, so that nothing written later counts.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

from evaluators.worker.bench import Bench, Effort
from evaluators.worker.figures import Reading, combined, figure
from evaluators.worker.job import Case, Figure, TaskSpec
from evaluators.worker.layout import lay_out
from evaluators.worker.plans import CasePlan, plan_case, without_repeats
from evaluators.worker.seats import Seating
from evaluators.worker.turn import Started
from evaluators.worker.visit import Entrant, Run, Visit, hand

_LEAST_TO_GIVE_UP, _WITH_RIVAL = 3, 3
_LEAST_VISITS = 2
"""The estimates of one visit resemble each other: they alone would be believed too soon."""


@dataclass
class Times:
    """Nanoseconds of one call: per estimate, per entrant, per case."""

    reading: Reading
    call_ns: list[list[list[float]]] = field(default_factory=list)
    plans: list[CasePlan] = field(default_factory=list)
    visits: int = 0
    began: float = field(default_factory=time.monotonic)
    device_s: float = 0.0
    """For how long the device was held, the starts of its contexts left out."""
    descriptors: dict[int, int] = field(default_factory=dict)
    """Entrant -> how many more files were open at the end than after loading (the most seen)."""

    def usual_ns(self, place: int, index: int) -> float:
        """Return what a call of an entrant takes on a case."""
        return self.reading.usual(self._of(place, index))

    def case_ratio(self, numerator: int, denominator: int, index: int) -> Figure:
        """Return the time of one entrant / the time of another on a case."""
        some, others = self._of(numerator, index), self._of(denominator, index)
        return figure(self.reading.quotient(some, others), [a / b for a, b in zip(some, others, strict=True)])

    def ratio(self, numerator: int, denominator: int, how: str) -> Figure:
        """Return the time of one entrant / the time of another, over all cases."""
        cases = range(len(self.call_ns[0][0]))
        values = [self.reading.quotient(self._of(numerator, index), self._of(denominator, index)) for index in cases]
        estimates = [[a / b for a, b in zip(one[numerator], one[denominator], strict=True)] for one in self.call_ns]
        return combined(values, estimates, how)

    def _of(self, place: int, index: int) -> list[float]:
        return [estimate[place][index] for estimate in self.call_ns]


def measure(run: Run) -> Times:
    """Time every entrant. Raises EntrantFailure for the first one that fails; the caller drops it and starts over."""
    bench, plans = run.bench, _plans(run)
    times = Times(bench.reading, plans=plans)
    kept: dict[int, Started] = {}
    try:
        for place, entrant in enumerate(run.entrants):
            for case, plan, examples in zip(run.cases, plans, entrant.examples, strict=True):
                slots = bench.slots(lay_out(run.task, case), plan.calls_of(place))
                entrant.arenas.append(slots)
                bench.learn(slots, list(islice(cycle(examples), slots.slots)))
        seating = Seating(together=bench.pinned)
        while not _settled(times, run):
            number = len(times.call_ns)
            if number:
                hand(run.entrants, [])
                for process in kept.values():
                    process.let_go()
                hand(run.entrants, run.supply.for_new_processes(plans))
            _take(Visit(run, number, seating.seats(number), kept), run, times)
    finally:
        for process in kept.values():
            process.session.end()
        times.device_s += time.monotonic() - times.began
        for entrant in run.entrants:
            for arena in entrant.arenas:
                arena.close()
            entrant.arenas = []
    return times


def _take(visit: Visit, run: Run, times: Times) -> None:
    """Add the estimates of a visit to `times`."""
    began, most = time.monotonic(), len(times.call_ns) + _rounds(run.effort, times.visits)
    times.visits += 1
    with visit.under_way():
        times.call_ns.append(visit.estimate(times.plans, len(times.call_ns)))
        until = 2 * time.monotonic() - began
        while not (_settled(times, run) or len(times.call_ns) == most or time.monotonic() > until):
            if not visit.renewed(times.plans):
                break
            times.call_ns.append(visit.estimate(times.plans, len(times.call_ns)))
    times.device_s -= visit.starting_s
    for place, more in visit.more_descriptors().items():
        times.descriptors[place] = max(times.descriptors.get(place, 0), more)


def _rounds(effort: Effort, visits: int) -> int:
    """Return how many estimates a visit gives at most, after so many visits: the first leaves some to the second."""
    return effort.rounds if visits else min(effort.rounds, math.ceil(effort.estimates / _LEAST_VISITS))


def _plans(run: Run) -> list[CasePlan]:
    """Return how to time each case with the examples that there are."""
    plans = plan_cases(run.task, run.entrants, run.cases, run.bench, run.effort)
    made, least = [len(examples) for examples in run.entrants[0].examples], run.bench.limits.least_windows
    return [without_repeats(plan, count, least) for plan, count in zip(plans, made, strict=True)]


def plan_cases(
    task: TaskSpec, entrants: Sequence[Entrant], cases: Sequence[Case], bench: Bench, effort: Effort
) -> list[CasePlan]:
    """Return how to time each case within the effort's time."""
    return [
        plan_case(
            [entrant.call_ns[index] for entrant in entrants],
            lay_out(task, case).stride,
            len(cases),
            bench.limits,
            effort,
        )
        for index, case in enumerate(cases)
    ]


def _settled(times: Times, run: Run) -> bool:
    taken, effort = len(times.call_ns), run.effort
    if _hopeless(times, run.task, effort):
        return True
    if taken < effort.estimates:
        return False
    if taken >= effort.most_estimates or time.monotonic() > times.began + effort.most_s:
        return True
    if times.visits < _LEAST_VISITS:
        return False
    for place in range(1, len(times.call_ns[0])):
        interval = times.ratio(0, place, run.task.aggregate)
        if interval.high / interval.low > 1 + 2 * effort.wanted:
            return False
    return True


def _hopeless(times: Times, task: TaskSpec, effort: Effort) -> bool:
    """Return whether the first program is certainly slower than its rival, the second, by the effort's margin."""
    if effort.hopeless is None or len(times.call_ns) < _LEAST_TO_GIVE_UP or len(times.call_ns[0]) != _WITH_RIVAL:
        return False
    return times.ratio(2, 1, task.aggregate).high * effort.hopeless < 1
