"""Watches over the timed calls of one program on one case: what each slot holds, and whether all of it was right."""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median_low
from typing import Any

from evaluators.worker import rules
from evaluators.worker.arena import random_output_offsets
from evaluators.worker.bench import Bench
from evaluators.worker.failure import CandidateFailure, integrity
from evaluators.worker.job import TaskSpec
from evaluators.worker.judge import judge
from evaluators.worker.oracle import Example
from evaluators.worker.session import Window
from evaluators.worker.slots import Bytes, Slots
from evaluators.worker.status import Status

_SAMPLES = 32
_IDLE_NS_PER_WINDOW = 80_000
_BUSY_NS_PER_WINDOW = 300_000
"""As much of a GPU's time outside of most windows is no accident any more. What is less is charged, see `note`."""
_IDLE_NS = 500_000
_IDLE_SHARE = 0.02
_ASLEEP_NS = 500_000
_CLOCK_NS = 200_000
_OTHERS_SHARE = 0.02
_LATE_S = 0.1
_MOST_KEPT = 256 << 20


def outside_ns(windows: Sequence[Window], *, on_gpu: bool) -> int:
    """Return what a program used outside of its windows, nanoseconds; 0 where that is no more than is usual.

    On a GPU it is as much in every window as in the middle one: each has been charged with what it used, and others who
    use the device or the host for a while look alike. A single window tells nothing.
    """
    used = sorted(window.idle_cpu_ns + window.late_cpu_ns for window in windows)
    total = median_low(used) * len(used) * (len(used) > 1) if on_gpu and used else sum(used)
    # By a usual window: one that was made long excuses nothing.
    busy = len(windows) * median_low([window.cpu_ns for window in windows] or [0])
    usual = _BUSY_NS_PER_WINDOW if on_gpu else _IDLE_NS_PER_WINDOW
    return total if total > _IDLE_NS + usual * len(windows) + _IDLE_SHARE * busy else 0


class Proof:
    """Deals slots in secret order, each once before any is dealt again; verifies what was written into them."""

    def __init__(self, task: TaskSpec, arena: Slots, examples: list[Example], trusted: bool, off: set[str]) -> None:
        """Watch `arena`, whose slots are filled from `examples`; `trusted`: nothing is judged."""
        self._task, self._arena, self._examples = task, arena, examples
        self._trusted, self._off = trusted, off
        self._holds: dict[int, Example] = {}
        self._unseen: list[Example] = []
        self._free: list[int] = []
        self._samples: list[tuple[Any, Bytes]] = []
        self._place: Any = None
        self._used: list[int] = []
        self._windows: list[Window] = []
        self._final = False
        self._kept: list[tuple[Example, dict[str, Bytes]]] = []
        self._kept_bytes = 0
        self._chosen = False

    def forget(self) -> None:
        """Verify what has not been yet, then let go of the examples. Raises CandidateFailure."""
        self.finish()
        self._examples, self._unseen, self._holds = [], [], {}

    def go_on_with(self, examples: list[Example]) -> None:
        """Fill the slots from these from now on."""
        self._examples, self._unseen, self._free = examples, [], []

    def _choose(self) -> None:
        """Choose fresh inputs for every slot, and write their scalars; nothing else is written before `filling`."""
        random = secrets.SystemRandom()
        for slot in range(self._arena.slots):
            if not self._unseen:
                self._unseen = random.sample(self._examples, len(self._examples))
            self._holds[slot] = self._unseen.pop()
            self._arena.fill_scalars(slot, self._holds[slot])
        self._free = random.sample(range(self._arena.slots), self._arena.slots)
        self._chosen = True

    @property
    def unfilled(self) -> bool:
        """Whether inputs were chosen that are not in the slots yet."""
        return self._chosen

    def filling(self, bench: Bench) -> Callable[[], int]:
        """Return what writes poison and the inputs that were chosen into every slot, and leaves the caches cold.

        That returns for how long others kept the device busy meanwhile, nanoseconds.
        """
        self._chosen = False
        return bench.filling(self._arena, [self._holds[slot] for slot in range(self._arena.slots)])

    def deal(self, count: int) -> list[int]:
        """Return slots for the next window, for which new inputs are chosen when there are none left."""
        if len(self._free) < count:
            self._choose()
        dealt, self._free = self._free[:count], self._free[count:]
        self._place = self._arena.locate(dealt, random_output_offsets(self._arena.layout, _SAMPLES))
        return dealt

    def answered(self, bench: Bench) -> int:
        """See what an answered window has left. Where the answer means that all is done (a GPU), it must stay so.

        Return for how long the program has kept the device busy since, nanoseconds.
        """
        self._final = bench.by_wall_clock
        if not self._final:
            return 0
        if not self._trusted:
            self.witness()
        return bench.rest()

    def note(self, window: Window, busy_ns: int, *, warm: bool) -> int:
        """Keep what a window took; return what it is charged with for work outside of it, nanoseconds.

        On a GPU that is nothing where it is no more than is usual. `busy_ns`: for how long the program kept the device
        to itself between the filling and the window and until it was stopped. `warm`: the window does not count.
        """
        if not self._final or self._trusted:
            self._windows.append(window)
            return window.idle_cpu_ns
        if not warm:
            self._windows.append(replace(window, idle_cpu_ns=busy_ns))
        return busy_ns if busy_ns > _IDLE_NS_PER_WINDOW else 0

    def take(self, slots: list[int], threads: Sequence[str]) -> None:
        """Note that a window's results have been collected. Raises CandidateFailure for what can be seen at once."""
        if self._trusted:
            if not self._final:
                for slot in slots:
                    self._keep(slot)
            return
        self._used += slots
        if threads:
            words = f"{len(threads)} more threads ({', '.join(threads)}) were running between calls"
            self._break(rules.THREADS, words)
        if not self._free:
            # Now, not before the next window: all programs' windows then follow right upon the writing of their slots.
            self.settle()

    def witness(self) -> None:
        """Take the secret sample of the slots dealt last, once: what it shows must not change any more."""
        if self._place is not None:
            self._samples.append((self._place, self._arena.sample(self._place)))
            self._place = None

    def check_clocks(self) -> None:
        """Compare the clocks over all windows of the case. Raises CandidateFailure."""
        if self._trusted:
            return
        self._check_samples()
        outside = outside_ns(self._windows, on_gpu=self._final)
        if outside:
            kind = "the device's" if self._final else "processor"
            self._break(rules.OFF_CLOCK, f"used {outside / 1e6:.1f} ms of {kind} time outside timed calls")
        self._check_one_thread(sum(window.cpu_ns for window in self._windows))

    def _check_one_thread(self, busy_ns: int) -> None:
        others = sum(window.other_threads_ns or 0 for window in self._windows)
        if others > _CLOCK_NS + _OTHERS_SHARE * busy_ns:
            share = 100 * others / busy_ns
            self._break(rules.THREADS, f"{share:.0f} % of the processor time was other threads' (one-thread protocol)")
        asleep = min((window.asleep_ns or 0 for window in self._windows), default=0)
        if asleep > _ASLEEP_NS and asleep > min(window.cpu_ns for window in self._windows):
            self._break(rules.THREADS, f"slept {asleep / 1e6:.1f} ms in every timed call: the work is done elsewhere")

    def finish(self) -> None:
        """Verify every output that has not been yet. Raises CandidateFailure."""
        self.settle()
        self.judge_kept()

    def settle(self) -> None:
        """Look at every slot written since the last time, before it is filled again. Raises CandidateFailure."""
        if self._trusted:
            return
        self._check_samples()
        used, self._used = self._used, []
        try:
            for slot in used:
                if self._final or not self._keep(slot):
                    self._verify(slot)
        except CandidateFailure:
            # Wrong because it is not finished yet? That is a rule of its own.
            time.sleep(_LATE_S)
            self._check_samples()
            raise
        self._samples = []
        overrun = self._arena.overrun()
        if overrun:
            raise CandidateFailure(
                Status.ILLEGAL_ACCESS, f"{overrun} bytes outside the arguments were overwritten in timed calls"
            )

    def _check_samples(self) -> None:
        for place, sample in self._samples:
            if (self._arena.sample(place) != sample).any():
                self._break(rules.DEFERRED, "an output changed after its call had been answered")

    def _keep(self, slot: int) -> bool:
        """Keep a copy of a slot's outputs until they are judged; return False, and keep none, if something is amiss.

        On a processor judging between windows would leave the caches colder than the baseline's, whose outputs nobody
        judges: what is done after its windows is this, too.
        """
        example, layout = self._holds[slot], self._arena.layout
        amiss = self._arena.changed_input(slot, example) is not None
        for field in layout.outputs:
            amiss |= self._arena.unwritten(self._arena.output_bytes(slot, field), field) > 0
        if amiss and not self._trusted:
            return False
        self._kept.append((example, self._arena.snapshot(slot)))
        self._kept_bytes += sum(field.nbytes for field in layout.outputs)
        if self._kept_bytes > _MOST_KEPT:
            self.judge_kept()
        return True

    def judge_kept(self) -> None:
        """Judge all outputs that were kept. Raises CandidateFailure."""
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        for example, outputs in () if self._trusted else kept:
            self._judge(outputs, example)

    def _judge(self, outputs: dict[str, Bytes], example: Example) -> None:
        try:
            judge(self._task, self._arena, outputs, example)
        except CandidateFailure as failure:
            failure.message = f"in a timed call: {failure.message}"
            raise

    def _verify(self, slot: int) -> None:
        example = self._holds[slot]
        outputs = {field.name: self._arena.output_bytes(slot, field) for field in self._arena.layout.outputs}
        self._judge(outputs, example)
        changed = self._arena.changed_input(slot, example)
        if changed is not None:
            raise CandidateFailure(Status.MUTATED_INPUT, f"the program wrote to its input {changed} in a timed call")

    def _break(self, rule: str, message: str) -> None:
        if rule not in self._off:
            raise integrity(rule, message)
