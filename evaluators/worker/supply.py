"""The secret examples of one timed run: as many as its plans want and memory allows, and always new ones."""

import time
from collections.abc import Sequence

import torch

from evaluators.worker.bench import Limits
from evaluators.worker.failure import TaskFault
from evaluators.worker.job import Case, TaskSpec
from evaluators.worker.layout import lay_out
from evaluators.worker.oracle import Example, Oracle
from evaluators.worker.plans import CasePlan, examples_wanted, shares


class Supply:
    """Makes examples for every program of a run; keeps none."""

    def __init__(self, oracle: Oracle, task: TaskSpec, cases: Sequence[Case], limits: Limits) -> None:
        """Make nothing yet."""
        self._oracle, self._task, self._cases, self._limits = oracle, task, cases, limits

    def first(self, plans: Sequence[CasePlan]) -> list[list[Example]]:
        """Return examples per case: what the plans want, fewer where making them takes too long."""
        strides = [lay_out(self._task, case).stride for case in self._cases]
        counts = shares(plans, strides, self._limits.pool_bytes, self._limits.least_windows)
        least = self._limits.least_windows + 1
        return self._made(counts, [min(least, count) for count in counts])

    def for_new_processes(self, plans: Sequence[CasePlan]) -> list[list[Example]]:
        """Return examples per case, as many as an estimate takes with its first windows, which do not count."""
        counts = [examples_wanted(plan) for plan in plans]
        return self._made(counts, counts)

    def more(self, plans: Sequence[CasePlan]) -> list[list[Example]] | None:
        """Return examples per case, enough for one more estimate; None when the programs leave no room for them.

        Nothing should hold those before.
        """
        counts = [plan.calls * plan.windows for plan in plans]
        try:
            return self._made(counts, counts)
        except TaskFault as fault:
            if isinstance(fault.__cause__, torch.OutOfMemoryError):
                return None
            raise

    def _made(self, counts: Sequence[int], leasts: Sequence[int]) -> list[list[Example]]:
        return [
            self._examples(case, count, least) for case, count, least in zip(self._cases, counts, leasts, strict=True)
        ]

    def _examples(self, case: Case, count: int, least: int) -> list[Example]:
        """Return up to `count` examples: `least` of them in any case, more while making them takes not too long."""
        made, until = list[Example](), time.monotonic() + self._limits.examples_s
        while len(made) < count and (len(made) < least or time.monotonic() < until):
            made.append(self._oracle.example(case))
        return made
