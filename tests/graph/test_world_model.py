import json
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import ValidationError

from evaluators.digest import canonical_json
from graph.transitions import activate, plant, settle
from graph.world_model import ROOT, Node, WorldModel, best_evidence
from tests.strategies import closed, evidence, failed, grown, ids, intent, trees


def node(name: str, parent: str = ROOT, **fields: Any) -> Node:
    return Node(id=name, parent=parent, intent=intent(), **fields)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ((node("n1"), node("n1")), "n1 exists twice"),
        ((node("n1", "n2"), node("n2")), "its parent n2 does not stand before it"),
        ((node("n1", "n1"),), "its parent n1 does not stand before it"),
        ((node("n9"),), "next_node is 9"),
        ((node("n1"), node("n2", "n1", status="active")), "n2 is active under n1, which is open"),
        ((node("n1", status="pruned", reason="x"), node("n2", "n1")), "n2 is open under n1, which is pruned"),
        ((node("n1", status="active"), node("n2", "n1", status="failed", reason="x")), "n2 is failed under n1"),
    ],
)
def test_what_is_no_tree_is_refused(nodes: tuple[Node, ...], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        WorldModel(nodes=nodes, next_node=9)


@pytest.mark.parametrize("name", ["root", "n0", "n01", "1", "n1\n", "N1", ""])
def test_node_ids_are_n_and_a_number(name: str) -> None:
    with pytest.raises(ValidationError):
        node(name)


def test_a_node_has_proof_of_its_status() -> None:
    with pytest.raises(ValidationError, match="closed without a passing program"):
        node("n1", status="closed", evidence=(evidence(1, None),))
    with pytest.raises(ValidationError, match="failed without a reason"):
        node("n1", status="failed")


def test_records_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        grown((ROOT, intent())).nodes[0].status = "closed"  # type: ignore[misc]


def test_the_frontier_holds_open_nodes_whose_parent_is_done() -> None:
    model = grown((ROOT, intent("A")), (ROOT, intent("B")), ("n1", intent("C")), ("n2", intent("D")))
    assert [item.id for item in model.frontier()] == ["n1", "n2"]
    model = closed(model, "n1")
    assert [item.id for item in model.frontier()] == ["n2", "n3"]
    model = activate(model, "n2")
    assert [item.id for item in model.frontier()] == ["n3"]
    assert model.counts() == {"open": 2, "active": 1, "closed": 1, "failed": 0, "pruned": 0}


def test_children_and_descendants() -> None:
    model = grown((ROOT, intent("A")), ("n1", intent("B")), (ROOT, intent("C")), ("n2", intent("D")))
    assert [item.id for item in model.children("n1")] == ["n2"]
    assert [item.id for item in model.descendants("n1")] == ["n2", "n4"]
    assert [item.id for item in model.descendants(ROOT)] == ["n1", "n2", "n3", "n4"]
    assert model.find(ROOT) is None
    with pytest.raises(KeyError):
        model.node("n9")


@pytest.mark.parametrize(("goal", "best"), [("max", 3.0), ("min", 1.0)])
def test_the_best_evidence_follows_the_goal(goal: Any, best: float) -> None:
    found = best_evidence((evidence(1, 2.0), evidence(2, 1.0), evidence(3, None), evidence(4, 3.0)), goal)
    assert found is not None
    assert found.objective is not None
    assert found.objective.value == best


def test_equal_evidence_leaves_the_earlier_best() -> None:
    found = best_evidence((evidence(1, 2.0), evidence(2, 2.0)), "max")
    assert found is not None
    assert found.cycle == 1
    assert best_evidence((evidence(1, None),), "max") is None


def test_a_child_starts_from_its_parents_best_program() -> None:
    model = plant(grown((ROOT, intent("A"))), evidence(0, 1.0))
    model = closed(model, "n1", 2.0)
    assert model.standing(ROOT) == model.seed
    assert model.standing("n1") == model.node("n1").evidence[0]


def test_planting_counts_as_a_revision() -> None:
    assert plant(WorldModel(), evidence(0, 1.0)).revision == 1


def test_only_frontier_nodes_can_be_activated() -> None:
    model = grown((ROOT, intent("A")), ("n1", intent("B")))
    for name in ("n2", "n9", ROOT):
        with pytest.raises(ValueError, match="not on the frontier"):
            activate(model, name)
    with pytest.raises(ValueError, match="not on the frontier"):
        activate(activate(model, "n1"), "n1")


def test_only_active_nodes_can_be_settled() -> None:
    model = grown((ROOT, intent()))
    with pytest.raises(ValueError, match="n1 is open, not active"):
        settle(model, "n1", evidence(1, 1.0))
    with pytest.raises(ValueError, match="n9 is unknown, not active"):
        settle(model, "n9", evidence(1, 1.0))


def test_a_cycle_with_a_passing_program_closes_its_node_even_when_slower_than_its_parent() -> None:
    model = closed(plant(grown((ROOT, intent())), evidence(0, 1.0)), "n1", 0.5, gain=0.5)
    assert model.node("n1").status == "closed"
    assert model.node("n1").evidence[0].gain == 0.5


def test_a_cycle_without_a_passing_program_fails_its_node_and_what_waits_below() -> None:
    model = grown((ROOT, intent("A")), ("n1", intent("B")), ("n2", intent("C")), (ROOT, intent("D")))
    model = failed(model, "n1")
    assert model.node("n1").status == "failed"
    assert model.node("n1").reason == "no program passed (4 wrong_values)"
    assert (ids(model, "pruned"), ids(model, "open")) == ({"n2", "n3"}, {"n4"})
    assert model.node("n3").reason == "n1: no program passed (4 wrong_values)"


def test_a_cycle_cut_short_leaves_its_node_open_with_the_evidence() -> None:
    model = grown((ROOT, intent("A")), ("n1", intent("B")))
    model = settle(activate(model, "n1"), "n1", evidence(1, None, cut_short=True), ended=False)
    assert ids(model, "open") == {"n1", "n2"}
    assert len(model.node("n1").evidence) == 1
    model = closed(model, "n1")
    assert [item.cycle for item in model.node("n1").evidence] == [1, model.revision - 1]


def test_a_cycle_cut_short_with_a_passing_program_closes_its_node() -> None:
    model = settle(activate(grown((ROOT, intent())), "n1"), "n1", evidence(1, 1.2, cut_short=True), ended=False)
    assert model.node("n1").status == "closed"


def test_a_cycle_cut_short_by_an_integrity_rule_fails_its_node() -> None:
    model = settle(activate(grown((ROOT, intent())), "n1"), "n1", evidence(1, None, rule="threads"), ended=False)
    assert model.node("n1").status == "failed"


def test_a_cycle_without_attempts_leaves_no_evidence() -> None:
    nothing = evidence(1, None, attempts=(), outcomes={})
    model = settle(activate(grown((ROOT, intent())), "n1"), "n1", nothing, ended=False)
    assert model.node("n1").status == "open"
    assert model.node("n1").evidence == ()


@given(trees())
@settings(max_examples=60)
def test_a_tree_comes_back_equal_from_json(model: WorldModel) -> None:
    assert WorldModel.model_validate_json(model.model_dump_json()) == model
    assert WorldModel.model_validate(json.loads(canonical_json(model.model_dump(mode="json")))) == model


@given(trees())
@settings(max_examples=60)
def test_what_was_checked_change_by_change_passes_the_full_check(model: WorldModel) -> None:
    assert WorldModel(**dict(model)) == model
    assert len(model.by_id()) == len(model.nodes)
    assert [item.number for item in model.nodes] == list(range(1, len(model.nodes) + 1))
    assert model.next_node == len(model.nodes) + 1


@given(trees())
@settings(max_examples=60)
def test_below_the_root_is_everything(model: WorldModel) -> None:
    assert {item.id for item in model.descendants(ROOT)} == set(model.by_id())
    assert sum(model.counts().values()) == len(model.nodes)


def test_a_chain_of_intents_may_be_deeper_than_the_stack() -> None:
    depth = 5000
    nodes = [node("n1")] + [node(f"n{number}", f"n{number - 1}") for number in range(2, depth + 1)]
    model = failed(WorldModel(nodes=tuple(nodes), next_node=depth + 1), "n1")
    assert len(ids(model, "pruned")) == depth - 1
    assert len(list(model.descendants("n1"))) == depth - 1
