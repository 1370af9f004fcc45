"""Timing protocol `cpu-abba-1`: one thread, programs in sibling processes, taken in turn, minimum processor time.

An estimate starts a fresh process per program (the baseline is one of them), all on one processor and another one than
in the estimate before, and takes windows (batches of calls) in palindromic order: A B B A. Before a window the
supervisor, on that processor too, writes fresh secret inputs and poison into the window's slots, so all programs find
their data equally warm. It reads the process' processor clock and the wall clock around each window. A program's time
on a case is its fastest window's processor time per call, less what an empty window costs. Every output is verified
before its slot is used again; a secret sample is taken at each answer, so that nothing written later counts.
"""

import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from evaluators.worker import descendants, rules
from evaluators.worker.arena import Arena
from evaluators.worker.build import Built
from evaluators.worker.failure import CandidateFailure, integrity
from evaluators.worker.figures import aggregate, figure
from evaluators.worker.job import Case, TaskSpec
from evaluators.worker.layout import lay_out
from evaluators.worker.oracle import Example
from evaluators.worker.proof import Proof, Proven
from evaluators.worker.session import Session, Workshop

_WINDOW_NS = 1_000_000
"""A window is at least about this long: the code that it starts with has left the caches, which costs about 20 us."""
_HANDLING_NS, _HANDLING_NS_PER_BYTE = 200_000, 0.4
"""What filling, answering and verifying cost the supervisor, per window and per byte of a slot (measured)."""
_MOST_CALLS = 64
_SLOW_NS = 300_000_000
_EMPTY_WINDOWS = 6


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


@dataclass
class Entrant:
    """One program that is timed. The first of a run is the baseline, which is trusted and not judged."""

    built: Built
    call_ns: list[int]
    """About what a call takes, per case."""
    examples: list[list[Example]]
    """Per case: its own secret examples."""
    arenas: list[Arena] = field(default_factory=list)
    proven: list[Proven] = field(default_factory=list)

    @property
    def trusted(self) -> bool:
        """Whether this is the baseline."""
        return self.built.binding == "baseline"


@dataclass(frozen=True)
class CasePlan:
    """How one case is measured."""

    windows: int
    """Per program and estimate."""
    calls: int
    """In a window."""
    warm: bool


@dataclass
class Times:
    """Nanoseconds of one call: per estimate, per entrant, per case."""

    cpu_ns: list[list[list[float]]] = field(default_factory=list)
    plans: list[CasePlan] = field(default_factory=list)
    device_s: float = 0.0
    descriptors: dict[int, int] = field(default_factory=dict)
    """Entrant -> how many more files were open at the end than after loading (the most seen)."""


class EntrantFailure(Exception):
    """One entrant failed while it was timed."""

    def __init__(self, entrant: int, failure: CandidateFailure) -> None:
        """Name the entrant by its place."""
        super().__init__(failure.message)
        self.entrant, self.failure = entrant, failure


def plan_cases(task: TaskSpec, entrants: Sequence[Entrant], cases: Sequence[Case], effort: Effort) -> list[CasePlan]:
    """Return how to measure each case within the effort's time."""
    share_ns = effort.seconds * 1e9 / (effort.estimates * len(cases))
    strides = [lay_out(task, case).stride for case in cases]
    plans = []
    for index in range(len(cases)):
        took = [max(1, entrant.call_ns[index]) for entrant in entrants]
        # The same for all: what a window costs to start weighs on every program's calls alike.
        calls = max(1, min(_MOST_CALLS, round(_WINDOW_NS / min(took))))
        round_ns = sum(calls * (ns + strides[index] * _HANDLING_NS_PER_BYTE) + _HANDLING_NS for ns in took)
        windows = max(2, min(effort.windows, int(share_ns / round_ns) // 2 * 2))
        slow = max(took) > _SLOW_NS
        plans.append(CasePlan(1 if slow else windows, calls, warm=not slow))
    return plans


def measure(
    shop: Workshop,
    task: TaskSpec,
    cases: Sequence[Case],
    entrants: Sequence[Entrant],
    effort: Effort,
    off: set[str],
) -> Times:
    """Time every entrant. Raises EntrantFailure for the first one that fails; the caller drops it and starts over."""
    times = Times(plans=plan_cases(task, entrants, cases, effort))
    for entrant in entrants:
        entrant.proven = [{} for _ in cases]
        entrant.arenas = [Arena(lay_out(task, case), plan.calls) for case, plan in zip(cases, times.plans, strict=True)]
    started = time.monotonic()
    try:
        processors = sorted(os.sched_getaffinity(0))
        first = secrets.randbelow(len(processors))
        while not _settled(times, task, effort):
            number = len(times.cpu_ns)
            processor = processors[(first + number) % len(processors)]
            estimate = _Estimate(shop, task, cases, entrants, off, processor)
            times.cpu_ns.append(estimate.run(times, number))
    finally:
        times.device_s = time.monotonic() - started
        for entrant in entrants:
            for arena in entrant.arenas:
                arena.close()
            entrant.arenas = []
    return times


def _settled(times: Times, task: TaskSpec, effort: Effort) -> bool:
    taken = len(times.cpu_ns)
    if taken < effort.estimates or taken >= effort.most_estimates:
        return taken >= effort.most_estimates
    for place in range(1, len(times.cpu_ns[0])):
        ratios = [
            aggregate([b / c for b, c in zip(estimate[0], estimate[place], strict=True)], task.aggregate)
            for estimate in times.cpu_ns
        ]
        interval = figure(ratios)
        if interval.high / interval.low > 1 + 2 * effort.wanted:
            return False
    return True


def examples_wanted(plan: CasePlan) -> int:
    """Return how many examples let a program take an estimate without meeting one twice."""
    return plan.calls * (plan.windows + (1 if plan.warm else 0))


class _Estimate:
    """One estimate: fresh processes, every case once."""

    def __init__(
        self,
        shop: Workshop,
        task: TaskSpec,
        cases: Sequence[Case],
        entrants: Sequence[Entrant],
        off: set[str],
        processor: int,
    ) -> None:
        self._shop, self._task, self._cases, self._entrants, self._off = shop, task, cases, entrants, off
        # One for all: whatever else uses that processor, or its twin on the same core, slows them alike.
        self._processor = processor
        # The baseline does between its windows what the programs do between theirs: it leaves the caches alike.
        self._all_return = all(entrant.built.binding == "value" for entrant in entrants[1:])
        self._sessions: dict[int, Session] = {}
        self._proofs: dict[int, list[Proof]] = {}

    def run(self, times: Times, number: int) -> list[list[float]]:
        """Return nanoseconds per entrant and case."""
        order = [(number + step) % len(self._entrants) for step in range(len(self._entrants))]
        # What the supervisor writes for a window is then in the caches of the processor that works on it.
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self._processor})
        try:
            return self._run(times, order)
        finally:
            os.sched_setaffinity(0, before)

    def _run(self, times: Times, order: list[int]) -> list[list[float]]:
        taken = [[0.0] * len(self._cases) for _ in self._entrants]
        try:
            opened = {place: self._open(place) for place in order}
            for index in _shuffled(len(self._cases)):
                for place, best in self._measure_case(index, times.plans[index], order).items():
                    taken[place][index] = best
            for place in order:
                self._look_over(place, opened[place], times)
        finally:
            for session in self._sessions.values():
                session.end()
        for place in order:
            with _Blame(place):
                for proof in self._proofs[place]:
                    proof.settle()
        return taken

    def _open(self, place: int) -> int | None:
        entrant = self._entrants[place]
        held = sum(arena.slots * arena.layout.stride for arena in entrant.arenas)
        session = Session(self._shop, self._task, entrant.built, held, self._processor)
        self._sessions[place] = session
        with _Blame(place):
            session.load()
            for index, case in enumerate(self._cases):
                session.set_up(index, case, entrant.arenas[index])
        self._proofs[place] = [
            Proof(self._task, arena, examples, proven, entrant.trusted, self._off)
            for arena, examples, proven in zip(entrant.arenas, entrant.examples, entrant.proven, strict=True)
        ]
        return descendants.descriptors(session.child.pid)

    def _measure_case(self, index: int, plan: CasePlan, order: list[int]) -> dict[int, float]:
        for place in order:
            self._proofs[place][index].fill()
            with _Blame(place):
                self._sessions[place].prepare(index)
                if plan.warm:
                    self._window(place, index, plan.calls)
                self._sessions[place].rest()
        empty = self._empty(index)
        best: dict[int, float] = {}
        for turn in range(plan.windows):
            for place in order if turn % 2 == 0 else reversed(order):
                with _Blame(place):
                    cpu = self._window(place, index, plan.calls)
                net = max(1.0, (cpu - empty) / plan.calls)
                best[place] = min(best.get(place, net), net)
        for place in order:
            with _Blame(place):
                self._proofs[place][index].check_clocks()
        return best

    def _window(self, place: int, index: int, calls: int) -> int:
        session, proof = self._sessions[place], self._proofs[place][index]
        slots = proof.deal(calls)
        if proof.refilled:
            session.prepare(index)
            session.rest()
        window = session.call(index, slots)
        collected = session.collect(copy=session.returns or (place == 0 and self._all_return))
        proof.take(slots, window, collected, descendants.threads(session.child.pid))
        session.rest()
        return window.cpu_ns

    def _empty(self, index: int) -> int:
        session = self._sessions[0]
        with _Blame(0):
            return min(session.call(index, []).cpu_ns for _ in range(_EMPTY_WINDOWS))

    def _look_over(self, place: int, opened: int | None, times: Times) -> None:
        session = self._sessions[place]
        now = descendants.descriptors(session.child.pid)
        if opened is not None and now is not None:
            times.descriptors[place] = max(times.descriptors.get(place, 0), now - opened)
        others = session.child.others(alone=False)
        if others and not self._entrants[place].trusted and rules.CHILDREN not in self._off:
            message = f"{others} more processes were running while it was timed"
            raise EntrantFailure(place, integrity(rules.CHILDREN, message))


class _Blame:
    """Names the entrant whose failure passes through."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Pass everything on."""
        if isinstance(error, CandidateFailure):
            raise EntrantFailure(self._place, error) from error


def _shuffled(count: int) -> list[int]:
    order = list(range(count))
    secrets.SystemRandom().shuffle(order)
    return order
