"""The tree in a planner's prompt: whole, or with whole nodes left out by the stated rule."""

from collections.abc import Iterable

import pytest

from evaluators.objective import Goal, Value
from graph.world_model import ROOT, Evidence, Intent, Node, NodeStatus, WorldModel
from nodes.prompting.tree_view import attempts, best_node, tree_view


def evidence(objective: float | None, *, rule: str | None = None) -> Evidence:
    value = None if objective is None else Value(value=objective, low=objective, high=objective)
    return Evidence(
        cycle=1, first_round=1, last_round=2, attempts=(1, 2), outcomes={"passed": 2}, objective=value, rule=rule
    )


def node(number: int, status: NodeStatus, parent: str = ROOT, objective: float = 1.0) -> Node:
    return Node(
        id=f"n{number}",
        parent=parent,
        status=status,
        intent=Intent(title=f"Intent {number}", priority=0.5),
        evidence=(evidence(objective),) if status == "closed" else (),
        reason="why" if status in ("failed", "pruned") else "",
    )


def tree(nodes: Iterable[Node], goal: Goal = "max", seed: float | None = 1.0) -> WorldModel:
    known = tuple(nodes)
    planted = None if seed is None else evidence(seed)
    return WorldModel(goal=goal, nodes=known, next_node=len(known) + 1, seed=planted)


def text(node: Node) -> str:
    return f"{node.id}:".ljust(10)


def shown(model: WorldModel, limit: int) -> set[str]:
    view = tree_view(model, text, limit)
    return {item.split(":")[0] for items in view.shown.values() for item in items}


def test_a_tree_that_fits_is_shown_whole() -> None:
    model = tree([node(1, "open"), node(2, "closed"), node(3, "failed"), node(4, "pruned")])
    view = tree_view(model, text, 40)
    assert (view.total, view.left_out) == (4, 0)
    assert list(view.shown) == ["open", "active", "closed", "failed", "pruned"]
    assert [len(items) for items in view.shown.values()] == [1, 0, 1, 1, 1]


def test_nodes_are_left_out_in_the_stated_order() -> None:
    model = tree(
        [
            node(1, "closed", objective=2.0),  # the best
            node(2, "closed"),  # leads to an open node
            node(3, "open", "n2"),
            node(4, "closed"),
            node(5, "failed"),
            node(6, "pruned"),
            node(7, "pruned"),
            node(8, "closed"),
            node(9, "failed", "n8"),
            node(10, "active", "n8"),
        ]
    )
    everything = {f"n{number}" for number in range(1, 11)}
    expected = ["n6", "n7", "n5", "n9", "n4"]
    for count in range(len(expected) + 1):
        assert shown(model, 10 * (10 - count)) == everything - set(expected[:count])
    assert shown(model, 0) == {"n1", "n2", "n3", "n8", "n10"}
    view = tree_view(model, text, 0)
    assert view.dropped == {"pruned": 2, "failed": 2, "closed": 1}
    assert view.left_out == 5


def test_no_more_is_left_out_than_needed() -> None:
    model = tree([node(1, "open"), *[node(number, "pruned") for number in range(2, 12)]])
    assert len(shown(model, 65)) == 6
    assert len(shown(model, 70)) == 7


def test_a_tree_of_a_thousand_nodes_fits_by_leaving_out_whole_nodes_and_says_how_many() -> None:
    statuses: list[NodeStatus] = ["closed", "failed", "pruned", "open"]
    model = tree(node(number, statuses[number % 4], objective=1 + number % 7) for number in range(1, 1001))
    whole = {item.id: f"{item.id} {'x' * 290}" for item in model.nodes}
    view = tree_view(model, lambda item: whole[item.id], 100_000)
    texts = [item for items in view.shown.values() for item in items]
    assert sum(map(len, texts)) <= 100_000
    assert set(texts) <= set(whole.values())
    assert len(view.shown["open"]) == 250
    assert len(texts) + view.left_out == view.total == 1000
    assert view.dropped["pruned"] == view.dropped["failed"] == 250
    assert 0 < view.dropped["closed"] < 250


@pytest.mark.parametrize(("goal", "best"), [("max", "n2"), ("min", "n1")])
def test_the_best_program_depends_on_the_goal(goal: Goal, best: str) -> None:
    model = tree([node(1, "closed", objective=0.5), node(2, "closed", objective=3.0), node(3, "open")], goal)
    assert best_node(model) == best


def test_the_seed_may_be_the_best_and_the_older_of_equals_is() -> None:
    assert best_node(tree([node(1, "closed", objective=0.5)])) == ROOT
    assert best_node(tree([node(1, "closed", objective=1.0)])) == ROOT
    assert best_node(tree([node(1, "closed", objective=0.5)], seed=None)) == "n1"
    assert best_node(tree([node(1, "open")], seed=None)) == ROOT


def test_attempts_are_counted_over_all_cycles() -> None:
    twice = node(1, "closed").model_copy(update={"evidence": (evidence(1.0), evidence(None, rule="threads"))})
    assert attempts(twice) == 4
