"""The coder's prompts: a stable prefix, and the intent with what was tried for it."""

from dataclasses import dataclass
from typing import Any, Literal

from evaluators.evaluation import WorkloadResult
from evaluators.objective import gain
from evaluators.solution import Solution
from evaluators.worker.status import Status
from graph.cycles import Result
from nodes.coder import CodeRequest, Known
from nodes.models.chat import ChatRequest
from nodes.prompting.change import change
from nodes.prompting.figures import effects, failing, figures, measured_on
from nodes.prompting.specification import FENCES, better, system_prompt
from prompts.library import Variant

Kind = Literal["first", "debug", "improve", "repair"]
KINDS: tuple[Kind, ...] = ("first", "debug", "improve", "repair")


@dataclass(frozen=True)
class Question:
    """What a coder model is asked."""

    request: ChatRequest
    kind: Kind
    base: Solution | None
    """The program that search and replace blocks change; None: only whole files make sense."""


@dataclass(frozen=True)
class Failure:
    """What came of the last attempt."""

    status: str
    rule: str | None
    message: str
    log: str
    workloads: tuple[WorkloadResult, ...]


def kind_of(request: CodeRequest) -> Kind:
    """Return which prompt fits: what does not compile is repaired, as long as the cycle's repair turns last."""
    attempt = _attempt(request)
    broken = attempt is not None and attempt.label == Status.BUILD_ERROR
    if broken and request.cycle.repairs < request.config.repair_turns:
        return "repair"
    if request.best is not None:
        return "improve"
    return "first" if attempt is None else "debug"


def coder_request(variant: Variant, request: CodeRequest) -> Question:
    """Return the question for one sample."""
    kind = kind_of(request)
    parent = request.parent
    last = _program(request.last)
    best = _program(request.best)
    base: Solution | None = {"first": parent, "debug": last, "repair": last, "improve": best}[kind]
    values = {**_values(request), **(_improve_values(request) if kind == "improve" else {})}
    asked = ChatRequest(
        role="coder",
        system=system_prompt(variant, "coder_system.md", request.task, request.language, request.config),
        prompt=variant.render(f"coder_{kind}.md", **values),
        identity={
            "role": "coder",
            "variant": variant.name,
            "kind": kind,
            "node": request.node.id,
            "title": request.node.intent.title,
            "description": request.node.intent.description,
            "parent": None if parent is None else parent.digest,
            "last": None if last is None else last.digest,
            "turn": 0,
        },
    )
    return Question(asked, kind, base)


def _attempt(request: CodeRequest) -> Result | None:
    """Return the last attempt's result when there is a program with a verdict to speak of."""
    known = request.last
    if known is None or known.solution is None or known.evaluation is None:
        return None
    return request.cycle.last


def _program(known: Known | None) -> Solution | None:
    return None if known is None else known.solution


def _values(request: CodeRequest) -> dict[str, Any]:
    cycle = request.cycle
    outcome = None if cycle.last is None else cycle.last.outcome
    message = "" if cycle.last is None else cycle.last.message
    return {
        "config": request.config,
        "unit": request.task.objective.unit,
        "fence": FENCES[request.language],
        "node": request.node,
        "earlier": request.node.evidence,
        "cycle": cycle,
        "sample": request.sample,
        "siblings": request.config.samples,
        "parent": request.parent,
        "parent_objective": cycle.parent_objective,
        "last": _program(request.last),
        "failure": _failure(request),
        "said": message if outcome == "unusable" else "",
        "repeated": message if outcome == "repeated" else "",
    }


def _failure(request: CodeRequest) -> Failure | None:
    known = request.last
    if known is None or known.evaluation is None:
        return None
    evaluation = known.evaluation
    workloads = tuple(item for item in failing(request.task, evaluation) if item.message != evaluation.message)
    return Failure(evaluation.status.value, evaluation.rule, evaluation.message, evaluation.log, workloads)


def _improve_values(request: CodeRequest) -> dict[str, Any]:
    """Return what only the improve prompt shows: the best program, and what the last attempt did to it."""
    task, cycle, best, last = request.task, request.cycle, request.best, request.last
    if best is None or cycle.best is None or best.solution is None:
        raise ValueError(f"cycle {cycle.id} has no best program to improve on")
    goal, value = request.model.goal, cycle.best.objective.value
    attempt = _program(last)
    last_is_best = attempt == best.solution
    verdict = None if last is None else last.evaluation
    known = {} if best.evaluation is None else {"best": best.evaluation}
    if verdict is not None and not last_is_best:
        known["last"] = verdict
    last_value = None if verdict is None or verdict.objective is None else verdict.objective.value
    return {
        "better": better(task),
        "best": best.solution,
        "best_objective": value,
        "gain": None if cycle.parent_objective is None else gain(value, cycle.parent_objective, goal),
        "figures": figures(task, known),
        "environment": measured_on(best.evaluation),
        "last_is_best": last_is_best,
        "change": change(request.parent if last_is_best else best.solution, attempt),
        "last_objective": last_value,
        "effect": None if last_value is None else gain(last_value, value, goal),
        "effects": effects(task, best.evaluation, verdict),
    }
