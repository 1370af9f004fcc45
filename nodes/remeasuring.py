"""Another environment (processor, GPU, driver, library versions): figures from before are measured again."""

from dataclasses import dataclass, field
from typing import Any

from evaluators.evaluator import Evaluator
from evaluators.task import Task
from graph.config import SearchConfig
from graph.cycles import Best, Cycle
from graph.state import Incumbent, SearchState
from nodes.incumbents import incumbent_of
from nodes.judged import judge
from nodes.paid import PaidCalls
from nodes.services import Services
from nodes.telling import Tell


@dataclass(frozen=True)
class Moved:
    """What holds under the environment in which this round's results were measured."""

    environment: str
    cycles: list[Cycle]
    incumbent: Incumbent | None
    spent: list[dict[str, Any]] = field(default_factory=list)


async def remeasure(  # noqa: PLR0913, PLR0917 - everything a round knows
    services: Services,
    state: SearchState,
    config: SearchConfig,
    task: Task,
    entries: list[dict[str, Any]],
    thread: str,
    round_: int,
    tell: Tell,
) -> Moved:
    """Return incumbent and active cycles, measured again when the environment has changed since the state's."""
    cycles = [Cycle.model_validate(cycle) for cycle in state["cycles"]]
    seen = {entry["environment"] for entry in entries} - {None, state["environment"]}
    if not seen:
        return Moved(state["environment"], cycles, state["incumbent"])
    environment = sorted(seen)[0]
    tell("environment", before=state["environment"], now=environment)
    evaluator = services.make_evaluator(config)
    calls = services.calls(thread, round_)
    incumbent = await _incumbent(services, calls, evaluator, task, state["incumbent"])
    fresh = [await _cycle(services, calls, evaluator, task, cycle) for cycle in cycles]
    return Moved(environment, fresh, incumbent, calls.spent)


async def _incumbent(
    services: Services, calls: PaidCalls, evaluator: Evaluator, task: Task, incumbent: Incumbent | None
) -> Incumbent | None:
    """Return the incumbent with its figure in the new environment; None when it no longer passes there."""
    if incumbent is None:
        return None
    solution = await services.solution(incumbent["solution"])
    verdict = await judge(calls, "remeasurement", evaluator, task, solution, "certify")
    if verdict.objective is None:
        return None
    blob = await services.keep(verdict)
    return incumbent_of(incumbent["solution"], blob, verdict, incumbent["node"], incumbent["round"])


async def _cycle(services: Services, calls: PaidCalls, evaluator: Evaluator, task: Task, cycle: Cycle) -> Cycle:
    """Return the cycle with its best program measured again; its parent's figure is no longer comparable."""
    best = None
    if cycle.best is not None:
        solution = await services.solution(cycle.best.solution)
        verdict = await judge(calls, "remeasurement", evaluator, task, solution, "search")
        if verdict.objective is not None:
            blob = await services.keep(verdict)
            best = Best.model_validate(
                {**cycle.best.model_dump(), "evaluation": blob, "objective": verdict.objective.model_dump()}
            )
    return Cycle.model_validate({**cycle.model_dump(), "best": best, "parent_objective": None})
