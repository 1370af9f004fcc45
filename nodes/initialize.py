"""initialize: load the task, measure the seed and with it the baseline, make the root, ask for the first intents."""

from typing import Any

from checkpoints.logs import empty_log
from evaluators.evaluation import Evaluation
from evaluators.objective import Value
from evaluators.solution import Solution
from evaluators.task import Task
from graph.calibration import calibrate
from graph.config import SearchConfig
from graph.edits import EditBatch
from graph.policies import frontier_digest
from graph.state import SCHEMA_VERSION, Incumbent, Opening, Stop
from graph.transitions import plant
from graph.world_model import ROOT, Evidence, WorldModel
from nodes.accounts import add_calls, no_spend
from nodes.committing import commit
from nodes.incumbents import incumbent_of
from nodes.judged import judge
from nodes.planner import PlannerView, Proposal
from nodes.programs import settings_of
from nodes.reviewing import review
from nodes.services import Services, language_of
from nodes.telling import Tell


async def initialize(services: Services, state: Opening, thread: str, tell: Tell) -> dict[str, Any]:
    """Return the first full state, or one with a stop when there is nothing to start from."""
    services.lap(thread)
    config = await services.config(thread, state["config"])
    task = await services.task(state["task"])
    evaluator = services.make_evaluator(config)
    judging = services.calls(thread, 0)
    seed = task.seed(language_of(config, task)) if config.use_seed else None
    verdict = None
    if seed is not None:
        verdict = await judge(judging, "seed", evaluator, task, seed, "certify")
        tell("seed", status=verdict.status.value, message=verdict.message, objective=_dumped(verdict.objective))
    environment = None if verdict is None else verdict.environment
    environment = await evaluator.environment() if environment is None else environment
    evidence, incumbent = await _standing(services, task, seed, verdict)
    model = WorldModel(goal=task.objective.goal)
    model = model if evidence is None else plant(model, evidence)
    spend = add_calls(no_spend(), "seed", judging.spent)
    planning = services.calls(thread, 0)
    planning.purse = services.purse(config, spend, thread, 0, "planner")
    stop = _nothing_to_start_from(config, seed, verdict)
    proposal: Proposal | None = None
    if stop is None:
        view = _view(services, task, config, model, incumbent)
        proposal = await services.make_planner(config).initialize(view, planning)
    nothing = Proposal(EditBatch(origin="planner"))
    seen = await review(config, model, proposal or nothing, services.calls(thread, 0))
    committed = await commit(services, model, seen.batch, empty_log(), 0, seen.note, tell, seen.refused)
    return {
        "schema_version": SCHEMA_VERSION,
        "round": 0,
        "idle_rounds": 0,
        "tree": await services.save_tree(committed.model),
        "frontier": frontier_digest(committed.model),
        "cycles": [],
        "next_cycle": 1,
        "results": None,
        "draws": [],
        "incumbent": incumbent,
        "baseline": None if verdict is None else baseline_of(verdict),
        "environment": environment.fingerprint,
        "spend": add_calls(spend, "planner", planning.spent),
        "attempts": empty_log(),
        "edits": committed.log,
        "stop": stop,
        "stop_request": "",
        "steered": 0,
    }


def _view(
    services: Services, task: Task, config: SearchConfig, model: WorldModel, incumbent: Incumbent | None
) -> PlannerView:
    return PlannerView(
        task=task,
        language=language_of(config, task),
        config=config,
        model=model,
        calibration=calibrate(model),
        round=0,
        evaluations_left=config.max_evaluations,
        reports=(),
        program=services.load_solution,
        evaluation=services.load_evaluation,
        incumbent=incumbent,
    )


async def _standing(
    services: Services, task: Task, seed: Solution | None, verdict: Evaluation | None
) -> tuple[Evidence | None, Incumbent | None]:
    if seed is None or verdict is None or verdict.objective is None:
        return None, None
    solution = await services.keep(seed)
    evaluation = await services.keep(verdict)
    evidence = Evidence(
        cycle=0,
        first_round=0,
        last_round=0,
        attempts=(),
        outcomes={verdict.status.value: 1},
        solution=solution,
        objective=verdict.searched,
        settings=settings_of(seed),
    )
    return evidence, incumbent_of(solution, evaluation, verdict, ROOT, 0)


def _nothing_to_start_from(config: SearchConfig, seed: Solution | None, verdict: Evaluation | None) -> Stop | None:
    if verdict is not None and not verdict.passed:
        detail = f"the seed program failed: {verdict.status.value}: {verdict.message}"
        return Stop(reason="nothing_to_start_from", detail=detail)
    if seed is None and config.coder == "offline":
        detail = (
            "the offline coder needs a seed program with knobs, and there is none: "
            "give the task one, or name models with --planner and --coder"
        )
        return Stop(reason="nothing_to_start_from", detail=detail)
    return None


def baseline_of(evaluation: Evaluation) -> dict[str, Any]:
    """Return what an evaluation says of the baseline: milliseconds per workload, and by which protocol."""
    measured = {result.workload: result.measurement for result in evaluation.workloads}
    times = {name: measurement.baseline_ms for name, measurement in measured.items() if measurement is not None}
    return {"protocol": evaluation.protocol, "workloads_ms": times}


def _dumped(value: Value | None) -> dict[str, float] | None:
    return None if value is None else value.model_dump()
