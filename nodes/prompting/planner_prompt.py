"""The planner's prompts: a stable prefix, and the tree with all that was learnt."""

import math
from dataclasses import dataclass
from typing import Any

from evaluators.digest import digest_json
from evaluators.evaluation import Evaluation
from evaluators.objective import gain
from evaluators.solution import Solution
from graph.calibration import Calibration, CalibrationPoint
from graph.state import searched
from graph.world_model import ROOT, Node, WorldModel
from nodes.models.chat import ChatRequest
from nodes.planner import CycleReport, PlannerView
from nodes.planner_reply import reply_schema
from nodes.prompting.change import change
from nodes.prompting.figures import figures, measured_on
from nodes.prompting.specification import FENCES, FIRST_INTENTS, system_prompt
from nodes.prompting.tree_view import TreeView, attempts, tree_view
from prompts.library import Variant

LATEST = 12
"""Predictions that are listed one by one, the latest."""


@dataclass(frozen=True)
class CalibrationView:
    """How well the planner predicted, in factors."""

    count: int
    failed_share: float | None
    bias_factor: float | None
    """Geometric mean of predicted / measured."""
    error_factor: float | None
    """By what factor a prediction is off, typically."""
    latest: tuple[CalibrationPoint, ...]
    bias: float | None


def planner_request(variant: Variant, view: PlannerView, *, first: bool) -> ChatRequest:
    """Return the question for the first intents, or for edits after the cycles in `view.reports`. Reads blobs."""
    incumbent, verdict = _incumbent(view)
    values: dict[str, Any] = {
        "config": view.config,
        "model": view.model,
        "unit": view.task.objective.unit,
        "fence": FENCES[view.language],
        "round": view.round,
        "evaluations_left": view.evaluations_left,
        "first_intents": FIRST_INTENTS,
        "program": incumbent,
        "best_node": ROOT if view.incumbent is None else view.incumbent["node"],
        "best_objective": None if view.incumbent is None else searched(view.incumbent)["value"],
        "figures": figures(view.task, _columns(view, verdict)),
        "environment": measured_on(verdict),
        "tree": _tree(variant, view),
        "reports": [_report(variant, view, report, incumbent) for report in view.reports],
        "calibration": _calibration(view.calibration),
    }
    return ChatRequest(
        role="planner",
        system=system_prompt(variant, "planner_system.md", view.task, view.language, view.config),
        prompt=variant.render("planner_first.md" if first else "planner_revise.md", **values),
        reply_schema=reply_schema(variant.beyond_paper),
        identity={
            "role": "planner",
            "variant": variant.name,
            "kind": "first" if first else "revise",
            "cycles": [report.cycle.node for report in view.reports],
            "tree": _plan_digest(view.model),
            "turn": 0,
        },
    )


def _plan_digest(model: WorldModel) -> str:
    """Return the identity of the tree's intents and their fates, without anything measured."""
    return digest_json([[node.id, node.parent, node.intent.title, node.status] for node in model.nodes])


def _incumbent(view: PlannerView) -> tuple[Solution | None, Evaluation | None]:
    if view.incumbent is None:
        return None, None
    return view.program(view.incumbent["solution"]), view.evaluation(view.incumbent["evaluation"])


def _columns(view: PlannerView, verdict: Evaluation | None) -> dict[str, Evaluation]:
    """Return the programs of the table: the incumbent, and the best of each ended cycle unless it is the incumbent."""
    columns: dict[str, Evaluation] = {}
    if view.incumbent is not None and verdict is not None:
        columns[f"best ({view.incumbent['node']})"] = verdict
    for report in view.reports:
        best = report.cycle.best
        if best is not None and (view.incumbent is None or best.solution != view.incumbent["solution"]):
            columns[f"cycle {report.cycle.id} ({report.cycle.node})"] = view.evaluation(best.evaluation)
    return columns


def _tree(variant: Variant, view: PlannerView) -> TreeView:
    frontier = {node.id for node in view.model.frontier()}
    unit = view.task.objective.unit

    def text(node: Node) -> str:
        return variant.render("node.md", node=node, frontier=node.id in frontier, attempts=attempts(node), unit=unit)

    return tree_view(view.model, text, view.config.tree_chars)


def _report(variant: Variant, view: PlannerView, report: CycleReport, incumbent: Solution | None) -> str:
    cycle, best = report.cycle, report.cycle.best
    relative = None
    if best is not None and cycle.parent_objective is not None:
        relative = gain(best.objective.value, cycle.parent_objective, view.model.goal)
    changed = None
    if best is not None and cycle.parent is not None:
        program = view.program(best.solution)
        changed = None if program == incumbent else change(view.program(cycle.parent), program)
    title = view.model.node(cycle.node).intent.title
    unit = view.task.objective.unit
    return variant.render("report.md", report=report, title=title, gain=relative, change=changed, unit=unit)


def _calibration(calibration: Calibration) -> CalibrationView:
    return CalibrationView(
        count=calibration.count,
        failed_share=calibration.failed_share,
        bias_factor=None if calibration.bias is None else math.exp(calibration.bias),
        error_factor=None if calibration.error is None else math.exp(calibration.error),
        latest=calibration.points[-LATEST:],
        bias=calibration.bias,
    )
