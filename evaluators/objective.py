"""What a search maximises or minimises, and the one comparison of results."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field

Goal = Literal["max", "min"]
T = TypeVar("T")


class Record(BaseModel):
    """Base of every record: frozen, unknown fields are errors, field docs are the docstrings below them."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with `update` set, not validated; what was computed from the fields before is not kept."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(copied).model_fields.keys():
            object.__delattr__(copied, name)
        return copied

    def _kept(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` gives, computed once; with its leading underscore `name` is no part of dict(record)."""
        if name not in self.__dict__:
            object.__setattr__(self, name, make())
        return cast(T, self.__dict__[name])


class Objective(Record):
    """The figure a task is judged by."""

    name: str = "ratio"
    """`ratio` is baseline time / candidate time: above 1 is better than the baseline."""
    goal: Goal = "max"
    unit: str = "x"
    aggregate: Literal["geometric_mean", "mean"] = "geometric_mean"
    """How the workloads' ratios become one figure."""


class Value(Record):
    """A measured objective with its interval, all three in the objective's unit."""

    value: float = Field(gt=0, allow_inf_nan=False)
    low: float = Field(gt=0, allow_inf_nan=False)
    high: float = Field(gt=0, allow_inf_nan=False)


def gain(value: float, reference: float, goal: Goal) -> float:
    """Return by what factor `value` is better than `reference` (above 1: better), whatever the goal."""
    return value / reference if goal == "max" else reference / value


def better(value: float | None, reference: float | None, goal: Goal, margin: float = 0.0) -> bool:
    """Return whether `value` beats `reference` by more than `margin` (a share: 0.03 = 3 %).

    Unmeasured (`None`) never beats anything; anything measured beats unmeasured.
    """
    if value is None:
        return False
    if reference is None:
        return True
    return gain(value, reference, goal) > 1.0 + margin


def log_gain(value: float, reference: float, goal: Goal) -> float:
    """Return the natural logarithm of `gain`: 0 is no change, gains of successive steps add up."""
    return math.log(gain(value, reference, goal))
