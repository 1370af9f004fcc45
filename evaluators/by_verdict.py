"""Which evaluator judges a task: ours, the one that the task brings, or that of its format's protocol."""

from collections.abc import Sequence

from evaluators.evaluation import Comparison, Effort, Environment, Evaluation
from evaluators.evaluator import Evaluator
from evaluators.fib_verdict import FibVerdicts
from evaluators.solution import Solution
from evaluators.task import Task
from evaluators.user_verdict import UserVerdicts


class ByVerdict:
    """The evaluator of this machine for every task: our own judges, unless the task says otherwise."""

    def __init__(self, own: Evaluator) -> None:
        """Judge with `own`, an evaluator, what is ours to judge."""
        self._own = own
        self._users = UserVerdicts(own.environment)
        self._fib = FibVerdicts(own.environment)

    async def evaluate(
        self, task: Task, solution: Solution, effort: Effort, rival: Solution | None = None
    ) -> Evaluation:
        """See `Evaluator`."""
        return await self._for(task).evaluate(task, solution, effort, rival)

    async def compare(self, task: Task, solutions: Sequence[Solution], effort: Effort) -> Comparison:
        """See `Evaluator`."""
        return await self._for(task).compare(task, solutions, effort)

    def protocol(self, task: Task) -> str:
        """See `Evaluator`."""
        return self._for(task).protocol(task)

    async def environment(self) -> Environment:
        """See `Evaluator`."""
        return await self._own.environment()

    async def close(self) -> None:
        """See `Evaluator`."""
        await self._users.close()
        await self._fib.close()
        await self._own.close()

    def _for(self, task: Task) -> Evaluator:
        if task.verdict == "fib":
            return self._fib
        return self._users if task.brings_judge else self._own
