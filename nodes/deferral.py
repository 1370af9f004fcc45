"""What a run with `evaluator = deferred` waits for: read by the command line, which does without LangGraph."""

from collections.abc import Sequence
from typing import Literal

from checkpoints.history import Interrupt
from evaluators.evaluation import Effort
from evaluators.objective import Record


class DeferredQuestion(Record):
    """One evaluation that is asked for. Several may wait at once, one for each branch of a fan-out."""

    kind: Literal["deferred"] = "deferred"
    role: str
    round: int
    cycle: int
    sample: int
    turn: int
    effort: Effort
    task: str
    """Blob of the task."""
    solution: str
    """Blob of the program."""
    rival: str | None
    """Blob of the program that it is compared with."""


def deferred(interrupts: Sequence[Interrupt]) -> tuple[DeferredQuestion, ...]:
    """Return the evaluations among a run's interrupts, by cycle and sample."""
    found = [
        DeferredQuestion.model_validate(item.value)
        for item in interrupts
        if isinstance(item.value, dict) and item.value.get("kind") == "deferred"
    ]
    return tuple(sorted(found, key=lambda item: (item.round, item.cycle, item.sample, item.role, item.solution)))
