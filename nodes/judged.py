"""One paid evaluation: the ledger's request, the call, and the record that comes back."""

import time
from typing import Any

from evaluators.cassette import CassetteEvaluator
from evaluators.evaluation import Effort, Evaluation
from evaluators.evaluator import Evaluator
from evaluators.recording import Place, evaluation_request
from evaluators.solution import Solution
from evaluators.task import Task
from nodes.paid import PaidCalls


async def judge(  # noqa: PLR0913, PLR0917 - one call of the evaluator's seam plus where it is paid
    calls: PaidCalls,
    role: str,
    evaluator: Evaluator,
    task: Task,
    solution: Solution,
    effort: Effort,
    rival: Solution | None = None,
    turn: int = 0,
) -> Evaluation:
    """Return the evaluation of `solution`, from the ledger when it was paid for before."""
    if isinstance(evaluator, CassetteEvaluator):
        evaluator = evaluator.at(Place(role=role, round=calls.round, cycle=calls.cycle, sample=calls.sample, turn=turn))
    request = evaluation_request(task, solution, effort, rival)

    async def call() -> tuple[Any, dict[str, Any]]:
        started = time.monotonic()
        evaluation = await evaluator.evaluate(task, solution, effort, rival)
        spend = {"device_s": evaluation.device_s, "wall_s": round(time.monotonic() - started, 6)}
        return evaluation.model_dump(mode="json"), spend

    return Evaluation.model_validate(await calls.once(role, request, call, turn))
