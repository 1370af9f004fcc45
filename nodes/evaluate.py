"""evaluate: one candidate becomes one result. Drafts without a program and repeats pass through without paying."""

from dataclasses import replace
from typing import Any

from evaluators.evaluation import Evaluation
from evaluators.solution import Solution
from evaluators.task import Task
from evaluators.worker.status import Status
from graph.config import SearchConfig
from graph.cycles import Result
from graph.state import Candidate
from nodes.judged import judge
from nodes.paid import PaidCalls
from nodes.programs import settings_of
from nodes.services import Services
from nodes.telling import Tell

_GOES_ON = (Status.PASSED, Status.NOT_TIMED)


async def evaluate(services: Services, candidate: Candidate, thread: str, tell: Tell) -> dict[str, Any]:
    """Return the state update with exactly one result."""
    result: Result
    paid: list[dict[str, Any]] = []
    environment: str | None = None
    if candidate["outcome"] != "evaluated" or candidate["solution"] is None:
        result = _passed_through(candidate)
    else:
        config = await services.config(thread, candidate["config"])
        task = await services.task(candidate["task"])
        solution = await services.solution(candidate["solution"])
        calls = services.calls(thread, candidate["round"], candidate["cycle"], candidate["sample"])
        evaluation = await _first_tier(services, config, replace(calls, spent=[]), task, solution)
        if evaluation is None:
            evaluator, reuse = services.make_evaluator(config), config.reuse_evaluations
            evaluation = await judge(calls, "evaluator", evaluator, task, solution, "search", reuse=reuse)
            environment = None if evaluation.environment is None else evaluation.environment.fingerprint
        paid = calls.spent
        result = await _result(services, candidate, solution, evaluation)
    tell(
        "result",
        cycle=result.cycle,
        sample=result.sample,
        status=result.label,
        message=result.message,
        objective=None if result.objective is None else result.objective.model_dump(),
    )
    entry = {
        "result": result.model_dump(mode="json"),
        "key": candidate["key"],
        "coder_calls": candidate["calls"],
        "evaluator_calls": paid,
        "environment": environment,
    }
    return {"results": [entry]}


async def _first_tier(
    services: Services, config: SearchConfig, calls: PaidCalls, task: Task, solution: Solution
) -> Evaluation | None:
    """Return the verdict of the first tier when the program goes no further; None when it does, or there is no tier."""
    if config.first_tier is None:
        return None
    tier = services.make_evaluator(config.with_options({"evaluator": config.first_tier}))
    verdict = await judge(calls, "first_tier", tier, task, solution, "check")
    return None if verdict.status in _GOES_ON else verdict


def _passed_through(candidate: Candidate) -> Result:
    if candidate["repeats"] is not None:
        earlier = Result.model_validate(candidate["repeats"])
        changes = {
            "cycle": candidate["cycle"],
            "sample": candidate["sample"],
            "outcome": "repeated",
            "message": candidate["message"],
            "final": candidate["final"],
            "repair": candidate["repair"],
        }
        return Result.model_validate({**earlier.model_dump(), **changes})
    return Result(
        cycle=candidate["cycle"],
        sample=candidate["sample"],
        outcome="unusable",
        message=candidate["message"],
        final=candidate["final"],
        repair=candidate["repair"],
    )


async def _result(services: Services, candidate: Candidate, solution: Solution, evaluation: Evaluation) -> Result:
    return Result(
        cycle=candidate["cycle"],
        sample=candidate["sample"],
        outcome="evaluated",
        status=evaluation.status,
        message=evaluation.message,
        rule=evaluation.rule,
        solution=candidate["solution"],
        evaluation=await services.keep(evaluation),
        objective=evaluation.objective,
        settings=settings_of(solution),
        final=candidate["final"],
        repair=candidate["repair"],
    )
