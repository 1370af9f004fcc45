"""One paid evaluation: the ledger's request, the call, and the record that comes back."""

import time
from typing import Any

from evaluators.cassette import CassetteEvaluator
from evaluators.evaluation import Effort, Evaluation
from evaluators.evaluator import Evaluator
from evaluators.recording import Place, evaluation_request
from evaluators.solution import Solution
from evaluators.task import Task
from nodes.deferred import DeferredEvaluator
from nodes.paid import PaidCalls
from nodes.reusing import SHARED_EFFORT, find_shared, share


async def judge(  # noqa: PLR0913, PLR0917 - one call of the evaluator's seam plus where it is paid
    calls: PaidCalls,
    role: str,
    evaluator: Evaluator,
    task: Task,
    solution: Solution,
    effort: Effort,
    rival: Solution | None = None,
    turn: int = 0,
    *,
    reuse: bool = False,
) -> Evaluation:
    """Return the evaluation of `solution`, from the ledger when it was paid for before.

    An evaluation that is deferred pauses the run until it is on record. With `reuse`, also what another thread has
    paid for, where that may be shared; the evaluation then says so.
    """
    recorded = isinstance(evaluator, CassetteEvaluator)
    if isinstance(evaluator, CassetteEvaluator):
        evaluator = evaluator.at(Place(role=role, round=calls.round, cycle=calls.cycle, sample=calls.sample, turn=turn))
    if isinstance(evaluator, DeferredEvaluator):
        await evaluator.require(calls, role, task, solution, effort, rival, turn)
    request = evaluation_request(task, solution, effort, rival)
    shareable = effort == SHARED_EFFORT and rival is None and not recorded
    measured = False

    async def call() -> tuple[Any, dict[str, Any]]:
        nonlocal measured
        started = time.monotonic()
        if reuse and shareable:
            known = await find_shared(calls, evaluator, task, solution)
            if known is not None:
                spend = {"device_s": 0.0, "wall_s": round(time.monotonic() - started, 6), "reused": 1}
                return known.model_dump(mode="json"), spend
        measured = True
        evaluation = await evaluator.evaluate(task, solution, effort, rival)
        spend = {"device_s": evaluation.device_s, "wall_s": round(time.monotonic() - started, 6)}
        return evaluation.model_dump(mode="json"), spend

    evaluation = Evaluation.model_validate(await calls.once(role, request, call, turn))
    if measured and shareable:
        await share(calls, task, solution, evaluation)
    return evaluation
