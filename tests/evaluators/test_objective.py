import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evaluators.objective import Objective, Value, better, gain, log_gain

VALUES = st.floats(0.001, 1000)
GOALS: Any = st.sampled_from(["max", "min"])


@pytest.mark.parametrize(
    ("value", "reference", "goal", "expected"),
    [(3.0, 2.0, "max", 1.5), (2.0, 3.0, "min", 1.5), (2.0, 3.0, "max", 2 / 3)],
)
def test_gain_is_above_one_when_better(value: float, reference: float, goal: Any, expected: float) -> None:
    assert gain(value, reference, goal) == pytest.approx(expected)
    assert log_gain(value, reference, goal) == pytest.approx(math.log(expected))


@given(VALUES, VALUES, GOALS)
def test_exactly_one_of_two_different_values_is_better(a: float, b: float, goal: Any) -> None:
    assert better(a, b, goal) + better(b, a, goal) == (gain(a, b, goal) != 1 and gain(b, a, goal) != 1)


@given(VALUES, VALUES, VALUES, GOALS)
def test_log_gains_of_steps_add_up(a: float, b: float, c: float, goal: Any) -> None:
    assert log_gain(b, a, goal) + log_gain(c, b, goal) == pytest.approx(log_gain(c, a, goal), abs=1e-9)


def test_unmeasured_never_wins_and_always_loses() -> None:
    assert not better(None, None, "max")
    assert not better(None, 0.1, "max")
    assert better(0.1, None, "max")
    assert better(0.1, None, "min", margin=0.5)


@pytest.mark.parametrize("goal", ["max", "min"])
def test_the_margin_is_a_share_to_be_exceeded(goal: Any) -> None:
    reference = 1.0
    at, beyond = (1.25, 1.26) if goal == "max" else (0.8, 0.79)
    assert not better(at, reference, goal, margin=0.25)
    assert better(beyond, reference, goal, margin=0.25)
    assert not better(reference, reference, goal)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_a_value_is_positive_and_finite(bad: float) -> None:
    with pytest.raises(ValidationError):
        Value(value=bad, low=1.0, high=1.0)


def test_records_are_frozen_and_know_their_fields() -> None:
    objective = Objective()
    assert (objective.name, objective.goal, objective.unit) == ("ratio", "max", "x")
    with pytest.raises(ValidationError, match="frozen"):
        objective.goal = "min"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="extra"):
        Objective.model_validate({"aim": "max"})
