"""update_world_model: the harness attaches evidence, the planner proposes edits, valid ones are committed."""

from typing import Any

from checkpoints.logs import Log
from evaluators.task import Task
from graph.calibration import calibrate
from graph.config import SearchConfig
from graph.cycles import Cycle, Result, evidence_of
from graph.policies import frontier_digest
from graph.state import SearchState
from graph.stopping import budget_spent, room
from graph.transitions import settle
from graph.world_model import WorldModel
from nodes.accounts import add_calls
from nodes.committing import Committed, commit
from nodes.planner import CycleReport, PlannerView
from nodes.reviewing import review
from nodes.services import Services, language_of
from nodes.telling import Tell


async def update_world_model(services: Services, state: SearchState, thread: str, tell: Tell) -> dict[str, Any]:
    """Return the tree after the ended cycles (all of them when the search stops), and the cycles that go on."""
    config = await services.config(thread, state["config"])
    model = await services.tree(state["tree"])
    cycles = [Cycle.model_validate(cycle) for cycle in state["cycles"]]
    # A budget may have been lowered since the round was folded.
    wall_s = state["spend"]["wall_s"] + services.elapsed_s(thread)
    stop = state["stop"] or budget_spent(config, {**state["spend"], "wall_s": wall_s})
    stopping = stop is not None
    done = [cycle for cycle in cycles if cycle.ended or stopping]
    for cycle in done:
        evidence = evidence_of(cycle, state["round"], model.goal)
        model = settle(model, cycle.node, evidence, ended=bool(cycle.ended))
        node = model.node(cycle.node)
        tell("settled", cycle=cycle.id, node=node.id, status=node.status, gain=evidence.gain, ended=cycle.ended)
    calls = services.calls(thread, state["round"])
    calls.purse = services.purse(config, state["spend"], thread, state["round"], "planner")
    committed = Committed(model, state["edits"], True, ())
    if done and not stopping and not config.frozen_world_model:
        task = await services.task(state["task"])
        view = await _view(services, state, config, task, model, done)
        proposal = await services.make_planner(config).revise(view, calls)
        seen = await review(config, model, proposal, services.calls(thread, state["round"]))
        committed = await commit(
            services, model, seen.batch, state["edits"], state["round"], seen.note, tell, seen.refused
        )
    return {
        "tree": await services.save_tree(committed.model),
        "frontier": frontier_digest(committed.model),
        "cycles": [] if stopping else [cycle.model_dump(mode="json") for cycle in cycles if not cycle.ended],
        "edits": committed.log,
        "spend": add_calls(state["spend"], "planner", calls.spent),
        "draws": [],
        "stop": stop,
    }


async def _view(
    services: Services, state: SearchState, config: SearchConfig, task: Task, model: WorldModel, done: list[Cycle]
) -> PlannerView:
    return PlannerView(
        task=task,
        language=language_of(config, task),
        config=config,
        model=model,
        calibration=calibrate(model),
        round=state["round"],
        evaluations_left=room(state["spend"], config),
        reports=await _reports(services, state["attempts"], done),
        program=services.load_solution,
        evaluation=services.load_evaluation,
        incumbent=state["incumbent"],
    )


async def _reports(services: Services, attempts: Log, done: list[Cycle]) -> tuple[CycleReport, ...]:
    wanted = {number for cycle in done for number in cycle.attempts}
    found = {entry["number"]: Result.model_validate(entry["result"]) for entry in await services.read(attempts, wanted)}
    return tuple(CycleReport(cycle, tuple(found[number] for number in cycle.attempts)) for cycle in done)
