"""`deferred`: another machine judges, when somebody gets there. The run pauses at a LangGraph interrupt.

What the interrupt carries is `DeferredQuestion` as JSON. It is not answered by a value: what the other machine found is
written into the ledger (nodes/delivering.py), where the node, run again from its top, finds it and does not ask.
"""

import asyncio
from collections.abc import Sequence
from typing import NoReturn

from langgraph.types import interrupt

from evaluators.errors import TaskError, UsageError
from evaluators.evaluation import Comparison, Effort, Environment, Evaluation
from evaluators.jobs import reject_unsupported
from evaluators.objective import Record
from evaluators.recording import evaluation_request
from evaluators.solution import Solution
from evaluators.task import Task
from nodes.deferral import DeferredQuestion
from nodes.paid import PaidCalls


class DeferredEvaluator:
    """Implements evaluators.evaluator.Evaluator by asking for the evaluation. Works within a node of the graph only."""

    async def require(
        self,
        calls: PaidCalls,
        role: str,
        task: Task,
        solution: Solution,
        effort: Effort,
        rival: Solution | None,
        turn: int,
    ) -> None:
        """Return when the evaluation is on record.

        Raises langgraph.errors.GraphInterrupt, which pauses the run; TaskError when no bundle can carry the task.
        """
        if task.verdict != "harness":
            raise TaskError(
                f"task {task.name} brings its own evaluator or protocol, which no bundle carries: judge it with `local`"
            )
        reject_unsupported(task, [solution] if rival is None else [solution, rival])
        known = await calls.ledger.find(calls.key(role, evaluation_request(task, solution, effort, rival), turn))
        if known is not None and known.result is not None:
            return

        async def keep(record: Record) -> str:
            return await asyncio.to_thread(calls.blobs.put_json, record.model_dump(mode="json"))

        question = DeferredQuestion(
            role=role,
            round=calls.round,
            cycle=calls.cycle,
            sample=calls.sample,
            turn=turn,
            effort=effort,
            task=await keep(task),
            solution=await keep(solution),
            rival=None if rival is None else await keep(rival),
        )
        while True:  # A value that somebody resumed with is no evaluation: ask again.
            interrupt(question.model_dump(mode="json"))

    async def evaluate(
        self, task: Task, solution: Solution, effort: Effort, rival: Solution | None = None
    ) -> Evaluation:
        """Raise UsageError: there is no run that could wait."""
        _refuse()

    async def compare(self, task: Task, solutions: Sequence[Solution], effort: Effort) -> Comparison:
        """Raise UsageError: there is no run that could wait."""
        _refuse()

    def protocol(self, task: Task) -> str:
        """Return that it is not known before the first result."""
        return ""

    async def environment(self) -> Environment:
        """Return one without any fact: where a run will be judged is not known before the first result."""
        return Environment(device="", torch="")

    async def close(self) -> None:
        """Do nothing: there are no processes."""


def _refuse() -> NoReturn:
    raise UsageError("`deferred` judges the programs of a run only: choose another evaluator for programs by hand")
