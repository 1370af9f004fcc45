"""Hypothesis strategies for the records of the core, and short ways to write them down by hand."""

import string
from typing import Any

from hypothesis import strategies as st

from evaluators.objective import Goal, Value
from graph.edits import Edit, EditBatch, Insert, Pin, Prune, Reopen, Update, apply_batch
from graph.transitions import activate, plant, settle
from graph.world_model import ROOT, Evidence, Intent, NodeStatus, WorldModel

GOALS: st.SearchStrategy[Goal] = st.sampled_from(["max", "min"])
SHORT = st.text(string.ascii_letters + " ", min_size=1, max_size=8).filter(str.strip)
OBJECTIVES = st.floats(0.01, 100, allow_nan=False)


def intent(title: str = "Unroll", priority: float = 0.5, **fields: Any) -> Intent:
    return Intent(title=title, priority=priority, **fields)


def evidence(cycle: int, objective: float | None, **fields: Any) -> Evidence:
    """Evidence of a cycle with four attempts; `objective` None: no program passed."""
    passed = objective is not None
    defaults: dict[str, Any] = {
        "cycle": cycle,
        "first_round": cycle,
        "last_round": cycle + 1,
        "attempts": tuple(range(4 * cycle, 4 * cycle + 4)),
        "outcomes": {"passed": 4} if passed else {"wrong_values": 4},
        "solution": f"{cycle:064x}" if passed else None,
        "objective": Value(value=objective, low=objective, high=objective) if objective is not None else None,
        "cause": "" if passed else "no program passed (4 wrong_values)",
    }
    return Evidence(**{**defaults, **fields})


def grown(*inserts: tuple[str, Intent], model: WorldModel | None = None) -> WorldModel:
    """The tree after inserting (parent, intent) one after another; ids are n1, n2, ..."""
    edits = tuple(Insert(parent=parent, intent=what) for parent, what in inserts)
    return edited(model or WorldModel(), *edits)


def edited(model: WorldModel, *edits: Edit, origin: Any = "planner") -> WorldModel:
    verdict = apply_batch(model, EditBatch(origin=origin, edits=edits))
    assert verdict.model is not None, verdict.reasons
    return verdict.model


def refused(model: WorldModel, *edits: Edit, origin: Any = "planner") -> tuple[str, ...]:
    verdict = apply_batch(model, EditBatch(origin=origin, edits=edits))
    assert verdict.model is None
    return verdict.reasons


def closed(model: WorldModel, node: str, objective: float = 1.5, **fields: Any) -> WorldModel:
    """The tree after a cycle on `node` that found a program."""
    return settle(activate(model, node), node, evidence(model.revision + 1, objective, **fields))


def failed(model: WorldModel, node: str, **fields: Any) -> WorldModel:
    """The tree after a cycle on `node` that found none."""
    return settle(activate(model, node), node, evidence(model.revision + 1, None, **fields))


@st.composite
def intents(draw: st.DrawFn) -> Intent:
    return Intent(
        title=draw(SHORT),
        description=draw(st.sampled_from(["", "as before", "in another way"])),
        priority=draw(st.floats(0, 1)),
        difficulty=draw(st.integers(1, 5)),
        predicted_gain=draw(st.none() | st.floats(0.1, 10)),
    )


@st.composite
def findings(draw: st.DrawFn, cycle: int) -> Evidence:
    """Evidence of any kind."""
    rule = draw(st.sampled_from([None, None, None, "threads"]))
    predicted = draw(st.none() | st.floats(0.1, 10))
    objective = draw(st.none() | OBJECTIVES)
    gain = draw(st.none() | OBJECTIVES) if objective is not None else None
    return evidence(cycle, objective, rule=rule, predicted_gain=predicted, gain=gain)


def edits(ids: list[str]) -> st.SearchStrategy[Edit]:
    """Edits, sensible and not, of a tree whose nodes may be `ids`."""
    node = st.sampled_from([*ids, "n999"])
    priority = st.floats(0, 1)
    return st.one_of(
        st.builds(Insert, parent=st.sampled_from([ROOT, *ids, "n999"]), intent=intents()),
        st.builds(Update, node=node, priority=st.none() | priority, difficulty=st.none() | st.integers(1, 5)),
        st.builds(Prune, node=node, reason=st.sampled_from(["refuted", " "])),
        st.builds(Reopen, node=node, description=st.sampled_from(["as before", "in another way"])),
        st.builds(Pin, node=node, pinned=st.booleans()),
    )


@st.composite
def trees(draw: st.DrawFn, steps: int = 12) -> WorldModel:
    """Trees as searches leave them: grown by edits and by cycles, none of which is illegal."""
    model = WorldModel(goal=draw(GOALS))
    if draw(st.booleans()):
        model = plant(model, evidence(0, draw(OBJECTIVES)))
    for cycle in range(1, draw(st.integers(0, steps)) + 1):
        model = draw(_steps(model, cycle))
    return model


@st.composite
def _steps(draw: st.DrawFn, model: WorldModel, cycle: int) -> WorldModel:
    active = [node.id for node in model.nodes if node.status == "active"]
    frontier = [node.id for node in model.frontier()]
    kind = draw(st.sampled_from(["edit", "edit", "activate", "settle", "settle"]))
    if kind == "settle" and active:
        found = draw(findings(cycle))
        return settle(model, draw(st.sampled_from(active)), found, ended=draw(st.booleans()))
    if kind == "activate" and frontier:
        return activate(model, draw(st.sampled_from(frontier)))
    batch = EditBatch(
        origin=draw(st.sampled_from(["planner", "human"])),
        edits=tuple(draw(st.lists(edits([node.id for node in model.nodes]), min_size=1, max_size=3))),
    )
    return apply_batch(model, batch).model or model


def ids(model: WorldModel, status: NodeStatus) -> set[str]:
    return {node.id for node in model.nodes if node.status == status}
