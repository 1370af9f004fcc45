"""What is made of the answers of drivers in whose process a program ran: its word, so anything may be in them. Pure."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from pydantic import ValidationError

from evaluators.evaluation import Evaluation, Pair
from evaluators.isolation import IsolatedFailure
from evaluators.objective import Record, Value
from evaluators.worker.figures import figure
from evaluators.worker.status import Status

LONGEST = 4000
"""Characters of a text that are kept."""
_OURS = frozenset({Status.PASSED, Status.INTEGRITY, Status.NOT_TIMED, Status.INFRASTRUCTURE})
"""What no driver says of a program that failed."""


class _Failed(Record):
    status: Status
    message: str
    log: str = ""


def failure_in(failed: Any) -> IsolatedFailure:
    """Return how a program failed, by what stands under `failed` in an answer."""
    try:
        told = _Failed.model_validate(failed)
    except ValidationError as error:
        return unusable(str(error))
    if told.status in _OURS:
        return unusable(f"status {told.status.value} of a program that failed")
    return IsolatedFailure(told.status, told.message[:600], told.log[-LONGEST:])


def unusable(why: str) -> IsolatedFailure:
    """Return the failure of a program whose process answered something else than its driver does."""
    return IsolatedFailure(Status.RUNTIME_ERROR, "its process gave no usable answer", why[-LONGEST:])


def value_of(estimates: Sequence[float]) -> Value:
    """Return the median of some estimates, with its interval."""
    found = figure(median(estimates), estimates)
    return Value(value=found.value, low=found.low, high=found.high)


def pairs_of(records: Sequence[Evaluation], ratio: Callable[[int, int], Value]) -> tuple[Pair, ...]:
    """Return every pair of records with an objective, in order; `ratio` takes their places in `records`."""
    timed = [number for number, record in enumerate(records) if record.objective is not None]
    return tuple(
        Pair(a=records[a].solution, b=records[b].solution, ratio=ratio(a, b))
        for place, a in enumerate(timed)
        for b in timed[place + 1 :]
    )
