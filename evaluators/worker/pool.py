"""Secret examples for timing, kept between evaluations of one task (programs never live that long)."""

import math
import statistics
import time
from collections import OrderedDict

from evaluators.worker.job import Case, TaskSpec
from evaluators.worker.oracle import Example, Oracle


class Pool:
    """Examples by task and case; the oldest cases are dropped when they take too much memory."""

    def __init__(self, nbytes: int, seconds: float) -> None:
        """Keep about `nbytes` of the device's memory, a quarter more while new ones are made.

        `seconds`: how long making those of a case at once may take before fewer are made than were wanted.
        """
        self._most, self._seconds = nbytes * 5 // 4, seconds
        self._kept: OrderedDict[tuple[str, str], list[Example]] = OrderedDict()
        self._each_s: dict[tuple[str, str], float] = {}

    def examples(
        self, task: TaskSpec, oracle: Oracle, case: Case, count: int, least: int, *, fresh: bool
    ) -> list[Example]:
        """Return up to `count` examples: `least` of them in any case, more as long as making them takes not too long.

        One is replaced at each visit, all when `fresh`.
        """
        key = (task.digest, case.name)
        kept = self._kept.pop(key, [])[1:]
        if fresh:
            kept = []
        until, each = time.monotonic() + self._seconds, list[float]()
        while len(kept) < count and (len(kept) < least or time.monotonic() < until):
            started = time.monotonic()
            kept.append(oracle.example(case))
            each.append(time.monotonic() - started)
        if each:
            # What is loaded for the first one is not loaded again.
            self._each_s[key] = statistics.median(each)
        self._kept[key] = kept
        self._trim(key)
        return kept[:count] if len(kept) > count else kept

    def making_s(self, task: TaskSpec, case: Case, count: int) -> float:
        """Return about how long it takes to make so many examples, seconds; without end where none was made yet."""
        return count * self._each_s.get((task.digest, case.name), math.inf)

    def clear(self) -> None:
        """Let go of all."""
        self._kept.clear()

    def _trim(self, keep: tuple[str, str]) -> None:
        while len(self._kept) > 1 and self._held() > self._most:
            oldest = next(key for key in self._kept if key != keep)
            del self._kept[oldest]

    def _held(self) -> int:
        return sum(example.nbytes for examples in self._kept.values() for example in examples)
