"""A visit of all programs that are timed: fresh processes, which give one estimate or several."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from evaluators.worker import descendants, rules
from evaluators.worker.bench import Bench, Effort
from evaluators.worker.build import Built
from evaluators.worker.charges import NONE, ON_GPU, WindowTimes, charged, excused
from evaluators.worker.failure import CandidateFailure, HarnessFault, integrity
from evaluators.worker.job import Case, TaskSpec
from evaluators.worker.oracle import Example
from evaluators.worker.plans import CasePlan
from evaluators.worker.proof import Proof
from evaluators.worker.quick import quick
from evaluators.worker.seats import Seats
from evaluators.worker.session import Session, Workshop
from evaluators.worker.slots import Slots
from evaluators.worker.supply import Supply
from evaluators.worker.turn import Started, Turn


@dataclass
class Entrant:
    """One program that is timed. The first of a run is the baseline, which is trusted and not judged."""

    built: Built
    call_ns: list[int]
    """About what a call takes, per case."""
    examples: list[list[Example]]
    """Per case: the secret examples that all entrants are given."""
    arenas: list[Slots] = field(default_factory=list)

    @property
    def trusted(self) -> bool:
        """Whether this is the baseline."""
        return self.built.binding == "baseline"


@dataclass(frozen=True)
class Run:
    """What every visit of a run needs."""

    shop: Workshop
    bench: Bench
    task: TaskSpec
    cases: Sequence[Case]
    entrants: Sequence[Entrant]
    effort: Effort
    off: set[str]
    supply: Supply
    planned: bool
    """Whether the baseline is planned outside of its timed calls."""


class EntrantFailure(Exception):
    """One entrant failed while it was timed."""

    def __init__(self, entrant: int, failure: CandidateFailure) -> None:
        """Name the entrant by its place."""
        super().__init__(failure.message)
        self.entrant, self.failure = entrant, failure


def hand(entrants: Sequence[Entrant], examples: list[list[Example]]) -> None:
    """Give every entrant these examples, per case."""
    for entrant in entrants:
        entrant.examples = examples


class Visit:
    """Processes of all entrants, one each."""

    def __init__(self, run: Run, number: int, seats: Seats, kept: dict[int, Started]) -> None:
        """Start nothing yet.

        Args:
            run: What is timed.
            number: How many estimates there are before this visit.
            seats: Where processes run.
            kept: Processes that stay from one visit to the next, by place; the baseline's is put there where it may.
        """
        self._run, self._bench, self._entrants = run, run.bench, run.entrants
        self._number, self._kept = number, kept
        self._seats = seats
        # The baseline does between its windows what the programs do between theirs: it leaves the caches alike.
        self._any_returns = any(entrant.built.binding == "value" for entrant in run.entrants[1:])
        self._slack = ON_GPU if run.bench.by_wall_clock else NONE
        self._started: dict[int, Started] = {}

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Start the processes, and end them; then verify what is left to be verified."""
        try:
            with self._seats.taken():
                for place in self._turn(self._number):
                    self._open(place)
                yield
                for place in self._started:
                    self._look_over(place)
        finally:
            for place, process in self._started.items():
                if place not in self._kept:
                    process.session.end()
        for place, process in self._started.items():
            with _Blame(place):
                for proof in process.proofs:
                    proof.finish()

    @property
    def starting_s(self) -> float:
        """For how long the device's contexts started, seconds."""
        return sum(process.starting_s for process in self._started.values())

    def more_descriptors(self) -> dict[int, int]:
        """Return how many more files each entrant had open at the end than after loading, where that is known."""
        return {place: process.more for place, process in self._started.items() if process.more is not None}

    def renewed(self, plans: Sequence[CasePlan]) -> bool:
        """Give all processes inputs that they have not seen, and return True, if there is room for them."""
        for place, process in self._started.items():
            with _Blame(place):
                process.let_go()
        hand(self._entrants, [])
        examples = self._run.supply.more(plans)
        if examples is None:
            return False
        hand(self._entrants, examples)
        for process in self._started.values():
            process.go_on_with(examples)
        return True

    def estimate(self, plans: Sequence[CasePlan], number: int) -> list[list[float]]:
        """Return nanoseconds of a call, per entrant and case; `number`: how many estimates there are already."""
        if not self._bench.pinned:
            self._move(quick(self._seats.programs))
        taken = [[0.0] * len(self._run.cases) for _ in self._entrants]
        for index in _shuffled(len(self._run.cases)):
            for place, best in self._measure_case(index, plans[index], self._turn(number)).items():
                taken[place][index] = best
        return taken

    def _move(self, processors: frozenset[int]) -> None:
        for process in self._started.values():
            process.session.move(processors)

    def _turn(self, number: int) -> list[int]:
        return [(number + step) % len(self._entrants) for step in range(len(self._entrants))]

    def _open(self, place: int) -> None:
        """Start an entrant's process, unless it was kept."""
        entrant = self._entrants[place]
        if place in self._kept:
            process = self._started[place] = self._kept[place]
            process.starting_s = 0.0
            process.session.renew()
            process.go_on_with(entrant.examples)
            return
        held = sum(arena.slots * arena.layout.stride for arena in entrant.arenas)
        for arena in entrant.arenas:
            # Otherwise it would show the new process what the one before it was given, and what that answered.
            arena.wipe()
        with _Blame(place):
            self._bench.rest()
            wanted = entrant.built.binding == "value" or (entrant.trusted and self._any_returns)
            session = Session(self._run.shop, self._run.task, entrant.built, held, self._seats.programs, results=wanted)
            self._started[place] = Started(session, entrant.trusted)
            session.load()
            for index, case in enumerate(self._run.cases):
                session.set_up(index, case, entrant.arenas[index])
            session.stop()
        self._started[place].proofs = [
            Proof(self._run.task, arena, examples, entrant.trusted, self._run.off)
            for arena, examples in zip(entrant.arenas, entrant.examples, strict=True)
        ]
        self._started[place].descriptors = descendants.descriptors(session.child.pid)
        if entrant.trusted and not self._bench.pinned:
            self._kept[place] = self._started[place]
        self._started[place].starting_s = session.started_s

    def _measure_case(self, index: int, plan: CasePlan, order: list[int]) -> dict[int, float]:
        for place in order:
            with _Blame(place):
                self._at(place, index).begin(plan.calls_of(place), warm=plan.warm_of(place))
        with _Blame(0):
            empty, bare = self._at(0, index).nothing()
        newest = {place: self._newest(place) for place in order}
        windows: dict[int, list[WindowTimes]] = {place: [] for place in order}
        for turn in range(plan.windows):
            for place in order if turn % 2 == 0 else reversed(order):
                with _Blame(place):
                    if turn < plan.windows_of(place):
                        windows[place].append(self._at(place, index).window(plan.calls_of(place)))
        best = {}
        for place in order:
            with _Blame(place):
                self._started[place].proofs[index].check_clocks()
                self._started[place].proofs[index].judge_kept()
                self._check_newest(place, newest[place])
                calls = plan.calls_of(place)
                free = excused(windows[0], bare, self._more(place, calls / plan.calls_of(0)))
                paid = charged(windows[place], self._started[place].session.idle_ns(), free, self._slack)
            fixed = self._hand_over_ns(place, index)
            best[place] = self._bench.best([max(1.0, (took - empty) / calls - fixed) for took in paid])
        return best

    def _more(self, place: int, ratio: float) -> tuple[float, ...]:
        """Return how many times what the baseline does beside its calls: it makes that share of a program's calls."""
        if not self._bench.by_wall_clock:
            return ()
        return ratio, ratio if self._started[place].session.copies else 0.0

    def _newest(self, place: int) -> int | None:
        """Return the number of the newest process of a program's sandbox, which must be the only one there."""
        if self._bench.by_wall_clock or self._entrants[place].trusted:
            return None
        child = self._started[place].session.child
        self._refuse_others(place, child.others(alone=False), "were running while it was timed")
        return child.newest()

    def _check_newest(self, place: int, before: int | None) -> None:
        """See whether a process or thread was started since: what it used and where it ran is on no clock."""
        now = None if before is None else self._started[place].session.child.newest()
        if before is not None and now is None:
            raise HarnessFault("the processes of a sandbox cannot be counted any more")
        if before is not None and now is not None:
            self._refuse_others(place, now - before, "or threads were started in timed calls")
            # Whoever starts enough of them is given the same number again.
            others = self._started[place].session.child.others(alone=False)
            self._refuse_others(place, others, "were running while it was timed")

    def _refuse_others(self, place: int, others: int, what: str) -> None:
        if others and not self._entrants[place].trusted and rules.CHILDREN not in self._run.off:
            raise EntrantFailure(place, integrity(rules.CHILDREN, f"{others} more processes {what}"))

    def _at(self, place: int, index: int) -> Turn:
        return Turn(self._bench, self._started[place], self._started[0], index, self._run.planned)

    def _hand_over_ns(self, place: int, index: int) -> float:
        layout = self._entrants[place].arenas[index].layout
        return self._bench.hand_over_ns(layout) if self._started[place].session.copies else 0.0

    def _look_over(self, place: int) -> None:
        process = self._started[place]
        now = descendants.descriptors(process.session.child.pid)
        if process.descriptors is not None and now is not None:
            process.more = now - process.descriptors
        self._refuse_others(place, process.session.child.others(alone=False), "were running while it was timed")


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
