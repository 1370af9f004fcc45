from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.config import SearchConfig
from graph.edits import Prune
from graph.state import Incumbent, Spend, Stop
from graph.stopping import room, stop_reason
from graph.transitions import activate
from graph.world_model import ROOT, WorldModel
from tests.strategies import closed, edited, failed, grown, intent


def spend(**figures: Any) -> Spend:
    nothing: dict[str, Any] = dict.fromkeys(Spend.__annotations__, 0)
    return Spend(**{**nothing, "usd": 0.0, "device_s": 0.0, "wall_s": 0.0, "by": {}, **figures})  # type: ignore[typeddict-item]


def incumbent(value: float) -> Incumbent:
    objective = {"value": value, "low": value, "high": value}
    return Incumbent(solution="s", evaluation="e", objective=objective, node="n7", round=3)


OPEN = grown((ROOT, intent("A")))


def stop(
    config: SearchConfig | None = None,
    spent: Spend | None = None,
    best: Incumbent | None = None,
    model: WorldModel = OPEN,
    active: int = 0,
    request: str = "",
) -> Stop | None:
    return stop_reason(model, config or SearchConfig(), spent or spend(), best, active=active, request=request)


def test_a_search_with_something_to_do_goes_on() -> None:
    assert stop() is None
    assert stop(model=activate(OPEN, "n1"), active=1) is None


@pytest.mark.parametrize(
    ("options", "spent", "detail"),
    [
        ({"max_evaluations": 3}, {"evaluations": 3}, "3 of 3 evaluations are spent"),
        ({"max_tokens": 100}, {"input_tokens": 60, "output_tokens": 41}, "101 of 100 tokens are spent"),
        ({"max_usd": 0.5}, {"usd": 0.5}, "0.50 of 0.50 US dollars are spent"),
        (
            {"max_usd": 0.5},
            {"usd": 0.75, "unpriced_calls": 2},
            "0.75 of 0.50 US dollars are spent (at least: the price of 2 calls is unknown)",
        ),
        ({"max_wall_s": 60}, {"wall_s": 60.126}, "60.13 of 60.00 wall-clock seconds are spent"),
    ],
)
def test_each_budget_stops_by_its_name_and_figures(options: dict[str, Any], spent: dict[str, Any], detail: str) -> None:
    config = SearchConfig(**options)
    assert stop(config, spend(**spent)) == Stop(reason="budget", detail=detail)
    assert stop(config, spend(**spent), active=2) is not None
    less = {key: value * 0.4 for key, value in spent.items()}
    assert stop(config, spend(**less)) is None


def test_unset_budgets_never_stop() -> None:
    rich = spend(input_tokens=10**12, usd=1e9, wall_s=1e9, certifications=10**6)
    assert stop(SearchConfig(), rich) is None


@pytest.mark.parametrize(("goal", "reached", "missed"), [("max", 2.0, 1.999), ("min", 2.0, 2.001)])
def test_the_target_is_reached_in_the_goals_direction(goal: Any, reached: float, missed: float) -> None:
    model = grown((ROOT, intent("A")), model=WorldModel(goal=goal))
    config = SearchConfig(target=2.0)
    assert stop(config, best=incumbent(reached), model=model) == Stop(
        reason="target", detail="the incumbent (n7) reached 2; the target is 2"
    )
    assert stop(config, best=incumbent(missed), model=model) is None
    assert stop(config, best=None, model=model) is None


def test_a_tree_without_intents_has_nothing_to_start_from() -> None:
    assert stop(model=WorldModel()) == Stop(reason="nothing_to_start_from", detail="the world model has no intent")


def test_exhausted_says_what_became_of_the_nodes() -> None:
    model = grown(*((ROOT, intent(name)) for name in "ABCD"))
    model = failed(failed(closed(model, "n1"), "n2"), "n3")
    assert stop(model=model) is None
    model = edited(model, Prune(node="n4", reason="weak"))
    assert stop(model=model) == Stop(
        reason="exhausted", detail="no intent is left to select: 1 closed, 2 failed, 1 pruned of 4 nodes"
    )
    assert stop(model=model, active=1) is None


def test_exhausted_names_what_the_ceiling_hides() -> None:
    model = failed(
        grown((ROOT, intent("A")), (ROOT, intent("B", difficulty=4)), (ROOT, intent("C", difficulty=5))), "n1"
    )
    found = stop(SearchConfig(difficulty_ceiling=3), model=model)
    assert found is not None
    assert found["detail"].endswith("0 closed, 1 failed, 0 pruned of 3 nodes; 2 above the difficulty ceiling of 3")
    assert stop(SearchConfig(difficulty_ceiling=4), model=model) is None


def test_the_first_reason_in_the_documented_order_is_given() -> None:
    everything: dict[str, Any] = {
        "config": SearchConfig(target=1.0, max_evaluations=1, max_tokens=1),
        "spent": spend(evaluations=1, input_tokens=1),
        "best": incumbent(2.0),
        "model": WorldModel(),
        "request": "Ctrl-C",
    }
    reasons = []
    for less in ({}, {"request": ""}, {"best": None}, {"spent": spend(input_tokens=1)}, {"spent": spend()}):
        everything.update(less)
        found = stop(**everything)
        assert found is not None
        reasons.append((found["reason"], found["detail"]))
    assert reasons == [
        ("requested", "Ctrl-C"),
        ("target", "the incumbent (n7) reached 2; the target is 1"),
        ("budget", "1 of 1 evaluations are spent"),
        ("budget", "1 of 1 tokens are spent"),
        ("nothing_to_start_from", "the world model has no intent"),
    ]


@given(st.integers(0, 50), st.integers(0, 60))
def test_room_is_what_the_budget_has_left(budget: int, spent: int) -> None:
    config, so_far = SearchConfig(max_evaluations=budget), spend(evaluations=spent)
    left = room(so_far, config)
    assert left == (budget - spent if spent < budget else 0)
    assert (left == 0) == (stop(config, so_far) is not None)
