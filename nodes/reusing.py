"""Evaluations that another thread has paid for: found when task, program, protocol and environment agree.

Only provisional figures (effort `search`, no rival) and faults of the program itself are shared. A certification is
measured for the thread that asks: it decides on an incumbent, often against that thread's own. What may turn out
otherwise on another try (a timeout, a crash, an integrity rule that looks at clocks) is judged again.
"""

import asyncio

from checkpoints.ledger import EvaluationKey
from evaluators.digest import digest_json
from evaluators.evaluation import Effort, Evaluation
from evaluators.evaluator import Evaluator
from evaluators.solution import Solution
from evaluators.task import Task
from evaluators.worker.status import Status
from nodes.paid import PaidCalls

SHARED_EFFORT: Effort = "search"
SHARED = frozenset(
    {
        Status.PASSED,
        Status.BUILD_ERROR,
        Status.WRONG_SHAPE,
        Status.WRONG_DTYPE,
        Status.WRONG_LAYOUT,
        Status.WRONG_VALUES,
        Status.NON_FINITE,
    }
)
"""What the program's text decides, whatever else the machine is doing."""


async def find_shared(calls: PaidCalls, evaluator: Evaluator, task: Task, solution: Solution) -> Evaluation | None:
    """Return what another thread measured of the program, in this environment by this protocol; None: nothing.

    Raises StoreError, InfrastructureError.
    """
    environment = await evaluator.environment()
    key = _key(task, solution, evaluator.protocol(task), environment.fingerprint)
    known = await calls.ledger.find_evaluation(key)
    if known is None or known.thread == calls.thread:
        return None
    evaluation = Evaluation.model_validate(await asyncio.to_thread(calls.blobs.get_json, known.result))
    return evaluation.model_copy(update={"reused_from": known.thread})


async def share(calls: PaidCalls, task: Task, solution: Solution, evaluation: Evaluation) -> None:
    """Let other threads find the evaluation, which this thread has just paid for and recorded. Raises StoreError."""
    if evaluation.effort != SHARED_EFFORT or evaluation.status not in SHARED or evaluation.environment is None:
        return
    key = _key(task, solution, evaluation.protocol, evaluation.environment.fingerprint)
    await calls.ledger.record_evaluation(key, digest_json(evaluation.model_dump(mode="json")), calls.thread)


def _key(task: Task, solution: Solution, protocol: str, fingerprint: str) -> EvaluationKey:
    return EvaluationKey(
        task=task.digest,
        solution=solution.digest,
        protocol=protocol,
        effort=SHARED_EFFORT,
        fingerprint=fingerprint,
    )
