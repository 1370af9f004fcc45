"""Which programs a trip certifies: those that the search itself would."""

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.objective import Goal
from evaluators.worker.bundle import Request
from evaluators.worker.status import Status
from evaluators.worker.winners import Turns, accepted, challengers
from graph.cycles import Result
from graph.state import Incumbent
from nodes.certifying import challengers as as_the_search_does


def request(cycle: int, sample: int = 1) -> Request:
    return Request("evaluator", 1, cycle, sample, 0, "search", f"program {cycle}", None)


figures = st.one_of(st.none(), st.floats(0.5, 2.0), st.sampled_from([1.0, 1.03, 1.5]))


@given(
    values=st.lists(figures, max_size=6), incumbent=figures, goal=st.sampled_from(["max", "min"]),
)  # fmt: skip
def test_the_order_is_that_of_the_search(values: list[float | None], incumbent: float | None, goal: Goal) -> None:
    requests = [request(cycle) for cycle in range(len(values))]
    results = [
        Result(cycle=at, sample=1, outcome="evaluated", final=False, solution="0" * 64, evaluation="0" * 64)
        if value is None
        else Result(
            cycle=at, sample=1, outcome="evaluated", final=False, status=Status.PASSED, solution="0" * 64,
            evaluation="0" * 64, objective={"value": value, "low": value, "high": value},
        )
        for at, value in enumerate(values)
    ]  # fmt: skip
    best: Incumbent | None = None
    if incumbent is not None:
        objective = {"value": incumbent, "low": incumbent, "high": incumbent}
        best = Incumbent(solution="s", evaluation="e", objective=objective, node="root", round=0)
    expected = [requests[at] for at in as_the_search_does(results, best, goal, 0.03)]
    measured = list(zip(requests, values, strict=True))
    assert challengers(measured, incumbent, goal, 0.03) == expected
    for order in list(permutations(measured))[:6]:
        assert challengers(order, incumbent, goal, 0.03) == expected


def answer(status: str, low: float | None) -> dict[str, Any]:
    objective = {"value": 1.5, "low": 1.4, "high": 1.6} if status == "passed" else None
    pairs = [] if low is None else [{"a": 0, "b": 1, "ratio": {"value": low, "low": low, "high": low}}]
    return {"verdict": {"programs": [{"status": status, "objective": objective}], "pairs": pairs}}


@pytest.mark.parametrize(
    ("status", "low", "with_rival", "expected"),
    [
        ("passed", None, False, True),
        ("passed", 1.04, True, True),
        ("passed", 1.02, True, False),
        ("passed", None, True, False),
        ("wrong_values", None, False, False),
    ],
)
def test_a_certification_must_clear_the_rival(status: str, low: float | None, with_rival: bool, expected: bool) -> None:
    assert accepted(answer(status, low), with_rival, 0.03) is expected


def test_one_whose_figure_was_in_doubt_ends_nothing() -> None:
    """The figures of tests/end_to_end/test_algorithm.py, where the search itself certifies."""
    turns = Turns("max", 0.03, "seed", 1.0)
    drawn = [("nine", 9.0, True, 1.2), ("eight", 8.0, True, 0.9), ("two", 2.0, False, 2.0), ("more", 1.1, True, 1.0)]
    asked = []
    for name, value, doubted, figure in drawn:
        if turns.has(value, doubted=doubted):
            asked.append((name, turns.rival))
            assert turns.value is not None
            found = answer("passed", figure / turns.value)
            found["verdict"]["programs"][0]["objective"]["value"] = figure
            turns.certified(name, found, doubted=doubted)
    assert asked == [("nine", "seed"), ("eight", "nine"), ("two", "nine")]
    assert (turns.rival, turns.value, turns.settled) == ("two", 2.0, True)
    assert [turns.has(9.0, doubted=doubted) for doubted in (True, False)] == [True, False]
