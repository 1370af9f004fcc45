"""The secret examples of one timed run: as many as its plans want and memory allows, and new ones between estimates."""

from collections.abc import Sequence

import torch

from evaluators.worker.bench import Limits
from evaluators.worker.failure import TaskFault
from evaluators.worker.job import Case, TaskSpec
from evaluators.worker.layout import lay_out
from evaluators.worker.oracle import Example, Oracle
from evaluators.worker.plans import CasePlan, examples_wanted, shares
from evaluators.worker.pool import Pool


class Supply:
    """Gives every program of a run the same examples."""

    def __init__(self, pool: Pool, oracle: Oracle, task: TaskSpec, cases: Sequence[Case], limits: Limits) -> None:
        """Keep what is made in `pool`."""
        self._pool, self._oracle, self._task, self._cases, self._limits = pool, oracle, task, cases, limits

    def first(self, plans: Sequence[CasePlan], *, fresh: bool) -> list[list[Example]]:
        """Return examples per case, all new when `fresh`."""
        strides = [lay_out(self._task, case).stride for case in self._cases]
        counts = shares(plans, strides, self._limits.pool_bytes, self._limits.least_windows)
        least = self._limits.least_windows + 1
        return self._made(counts, [min(least, count) for count in counts], fresh=fresh)

    def again(self, plans: Sequence[CasePlan]) -> list[list[Example]]:
        """Return examples per case for new processes, as many as an estimate takes; new ones where those must be."""
        counts = [examples_wanted(plan) for plan in plans]
        return self._made(counts, counts, fresh=self._limits.anew)

    def is_quick(self, plans: Sequence[CasePlan]) -> bool:
        """Return whether new examples for one more estimate are made sooner than new processes are ready."""
        seconds = (
            self._pool.making_s(self._task, case, count)
            for case, count in zip(self._cases, _for_windows(plans), strict=True)
        )
        return sum(seconds) <= self._limits.ready_s

    def more(self, plans: Sequence[CasePlan]) -> list[list[Example]] | None:
        """Return new examples per case, enough for one more estimate; None when the programs leave no room for them.

        Nothing should hold those before.
        """
        counts = _for_windows(plans)
        try:
            return self._made(counts, counts, fresh=True)
        except TaskFault as fault:
            if isinstance(fault.__cause__, torch.OutOfMemoryError):
                return None
            raise

    def _made(self, counts: Sequence[int], leasts: Sequence[int], *, fresh: bool) -> list[list[Example]]:
        return [
            self._pool.examples(self._task, self._oracle, case, count, least, fresh=fresh)
            for case, count, least in zip(self._cases, counts, leasts, strict=True)
        ]


def _for_windows(plans: Sequence[CasePlan]) -> list[int]:
    return [plan.calls * plan.windows for plan in plans]
