"""What a run waits for a person to answer. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.history import Interrupt
from graph.wording import counted
from nodes.models.question import ManualQuestion
from nodes.review_question import ReviewQuestion

_KINDS: dict[str, type[ManualQuestion] | type[ReviewQuestion]] = {"manual": ManualQuestion, "review": ReviewQuestion}


@dataclass(frozen=True)
class Pending:
    """A question that waits for its answer."""

    interrupt: str
    """LangGraph's id, by which it is answered."""
    asked: ManualQuestion | ReviewQuestion

    @property
    def id(self) -> str:
        """What people call it."""
        return self.asked.id


def pending(interrupts: Sequence[Interrupt]) -> tuple[Pending, ...]:
    """Return the questions among a run's interrupts, planner's first, then by cycle and sample."""
    found = [
        Pending(item.id, _KINDS[item.value["kind"]].model_validate(item.value))
        for item in interrupts
        if isinstance(item.value, dict) and item.value.get("kind") in _KINDS
    ]
    return tuple(sorted(found, key=lambda item: (item.asked.role != "planner", item.asked.cycle, item.asked.sample)))


def listed(question: Pending) -> dict[str, Any]:
    """Return a question as plain JSON, without its text."""
    return {"id": question.id, **question.asked.model_dump(include={"role", "round", "cycle", "sample", "turn"})}


def count_text(count: int) -> str:
    """Return "1 question waits for an answer", "2 questions wait for answers"."""
    return "1 question waits for an answer" if count == 1 else f"{count} questions wait for answers"


def place_text(question: Pending) -> str:
    """Return where in the search a question is asked, for people."""
    asked = question.asked
    words = [f"round {asked.round}"]
    words += [f"cycle {asked.cycle}", f"sample {asked.sample}"] if asked.cycle else []
    words += [f"correction {asked.turn}"] if asked.turn else []
    if isinstance(asked, ReviewQuestion):
        words.append(counted(len(asked.batch["edits"]), "edit") + " to approve")
    return f"{asked.role}, {', '.join(words)}"
