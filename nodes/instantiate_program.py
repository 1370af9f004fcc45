"""instantiate_program: the coder writes one program for one sample of one cycle."""

from evaluators.novelty import novelty_key
from graph.cycles import Cycle
from graph.state import Candidate, Sample
from nodes.coder import CodeRequest, Draft, Known
from nodes.services import Services, language_of
from nodes.telling import Tell


async def instantiate_program(services: Services, sample: Sample, thread: str, tell: Tell) -> Candidate:
    """Return exactly one candidate, whether or not a program came of it."""
    config = await services.config(thread, sample["config"])
    task = await services.task(sample["task"])
    model = await services.tree(sample["tree"])
    cycle = Cycle.model_validate(sample["cycle"])
    calls = services.calls(thread, sample["round"], cycle.id, sample["sample"])
    calls.purse = services.purse(config, sample["spend"], thread, sample["round"], "coder")
    request = CodeRequest(
        task=task,
        language=language_of(config, task),
        config=config,
        model=model,
        node=model.node(cycle.node),
        cycle=cycle,
        round=sample["round"],
        sample=sample["sample"],
        parent=None if cycle.parent is None else await services.solution(cycle.parent),
        best=None if cycle.best is None else await _known(services, cycle.best.solution, cycle.best.evaluation, ""),
        last=None
        if cycle.last is None
        else await _known(services, cycle.last.solution, cycle.last.evaluation, cycle.last.message),
    )
    if request.node.program is not None and request.sample == 1:
        draft = Draft(await services.solution(request.node.program))
    else:
        draft = await services.make_coder(config).write(request, calls)
    candidate = Candidate(
        config=sample["config"],
        task=sample["task"],
        round=sample["round"],
        cycle=cycle.id,
        sample=sample["sample"],
        solution=None,
        key=None,
        outcome="unusable",
        message=draft.message,
        repeats=None,
        final=draft.final,
        repair=draft.repair,
        calls=calls.spent,
    )
    if draft.solution is None:
        return candidate
    candidate["solution"] = await services.keep(draft.solution)
    candidate["key"] = key = novelty_key(draft.solution)
    candidate["outcome"] = "evaluated"
    # The log ends with the round before, so a node that runs again after a crash decides as it did at first.
    earlier = await services.repeated(thread, sample["attempts"], key) if config.novelty else None
    if earlier is not None:
        candidate["outcome"] = "repeated"
        candidate["repeats"] = earlier["result"]
        candidate["message"] = f"repeats attempt {earlier['number']}"
    return candidate


async def _known(services: Services, solution: str | None, evaluation: str | None, message: str) -> Known:
    return Known(
        solution=None if solution is None else await services.solution(solution),
        evaluation=None if evaluation is None else await services.evaluation(evaluation),
        message=message,
    )
