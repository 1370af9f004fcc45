"""Asking a model and paying for it: every question goes through the ledger, so no reply is ever paid for twice."""

import asyncio
from typing import Any, Literal

from evaluators.objective import Record
from nodes.models.chat import Chat, ChatReply, ChatRequest
from nodes.models.factory import ScheduledChat
from nodes.models.manual import MODEL, ManualChat
from nodes.paid import PaidCalls


class ChatRecord(Record):
    """What the ledger keeps of one call, as JSON."""

    kind: Literal["chat"] = "chat"
    request: ChatRequest
    reply: ChatReply


async def ask_paid(chat: Chat, calls: PaidCalls, request: ChatRequest, turn: int = 0) -> ChatReply:
    """Return the reply to `request`: as the ledger has it, or asked for now and recorded.

    Args:
        chat: whom to ask. The question's place decides what is found in the ledger, not the model: a reply that was
            paid for stays, also when the run goes on with another model.
        calls: where in the search the question is asked; its round, cycle and sample become the request's.
        request: the question.
        turn: 0, and higher for each further question of the same node: corrections, repairs.

    Raises:
        UsageError, ModelFailure: as `Chat`. Nothing is recorded then but that the call was begun.
        StoreError: the ledger failed.
        langgraph.errors.GraphInterrupt: a person is asked, and has not answered yet. Nothing is recorded then.
    """
    asked = _placed(calls, request, turn)
    if isinstance(chat, ScheduledChat):
        chat = chat.at(asked.round)
    answered = await _answered(chat, calls, asked) if isinstance(chat, ManualChat) else None

    async def call() -> tuple[Any, dict[str, Any]]:
        reply = await chat.ask(asked) if answered is None else answered
        return ChatRecord(request=asked, reply=reply).model_dump(mode="json"), spend_of(reply)

    result = await calls.once(asked.role, asked.model_dump(mode="json"), call, turn)
    return ChatRecord.model_validate(result).reply


async def refused_by_budget(calls: PaidCalls, request: ChatRequest, turn: int) -> str:
    """Return which budget forbids asking `request` now; empty when none does or its reply is paid for already.

    Arguments and errors are those of `ask_paid`.
    """
    reason = "" if calls.purse is None else await calls.purse.empty()
    if not reason:
        return ""
    # A node that runs again must find what it was allowed before the budget was used up.
    asked = _placed(calls, request, turn)
    known = await calls.ledger.find(calls.key(asked.role, asked.model_dump(mode="json"), turn))
    return reason if known is None or known.result is None else ""


def spend_of(reply: ChatReply) -> dict[str, Any]:
    """Return what a reply cost, as accounts add it up: unknown tokens are left out, an unknown price is None."""
    return {"model": reply.model, **reply.usage.model_dump(exclude_none=True), "usd": reply.usd}


def _placed(calls: PaidCalls, request: ChatRequest, turn: int) -> ChatRequest:
    place = {"round": calls.round, "cycle": calls.cycle, "sample": calls.sample, "turn": turn}
    return ChatRequest.model_validate({**dict(request), **place})


async def _answered(chat: ManualChat, calls: PaidCalls, asked: ChatRequest) -> ChatReply | None:
    """Return a person's answer, None when it is on record; pauses the run before anything is written down."""
    earlier: list[str] = []
    for entry in await calls.ledger.entries(calls.thread):
        key = entry.key
        if entry.result is None or (key.round, key.cycle, key.sample) != (asked.round, asked.cycle, asked.sample):
            continue
        if (key.role, key.turn, key.request) == (asked.role, asked.turn, asked.digest):
            return None
        if key.role == asked.role:
            record = ChatRecord.model_validate(await asyncio.to_thread(calls.blobs.get_json, entry.result))
            earlier += [record.reply.text] if record.reply.model == MODEL else []
    return chat.answered(asked, earlier)
