"""Answers of drivers in whose process a program ran: its word only, so anything may stand in them. Pure."""

from typing import Any

from pydantic import ValidationError

from evaluators.isolation import IsolatedFailure
from evaluators.objective import Record
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
