"""Review: with the option `review`, a person looks at every batch of the planner's before it is committed.

The run pauses at a LangGraph interrupt that carries a `ReviewQuestion` as JSON. The answer is kept in the ledger, so a
node that runs again finds it.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from evaluators.digest import digest_json
from graph.config import SearchConfig
from graph.edits import EditBatch, apply_batch
from graph.wording import edit_words
from graph.world_model import WorldModel
from nodes.models.asking import ChatRecord
from nodes.models.manual import MODEL, ask_person
from nodes.paid import PaidCalls
from nodes.planner import Proposal
from nodes.review_question import ReviewQuestion, question_text, read_answer

ROLE = "review"
_ANSWER_SCHEMA = {"type": "string", "description": "accept, reject: REASON, or JSON with decision, reason and edits"}


@dataclass(frozen=True)
class Reviewed:
    """What a person made of a proposal."""

    batch: EditBatch
    note: str
    refused: tuple[str, ...] = ()
    """Why the batch is not to be committed; empty when it is."""


async def review(config: SearchConfig, model: WorldModel, proposal: Proposal, calls: PaidCalls) -> Reviewed:
    """Return the batch as a person approved it; as it was proposed when nobody wants to look at it.

    Args:
        config: The configuration in force.
        model: The tree that the batch is for.
        proposal: The planner's.
        calls: The paid calls of this place, for nothing but the review.

    Raises:
        langgraph.errors.GraphInterrupt: a person is asked and has not answered yet.
        StoreError: the ledger failed.
    """
    batch = proposal.batch
    if not config.review or (not batch.edits and batch.summary is None):
        return Reviewed(batch, proposal.note)
    problems = apply_batch(model, batch).reasons
    turn = 0
    while True:
        text = await _answer(calls, _question(model, batch, problems, calls.round, turn))
        answer = read_answer(text)
        if not isinstance(answer, str):
            break
        problems, turn = (*apply_batch(model, batch).reasons, f"your last answer cannot be used: {answer}"), turn + 1
    if answer.decision == "reject":
        return Reviewed(batch, proposal.note, (f"rejected by a person: {answer.reason or 'without a reason'}",))
    if answer.decision == "replace":
        mine = EditBatch(origin="human", reason=answer.reason, cycles=batch.cycles, edits=answer.edits)
        return Reviewed(mine, "in place of the planner's")
    return Reviewed(batch, proposal.note)


def _question(model: WorldModel, batch: EditBatch, problems: tuple[str, ...], round_: int, turn: int) -> ReviewQuestion:
    data = batch.model_dump(mode="json")
    return ReviewQuestion(
        request=digest_json(data),
        round=round_,
        turn=turn,
        prompt=question_text(batch, tuple(edit_words(batch, model.next_node)), problems),
        batch=data,
    )


async def _answer(calls: PaidCalls, question: ReviewQuestion) -> str:
    """Return a person's answer as the ledger has it, or ask for it now."""
    key = calls.key(ROLE, {"batch": question.request}, question.turn)
    earlier: list[str] = []
    text: str | None = None
    for role in ("planner", ROLE):
        for entry in await calls.ledger.of_round(calls.thread, calls.round, role):
            if entry.result is None or entry.key.cycle:
                continue
            if entry.key == key:
                text = ""
            earlier += await _said_by_people(calls, role, entry.result)
    if text is None:
        text = ask_person(question.model_dump(mode="json"), _ANSWER_SCHEMA, earlier)
    answered = text

    async def call() -> tuple[Any, dict[str, Any]]:
        return {"answer": answered}, {}

    result = await calls.once(ROLE, {"batch": question.request}, call, question.turn)
    return str(result["answer"])


async def _said_by_people(calls: PaidCalls, role: str, result: str) -> list[str]:
    """Return the answers to interrupts of this node that are on record: LangGraph hands a node all of them again."""
    value = await asyncio.to_thread(calls.blobs.get_json, result)
    if role == ROLE:
        return [value["answer"]]
    if value.get("kind") != "chat":
        return []
    reply = ChatRecord.model_validate(value).reply
    return [reply.text] if reply.model == MODEL else []
