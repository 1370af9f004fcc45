"""Timing: programs in sibling processes, taken in turn, by the supervisor's clock (`cpu-abba-1`, `cuda-strict-1`).

A visit starts a fresh process per program (the baseline is one of them) and takes estimates; on the processor a visit
has one estimate, and all its processes share one processor with the supervisor, another one than in the visit before.
An estimate takes windows (batches of calls) of every case in palindromic order: A B B A. Before a window the supervisor
writes fresh secret inputs and poison into the window's slots, so all programs find their data equally warm. It reads
its clock around each window. A program's time on a case is what the device's protocol makes of its windows' times per
call, less what an empty window costs. On the processor a window is charged with what the program used before and after
it, too, and with what handing over took longer than the baseline: one window alone decides, so every one must pay for
all its work. Every output is verified before its slot is used again; a secret sample is taken
at each answer, so that nothing written later counts.
"""

import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from evaluators.worker import descendants, rules
from evaluators.worker.bench import Bench, Effort
from evaluators.worker.build import Built
from evaluators.worker.failure import CandidateFailure, integrity
from evaluators.worker.figures import aggregate, figure
from evaluators.worker.job import Case, Figure, TaskSpec
from evaluators.worker.layout import lay_out
from evaluators.worker.oracle import Example
from evaluators.worker.proof import Proof, Proven
from evaluators.worker.session import Session, Workshop
from evaluators.worker.slots import Slots

_SLOW_NS = 300_000_000
_EMPTY_WINDOWS = 6
_LEAST_TO_GIVE_UP, _WITH_RIVAL = 3, 3


@dataclass
class Entrant:
    """One program that is timed. The first of a run is the baseline, which is trusted and not judged."""

    built: Built
    call_ns: list[int]
    """About what a call takes, per case."""
    examples: list[list[Example]]
    """Per case: its own secret examples."""
    arenas: list[Slots] = field(default_factory=list)
    proven: list[Proven] = field(default_factory=list)

    @property
    def trusted(self) -> bool:
        """Whether this is the baseline."""
        return self.built.binding == "baseline"


@dataclass(frozen=True)
class WindowTimes:
    """What one window took, nanoseconds."""

    called: int
    idle: int
    """Used since the window before."""
    handed: int
    """Handing its results over."""


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

    call_ns: list[list[list[float]]] = field(default_factory=list)
    plans: list[CasePlan] = field(default_factory=list)
    device_s: float = 0.0
    """For how long the device was held, the starts of its contexts left out."""
    descriptors: dict[int, int] = field(default_factory=dict)
    """Entrant -> how many more files were open at the end than after loading (the most seen)."""


class EntrantFailure(Exception):
    """One entrant failed while it was timed."""

    def __init__(self, entrant: int, failure: CandidateFailure) -> None:
        """Name the entrant by its place."""
        super().__init__(failure.message)
        self.entrant, self.failure = entrant, failure


def plan_cases(
    task: TaskSpec, entrants: Sequence[Entrant], cases: Sequence[Case], bench: Bench, effort: Effort
) -> list[CasePlan]:
    """Return how to measure each case within the effort's time."""
    share_ns = effort.seconds * 1e9 / (effort.estimates * len(cases))
    limits = bench.limits
    plans = []
    for index, case in enumerate(cases):
        stride = lay_out(task, case).stride
        took = [max(1, entrant.call_ns[index]) for entrant in entrants]
        # The same for all: what a window costs to start weighs on every program's calls alike.
        most = min(limits.most_calls, limits.arena_bytes // (len(entrants) * len(cases)) // stride)
        calls = max(1, min(most, round(limits.window_ns / min(took))))
        round_ns = sum(calls * (ns + stride * limits.handling_ns_per_byte) + limits.handling_ns for ns in took)
        windows = max(2, min(effort.windows, int(share_ns / round_ns) // 2 * 2))
        slow = max(took) > _SLOW_NS
        plans.append(CasePlan(1 if slow else windows, calls, warm=not slow))
    return plans


def measure(
    shop: Workshop,
    bench: Bench,
    task: TaskSpec,
    cases: Sequence[Case],
    entrants: Sequence[Entrant],
    effort: Effort,
    off: set[str],
) -> Times:
    """Time every entrant. Raises EntrantFailure for the first one that fails; the caller drops it and starts over."""
    run = _Run(shop, bench, task, cases, entrants, effort, off)
    plans = plan_cases(task, entrants, cases, bench, effort)
    if not bench.answer_is_final:
        plans = [without_repeats(plan, len(made)) for plan, made in zip(plans, entrants[0].examples, strict=True)]
    times = Times(plans=plans)
    for entrant in entrants:
        _make_arenas(run, entrant, times.plans)
    started = time.monotonic()
    try:
        processors = sorted(os.sched_getaffinity(0))
        first = secrets.randbelow(len(processors))
        visits = 0
        while not _settled(times, task, effort):
            processor = processors[(first + visits) % len(processors)] if bench.pinned else None
            _Visit(run, processor).take(times)
            visits += 1
    finally:
        times.device_s += time.monotonic() - started
        for entrant in entrants:
            for arena in entrant.arenas:
                arena.close()
            entrant.arenas = []
    return times


def _settled(times: Times, task: TaskSpec, effort: Effort) -> bool:
    taken = len(times.call_ns)
    if _hopeless(times, task, effort):
        return True
    if taken < effort.estimates or taken >= effort.most_estimates:
        return taken >= effort.most_estimates
    for place in range(1, len(times.call_ns[0])):
        interval = _ratio(times, task, 0, place)
        if interval.high / interval.low > 1 + 2 * effort.wanted:
            return False
    return True


def _hopeless(times: Times, task: TaskSpec, effort: Effort) -> bool:
    """Return whether the first program is certainly slower than its rival, the second, by the effort's margin."""
    if effort.hopeless is None or len(times.call_ns) < _LEAST_TO_GIVE_UP or len(times.call_ns[0]) != _WITH_RIVAL:
        return False
    return _ratio(times, task, 2, 1).high * effort.hopeless < 1


def _ratio(times: Times, task: TaskSpec, numerator: int, denominator: int) -> Figure:
    """Return time of one entrant / time of another, over the estimates."""
    return figure(
        [
            aggregate([a / b for a, b in zip(one[numerator], one[denominator], strict=True)], task.aggregate)
            for one in times.call_ns
        ]
    )


def without_repeats(plan: CasePlan, examples: int) -> CasePlan:
    """Return the plan with so few windows and calls that no process meets an example twice where enough were made.

    What a program has been given before it can answer from memory, whatever the address.
    """
    batches = 3 if plan.warm else 1
    calls = max(1, min(plan.calls, examples // batches))
    windows = (examples // calls - (1 if plan.warm else 0)) // 2 * 2
    return replace(plan, calls=calls, windows=min(plan.windows, max(2, windows)) if plan.warm else plan.windows)


def examples_wanted(plan: CasePlan) -> int:
    """Return how many examples let a program take an estimate without meeting one twice."""
    return plan.calls * (plan.windows + (1 if plan.warm else 0))


@dataclass(frozen=True)
class _Run:
    """What every visit needs."""

    shop: Workshop
    bench: Bench
    task: TaskSpec
    cases: Sequence[Case]
    entrants: Sequence[Entrant]
    effort: Effort
    off: set[str]


def _make_arenas(run: _Run, entrant: Entrant, plans: Sequence[CasePlan]) -> None:
    entrant.proven = [{} for _ in run.cases]
    for case, plan in zip(run.cases, plans, strict=True):
        entrant.arenas.append(run.bench.slots(lay_out(run.task, case), plan.calls))


class _Visit:
    """Fresh processes, which give one estimate or several."""

    def __init__(self, run: _Run, processor: int | None) -> None:
        self._run, self._bench, self._entrants = run, run.bench, run.entrants
        # One for all: whatever else uses that processor, or its twin on the same core, slows them alike.
        self._processor = processor
        # The baseline does between its windows what the programs do between theirs: it leaves the caches alike.
        self._any_returns = any(entrant.built.binding == "value" for entrant in run.entrants[1:])
        self._sessions: dict[int, Session] = {}
        self._proofs: dict[int, list[Proof]] = {}
        self._woken: list[int] = []
        self._begun: set[tuple[int, int]] = set()
        self._unseen: set[tuple[int, int]] = set()

    def take(self, times: Times) -> None:
        """Add estimates to `times`: as many as a visit has, fewer when no more are needed."""
        if self._processor is None:
            self._take(times)
            return
        # What the supervisor writes for a window is then in the caches of the processor that works on it.
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self._processor})
        try:
            self._take(times)
        finally:
            os.sched_setaffinity(0, before)

    def _take(self, times: Times) -> None:
        number, places = len(times.call_ns), range(len(self._entrants))
        try:
            opened = {place: self._open(place) for place in self._turn(number)}
            times.device_s -= sum(session.started_s for session in self._sessions.values())
            for taken in range(number, number + self._run.effort.rounds):
                times.call_ns.append(self._estimate(times.plans, self._turn(taken)))
                if _settled(times, self._run.task, self._run.effort):
                    break
            for place in places:
                self._look_over(place, opened[place], times)
        finally:
            for session in self._sessions.values():
                session.end()
        for place in self._turn(number):
            with _Blame(place):
                for proof in self._proofs[place]:
                    proof.settle()

    def _turn(self, number: int) -> list[int]:
        return [(number + step) % len(self._entrants) for step in range(len(self._entrants))]

    def _estimate(self, plans: Sequence[CasePlan], order: list[int]) -> list[list[float]]:
        """Return nanoseconds per entrant and case."""
        taken = [[0.0] * len(self._run.cases) for _ in self._entrants]
        for index in _shuffled(len(self._run.cases)):
            for place, best in self._measure_case(index, plans[index], order).items():
                taken[place][index] = best
        return taken

    def _open(self, place: int) -> int | None:
        entrant = self._entrants[place]
        held = sum(arena.slots * arena.layout.stride for arena in entrant.arenas)
        session = Session(self._run.shop, self._run.task, entrant.built, held, self._processor)
        self._sessions[place] = session
        with _Blame(place):
            session.load()
            for index, case in enumerate(self._run.cases):
                session.set_up(index, case, entrant.arenas[index])
        self._proofs[place] = [
            Proof(self._run.task, arena, examples, proven, entrant.trusted, self._run.off)
            for arena, examples, proven in zip(entrant.arenas, entrant.examples, entrant.proven, strict=True)
        ]
        return descendants.descriptors(session.child.pid)

    def _measure_case(self, index: int, plan: CasePlan, order: list[int]) -> dict[int, float]:
        for place in order:
            with _Blame(place):
                self._begin(place, index, plan)
        empty = self._empty(index)
        newest = {place: self._newest(place) for place in order}
        windows: dict[int, list[WindowTimes]] = {place: [] for place in order}
        for turn in range(plan.windows):
            for place in order if turn % 2 == 0 else reversed(order):
                with _Blame(place):
                    windows[place].append(self._window(place, index, plan.calls))
        best = {}
        handed = median(window.handed for window in windows[0])
        for place in order:
            with _Blame(place):
                self._proofs[place][index].check_clocks()
                self._check_newest(place, newest[place])
                paid = charged(windows[place], self._sessions[place].idle_ns(), handed)
            fixed = self._hand_over_ns(place, index)
            best[place] = self._bench.best([max(1.0, (took - empty) / plan.calls - fixed) for took in paid])
        return best

    def _newest(self, place: int) -> int | None:
        """Return the number of the newest process of a program's sandbox, which must be the only one there."""
        if self._bench.answer_is_final or self._entrants[place].trusted:
            return None
        child = self._sessions[place].child
        self._refuse_others(place, child.others(alone=False), "were running while it was timed")
        return child.newest()

    def _check_newest(self, place: int, before: int | None) -> None:
        """See whether a process or thread was started since: what it used and where it ran is on no clock."""
        now = None if before is None else self._sessions[place].child.newest()
        if before is not None and now is not None:
            self._refuse_others(place, now - before, "or threads were started in timed calls")

    def _refuse_others(self, place: int, others: int, what: str) -> None:
        if others and not self._entrants[place].trusted and rules.CHILDREN not in self._run.off:
            raise EntrantFailure(place, integrity(rules.CHILDREN, f"{others} more processes {what}"))

    def _begin(self, place: int, index: int, plan: CasePlan) -> None:
        """Fill the slots and call once to warm up, unless these processes have had this case before."""
        session = self._sessions[place]
        if (place, index) not in self._begun:
            self._begun.add((place, index))
            self._proofs[place][index].fill()
            self._bench.rest()
            session.prepare(index)
            self._unseen.add((place, index))
            if plan.warm:
                self._window(place, index, plan.calls)
        session.rest()

    def _hand_over_ns(self, place: int, index: int) -> float:
        entrant = self._entrants[place]
        if not self._sessions[place].returns and not entrant.trusted:
            return 0.0
        return self._bench.hand_over_ns(entrant.arenas[index].layout)

    def _window(self, place: int, index: int, calls: int) -> WindowTimes:
        session, proof = self._sessions[place], self._proofs[place][index]
        slots = proof.deal(calls)
        if proof.refilled:
            # In this order: a GPU writes the slots later than it was asked to, and scalars are read from them.
            self._bench.rest()
            session.prepare(index)
        woken = session.call(index, []).wall_ns if self._bench.answer_is_final else 0
        if self._entrants[place].trusted:
            self._woken.append(woken)
        handed = not session.returns and not self._entrants[place].trusted
        window = session.call(index, slots, proof.witness if handed else None)
        proof.answered(window, self._bench, max(0, woken - 2 * max(self._woken, default=woken)))
        collected = session.collect(copy=session.returns or (place == 0 and self._any_returns))
        # What a first window has started on a GPU may be a compiler's, which then sleeps.
        excused = self._bench.answer_is_final and (place, index) in self._unseen
        proof.take(slots, collected, [] if excused else self._bench.further_threads(session))
        if excused:
            self._unseen.discard((place, index))
            session.know_threads()
        return WindowTimes(window.cpu_ns, window.idle_cpu_ns, collected)

    def _empty(self, index: int) -> int:
        session = self._sessions[0]
        with _Blame(0):
            return session.empty_ns(index, _EMPTY_WINDOWS)

    def _look_over(self, place: int, opened: int | None, times: Times) -> None:
        session = self._sessions[place]
        now = descendants.descriptors(session.child.pid)
        if opened is not None and now is not None:
            times.descriptors[place] = max(times.descriptors.get(place, 0), now - opened)
        self._refuse_others(place, session.child.others(alone=False), "were running while it was timed")


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


def charged(windows: Sequence[WindowTimes], after: int, handed: float) -> list[float]:
    """Return what each window took with all that belongs to it. `after`: used since the last one.

    `handed`: what handing over the results of a window takes the baseline.
    """
    idle = [window.idle for window in windows] + [after]
    return [
        window.called + before + behind + max(0.0, window.handed - handed)
        for window, before, behind in zip(windows, idle, idle[1:], strict=False)
    ]


def _shuffled(count: int) -> list[int]:
    order = list(range(count))
    secrets.SystemRandom().shuffle(order)
    return order
