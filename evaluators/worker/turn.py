"""One process' turn on one case: its slots are filled, it is woken, called on them, and lets go of what it returned."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from evaluators.worker.bench import Bench
from evaluators.worker.charges import WindowTimes, left_excess, wake_excess
from evaluators.worker.oracle import Example
from evaluators.worker.proof import Proof
from evaluators.worker.session import Session

_EMPTY_WINDOWS, _NOTHINGS = 6, 3


@dataclass
class Started:
    """A process of an entrant, and what watches over its slots."""

    session: Session
    trusted: bool
    """Whether it is the baseline's."""
    proofs: list[Proof] = field(default_factory=list)
    """Per case."""
    descriptors: int | None = None
    """How many files were open after loading; None: not known."""
    begun: set[int] = field(default_factory=set)
    """Cases that it has had."""
    starting_s: float = 0.0
    """For how long its device's context started in this visit."""
    more: int | None = None
    """How many more files were open at the end of a visit."""
    wakes: list[int] = field(default_factory=list)
    """For how long it was woken, nanoseconds."""
    lefts: defaultdict[str, list[int]] = field(default_factory=partial(defaultdict, list))
    """How long after it had been stopped the device was free, nanoseconds, by what it had done before."""
    prepared_ns: int = 0
    """For how long it read the scalars of its slots since the last window."""

    def let_go(self) -> None:
        """Verify what has not been yet and hold no examples: there is no room for two sets."""
        for proof in self.proofs:
            proof.forget()

    def go_on_with(self, examples: Sequence[list[Example]]) -> None:
        """Fill the slots from these examples, per case, from now on."""
        for proof, made in zip(self.proofs, examples, strict=True):
            proof.go_on_with(made)


@dataclass(frozen=True)
class Turn:
    """What a turn needs."""

    bench: Bench
    process: Started
    baseline: Started
    """Of the same visit."""
    index: int
    """Of the case."""
    planned: bool
    """Whether the baseline is planned outside of its timed calls."""

    def begin(self, calls: int, *, warm: bool) -> None:
        """Call once to `warm` up, unless this process has had this case before."""
        if warm and self.index not in self.process.begun:
            self.window(calls, warm=True)
        self.process.session.rest()

    def window(self, calls: int, *, warm: bool = False) -> WindowTimes:
        """Take a window of so many calls; one to `warm` up does not count. Raises CandidateFailure."""
        process, on_gpu = self.process, self.bench.by_wall_clock
        session, proof = process.session, process.proofs[self.index]
        slots = proof.deal(calls)
        fill = proof.filling(self.bench) if proof.unfilled else None
        busy_ns = 0 if fill is None else self._prepare(fill)
        with session.running():
            if fill is not None:
                # A process that is stopped may have left something on a GPU that waits there for its slots.
                busy_ns += fill()
            if on_gpu:
                busy_ns += self._wake()
            window = session.call(self.index, slots, None if process.trusted else proof.witness)
            busy_ns += proof.answered(self.bench)
            collected = session.collect(check=on_gpu)
            # What a first window has started on a GPU may be a compiler's, which then sleeps.
            excused = on_gpu and self.index not in process.begun
            threads = [] if excused else self.bench.further_threads(session)
        busy_ns += self._left("calls") if on_gpu else 0
        outside = proof.note(window, busy_ns, warm=warm)
        process.begun.add(self.index)
        proof.take(slots, threads)
        prepared, process.prepared_ns = process.prepared_ns, 0
        if on_gpu:
            return WindowTimes(window.cpu_ns + outside, 0, (prepared, collected))
        # Whoever sleeps waits for somebody, who may be doing the work; what is not there yet may come when it is read.
        beside = prepared, collected, window.read_ns, max(0, window.asleep_ns or 0)
        return WindowTimes(window.cpu_ns, outside, beside)

    def nothing(self) -> tuple[int, int]:
        """Return what a window without calls takes, nanoseconds, and on a GPU what it takes to collect nothing."""
        session = self.process.session
        with session.running():
            empty = session.empty_ns(self.index, _EMPTY_WINDOWS)
            return empty, self._collect_nothing() if self.bench.by_wall_clock else 0

    def _collect_nothing(self) -> int:
        took = []
        for _ in range(_NOTHINGS):
            # The device turns to us, as it does when we look at what a window has left.
            self.bench.rest()
            took.append(self.process.session.collect(check=True))
        return int(median(took))

    def _prepare(self, fill: Callable[[], int]) -> int:
        """Have scalars read before the tensors are there, as no clock runs meanwhile; the baseline plans by these.

        Return for how long the program has kept the device busy meanwhile, nanoseconds.
        """
        session, trusted = self.process.session, self.process.trusted
        if not session.has_scalars:
            return 0
        if trusted:
            fill()
        # A GPU writes the slots later than it was asked to.
        busy_ns = self.bench.rest()
        with session.running():
            took = session.prepare(self.index)
        excused = self.planned and (trusted or self.bench.by_wall_clock)
        self.process.prepared_ns = 0 if excused else took
        return busy_ns + self._left("scalars")

    def _wake(self) -> int:
        """Have the device turn to the process' context; return for how long it may have worked there, nanoseconds."""
        self.process.wakes.append(self.process.session.call(self.index, []).wall_ns)
        return wake_excess(self.process.wakes[-1], self.baseline.wakes)

    def _left(self, after: str) -> int:
        """Return for how long what a process that was stopped has left keeps the device from others, nanoseconds.

        It would slow whoever is next.
        """
        self.process.lefts[after].append(self.bench.rest())
        return left_excess(self.process.lefts[after][-1], self.baseline.lefts[after])
