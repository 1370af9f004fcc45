"""What a person is asked before edits are committed, and how an answer reads. Without LangGraph, for commands."""

import json
from typing import Any, Literal

from pydantic import ValidationError

from evaluators.invalid import problem_in
from evaluators.objective import Record
from graph.edits import Edit, EditBatch
from nodes.models.chat import Message

ACCEPTING = ("", "accept", "accepted", "approve", "approved", "ok", "true", "y", "yes")
REJECTING = ("reject", "rejected", "false", "n", "no")


class ReviewQuestion(Record):
    """A batch of a planner's that waits for approval. The fields that `ManualQuestion` has mean the same."""

    kind: Literal["review"] = "review"
    request: str
    """Digest of the batch: the same whenever it is asked about again."""
    role: Literal["review"] = "review"
    round: int
    cycle: int = 0
    sample: int = 0
    turn: int
    """How many answers could not be used."""
    system: str = ""
    prompt: str
    """The edits in words, and how to answer."""
    turns: tuple[Message, ...] = ()
    batch: dict[str, Any]
    """The edit batch as JSON."""

    @property
    def id(self) -> str:
        """What people call it, such as `review-r3-4f2a91`."""
        again = f"-t{self.turn}" if self.turn else ""
        return f"review-r{self.round}{again}-{self.request[:6]}"


class ReviewAnswer(Record):
    """What a person decided."""

    decision: Literal["accept", "reject", "replace"]
    reason: str = ""
    edits: tuple[Edit, ...] = ()
    """With `replace`: the edits to make instead."""


def read_answer(text: str) -> ReviewAnswer | str:
    """Return the decision in an answer, or why it holds none.

    An answer is `accept`, `reject`, `reject: REASON`, or the JSON of a `ReviewAnswer`.
    """
    words = text.strip().strip('"')
    head, _, rest = words.partition(":")
    if words.casefold() in ACCEPTING:
        return ReviewAnswer(decision="accept")
    if head.strip().casefold() in REJECTING:
        return ReviewAnswer(decision="reject", reason=rest.strip())
    try:
        given = json.loads(text)
    except ValueError:
        return "it is neither `accept`, `reject: REASON` nor JSON with a decision"
    try:
        return ReviewAnswer.model_validate(given)
    except ValidationError as error:
        problem = problem_in(error, given)
        return f"{problem.key or 'the answer'}: {problem.reason}"


def question_text(batch: EditBatch, lines: tuple[str, ...], problems: tuple[str, ...]) -> str:
    """Return what a person reads: the edits (`lines`, one each), what is wrong with them, and how to answer."""
    why = batch.reason or "it gives no reason"
    parts = [f"The planner wants to change the plan: {why}", *(f"- {line}" for line in lines)]
    if batch.summary is not None:
        parts += ["", "It would note:", batch.summary]
    if problems:
        parts += ["", "As it stands it would be rejected:", *(f"- {problem}" for problem in problems)]
    how = (
        "Answer `accept`, or `reject: REASON`, or what to do instead: "
        '{"decision": "replace", "reason": "...", "edits": [...]} with edits as in'
    )
    shown = json.dumps(batch.model_dump(mode="json", exclude_none=True)["edits"], ensure_ascii=False, indent=1)
    return "\n".join([*parts, "", how, shown])
