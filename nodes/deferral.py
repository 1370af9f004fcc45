"""What a run with `evaluator = deferred` waits for: read by the command line, which does without LangGraph."""

from typing import Literal

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
