"""The seam: whatever can turn a task and a program into an evaluation."""

from collections.abc import Sequence
from typing import Protocol

from evaluators.evaluation import Comparison, Effort, Environment, Evaluation
from evaluators.solution import Solution
from evaluators.task import Task


class Evaluator(Protocol):
    """Judges programs. A program's failure is an `Evaluation`; only a harness failure raises.

    Raises (every method): evaluators.errors.InfrastructureError when the harness or the device failed, with what
    to do; TaskError when the task itself cannot be run (its reference raises).
    """

    async def evaluate(
        self, task: Task, solution: Solution, effort: Effort, rival: Solution | None = None
    ) -> Evaluation:
        """Build, check and (by `effort`) time `solution`; with `rival`, interleave the two and fill versus_rival."""
        ...

    async def compare(self, task: Task, solutions: Sequence[Solution], effort: Effort) -> Comparison:
        """Check every program and time those that pass in one interleaved run."""
        ...

    def protocol(self, task: Task) -> str:
        """Return the name and version of the timing protocol by which a search's figures for `task` are taken."""
        ...

    async def environment(self) -> Environment:
        """Return what figures measured here depend on."""
        ...

    async def close(self) -> None:
        """End the processes that this evaluator started."""
        ...
