"""Secret examples for timing, kept between evaluations of one task (programs never live that long)."""

import time
from collections import OrderedDict

from evaluators.worker.job import Case, TaskSpec
from evaluators.worker.oracle import Example, Oracle

_SECONDS = 0.6
_LEAST = 3


class Pool:
    """Examples by task and case; the oldest cases are dropped when they take too much memory."""

    def __init__(self, nbytes: int) -> None:
        """Keep about `nbytes` of the device's memory, half as much again while new ones are made."""
        self._most = nbytes * 3 // 2
        self._kept: OrderedDict[tuple[str, str], list[Example]] = OrderedDict()

    def examples(self, task: TaskSpec, oracle: Oracle, case: Case, count: int, *, fresh: bool) -> list[Example]:
        """Return up to `count` examples (at least 3; fewer than asked when making them takes too long).

        One is replaced at each visit, all when `fresh`.
        """
        key = (task.digest, case.name)
        kept = [] if fresh else self._kept.pop(key, [])[1:]
        started = time.monotonic()
        while len(kept) < count and (len(kept) < _LEAST or time.monotonic() - started < _SECONDS):
            kept.append(oracle.example(case))
        self._kept[key] = kept
        self._trim(key)
        return kept[:count] if len(kept) > count else kept

    def clear(self) -> None:
        """Let go of all."""
        self._kept.clear()

    def _trim(self, keep: tuple[str, str]) -> None:
        while len(self._kept) > 1 and self._held() > self._most:
            oldest = next(key for key in self._kept if key != keep)
            del self._kept[oldest]

    def _held(self) -> int:
        return sum(example.nbytes for examples in self._kept.values() for example in examples)
