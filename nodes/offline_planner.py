"""The planner that needs no model: best-first search over the knobs that the seed program declares.

Every revision fits nodes/knob_model.py to all that the tree knows and gives each open node the priority

    V = 1 - exp(-sqrt(I / 0.05))    I: expected improvement of the log objective on the best program, 0 for failures

so that argmax V works on what promises most: mostly the changes that gained elsewhere, on the best program, but also
what is uncertain, since interactions may turn a change that lost. New intents go under programs that beat their
parents: one knob turned, or two at once where that promises more. A change that lost under two parents leaves the
search, but for combinations that still have a chance. No combination of settings is ever proposed twice.
"""

from evaluators.errors import UsageError
from graph.edits import EditBatch
from nodes.knob_plan import KnobPlan, Tuning, read_knobs
from nodes.paid import PaidCalls
from nodes.planner import PlannerView, Proposal


class OfflinePlanner:
    """Implements nodes.planner.Planner without a model: costs nothing, and equal views get equal proposals."""

    def __init__(self, tuning: Tuning | None = None) -> None:
        self.tuning = tuning or Tuning()

    async def initialize(self, view: PlannerView, calls: PaidCalls) -> Proposal:
        """Insert an intent for every value that a knob of the seed could have instead."""
        return first_intents(view, self.tuning)

    async def revise(self, view: PlannerView, calls: PaidCalls) -> Proposal:
        """Learn from the tree: reprioritise, prune, and insert what has become promising."""
        return revision(view, self.tuning)


def first_intents(view: PlannerView, tuning: Tuning) -> Proposal:
    """Return the first intents: every knob of the seed turned to every other value, one at a time."""
    plan = _plan(view, tuning)
    if isinstance(plan, str):
        return _nothing(plan)
    reason = f"the seed declares {len(plan.knobs(plan.seed))} knobs: {', '.join(plan.knobs(plan.seed))}"[:8000]
    return Proposal(EditBatch(origin="planner", reason=reason, edits=tuple(plan.first())))


def revision(view: PlannerView, tuning: Tuning) -> Proposal:
    """Return the edits that the tree's evidence calls for."""
    plan = _plan(view, tuning)
    if isinstance(plan, str):
        return _nothing(plan)
    prunes = plan.prunes()
    gone = {prune.node for prune in prunes}
    batch = EditBatch(
        origin="planner",
        reason=plan.reason(),
        cycles=tuple(report.cycle.id for report in view.reports),
        summary=plan.summary(),
        edits=(*prunes, *plan.updates(gone), *plan.inserts(len(gone))),
    )
    return Proposal(batch)


def _plan(view: PlannerView, tuning: Tuning) -> KnobPlan | str:
    """Return what to plan with, or why there is nothing to plan."""
    seed = view.model.seed
    if seed is None or seed.objective is None or seed.solution is None:
        return "there is no seed program that passed, so there are no knobs to turn"
    try:
        declared = read_knobs(view, seed.solution)
    except UsageError as error:
        return f"the seed's knobs cannot be read: {error}"
    if not declared:
        return "the seed declares no knobs, and without a model nothing else can be planned"
    return KnobPlan(view, tuning)


def _nothing(why: str) -> Proposal:
    return Proposal(EditBatch(origin="planner", reason=why), why)
