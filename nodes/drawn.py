"""Planner and coder that make everything up by hashing: endless, repeatable replies for tests and benchmarks.

Every choice is a hash of the configuration's seed, the round, the cycle and the sample (graph/draws.py), so two
searches of one seed make the same choices whatever completes first, and a resumed search repeats them.
"""

import math
from dataclasses import dataclass

from evaluators.worker.status import Status
from graph.draws import draw
from graph.edits import Edit, EditBatch, Insert, Prune, Update
from graph.world_model import ROOT, Intent, Node, WorldModel
from nodes.coder import CodeRequest, Draft
from nodes.paid import PaidCalls
from nodes.planner import PlannerView, Proposal
from nodes.scripted import paid_draft, paid_proposal, program

_FAILURES = (Status.BUILD_ERROR, Status.WRONG_VALUES, Status.RUNTIME_ERROR, Status.TIMEOUT)


@dataclass(frozen=True)
class DrawnPlanner:
    """Inserts drawn intents, updates and prunes some of the open ones. Its batches are always valid."""

    intents: int = 5
    """Inserted by initialize."""
    prune_share: float = 0.2
    """Share of the revisions that prune an open node."""
    delay_s: float = 0.0
    """How long each reply takes, seconds."""

    async def initialize(self, view: PlannerView, calls: PaidCalls) -> Proposal:
        """Insert `intents` intents under the root."""
        edits = tuple(_insert(view, ROOT, index) for index in range(self.intents))
        batch = EditBatch(origin="planner", reason="first intents, drawn", edits=edits)
        return await paid_proposal(view, calls, "initialize", Proposal(batch), self.delay_s)

    async def revise(self, view: PlannerView, calls: PaidCalls) -> Proposal:
        """Insert one to three intents for every ended cycle, update up to two open nodes, now and then prune one."""
        inserts = [insert for report in view.reports for insert in _inserts(view, report.cycle.id, report.cycle.node)]
        batch = EditBatch(
            origin="planner",
            reason="drawn",
            cycles=tuple(report.cycle.id for report in view.reports),
            summary=f"{len(view.model.nodes)} intents so far, all drawn.",
            edits=(*self._changes(view), *inserts),
        )
        return await paid_proposal(view, calls, "revise", Proposal(batch), self.delay_s)

    def _changes(self, view: PlannerView) -> list[Edit]:
        open_nodes = [node for node in view.model.nodes if node.status == "open" and not node.pinned]
        chosen = _chosen(open_nodes, 3, view)
        edits: list[Edit] = [
            Update(node=node.id, priority=_priority(view, "update", index)) for index, node in enumerate(chosen[:2])
        ]
        if len(chosen) > 2 and draw(view.config.seed, "prune", view.round, 0) < self.prune_share:
            edits.append(Prune(node=chosen[2].id, reason="drawn to be pruned"))
        return edits


@dataclass(frozen=True)
class DrawnCoder:
    """Writes programs whose figure is the parent's times a drawn gain; some fail, repeat, or never come to be."""

    unusable: float = 0.1
    """Share of the drafts that hold no program."""
    repeated: float = 0.1
    """Share that repeats the cycle's last program, or the parent's."""
    failing: float = 0.2
    """Share of programs that fail."""
    spread: float = 0.15
    """Standard deviation of the logarithm of what an intent gains."""
    delay_s: float = 0.0
    """How long each reply takes, seconds."""

    async def write(self, request: CodeRequest, calls: PaidCalls) -> Draft:
        """Return a drawn draft."""
        return await paid_draft(request, calls, self._draft(request), self.delay_s)

    def _draft(self, request: CodeRequest) -> Draft:
        kind = _coder_draw(request, "kind")
        earlier = request.last.solution if request.last else request.parent
        if kind < self.unusable:
            return Draft(None, "the reply holds no program")
        if kind < self.unusable + self.repeated and earlier is not None:
            return Draft(earlier, "the same again")
        if kind > 1 - self.failing:
            status = _FAILURES[int(_coder_draw(request, "status") * len(_FAILURES))]
            return Draft(program(request, {"status": status.value}, request.sample))
        return Draft(program(request, {"objective": f"{self._objective(request):.4g}"}, request.sample))

    def _objective(self, request: CodeRequest) -> float:
        """The intent's gain on the parent, less what this sample's implementation loses: less with each sample."""
        loss = 0.3 * _coder_draw(request, "loss") / request.sample
        gain = self.intent_gain(request) * (1 - loss)
        parent = request.cycle.parent_objective or 1.0
        return parent * gain if request.task.objective.goal == "max" else parent / gain

    def intent_gain(self, request: CodeRequest) -> float:
        """What the intent gains when it is implemented without loss."""
        first, second = (draw(request.config.seed, f"gain {part}", 0, request.node.number) for part in "ab")
        normal = math.sqrt(-2 * math.log(1 - first)) * math.cos(2 * math.pi * second)
        return math.exp(self.spread * normal)


def _coder_draw(request: CodeRequest, purpose: str) -> float:
    return draw(request.config.seed, f"coder {purpose} {request.cycle.id}", request.round, request.sample)


def _priority(view: PlannerView, purpose: str, index: int) -> float:
    return round(draw(view.config.seed, f"priority {purpose}", view.round, index), 3)


def _insert(view: PlannerView, parent: str, index: int) -> Insert:
    seed, round_ = view.config.seed, view.round
    intent = Intent(
        title=f"Idea {round_}.{index + 1}",
        description=f"Drawn in round {round_}.",
        rationale="None: it was drawn.",
        priority=_priority(view, "insert", index),
        difficulty=1 + int(5 * draw(seed, "difficulty", round_, index)),
        predicted_gain=round(0.9 + 0.4 * draw(seed, "predicted gain", round_, index), 3),
    )
    return Insert(parent=parent, intent=intent)


def _inserts(view: PlannerView, cycle: int, node_id: str) -> list[Insert]:
    parent = ROOT if view.config.flat or not _closed(view.model, node_id) else node_id
    count = 1 + int(3 * draw(view.config.seed, "inserts", view.round, cycle))
    return [_insert(view, parent, cycle * 10 + index) for index in range(count)]


def _closed(model: WorldModel, node_id: str) -> bool:
    node = model.find(node_id)
    return node is not None and node.status == "closed"


def _chosen(nodes: list[Node], count: int, view: PlannerView) -> list[Node]:
    def lot(node: Node) -> float:
        return draw(view.config.seed, "choice", view.round, node.number)

    return sorted(nodes, key=lot)[:count]
