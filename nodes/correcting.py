"""Asking until a reply can be used: a bounded number of corrective turns, each with the exact errors."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from nodes.models.asking import ask_paid, refused_by_budget
from nodes.models.chat import Chat, ChatReply, ChatRequest, Message
from nodes.paid import PaidCalls
from nodes.replies.limits import excerpt

T = TypeVar("T")
_LONGEST_ERROR = 600
_LONGEST_TOLD = 1500
_LONGEST_ECHO = 100_000
_CUT_OFF = "the reply was cut off at the token limit: be shorter"


@dataclass(frozen=True)
class Refusal:
    """Why a reply cannot be used."""

    errors: tuple[str, ...]
    whole: bool = False
    """A coder's reply should hold whole files next."""


@dataclass(frozen=True)
class Asked(Generic[T]):
    """What came of a question and its corrective turns."""

    value: T | None
    """What the last reply was read as; None when no reply could be used."""
    refusals: tuple[Refusal, ...] = field(default=())
    """Why each reply before it was refused, in order."""
    stopped: str = ""
    """The budget that is used up, when that ended the corrective turns."""

    @property
    def told(self) -> str:
        """The refusals in one line, empty when there were none."""
        if not self.refusals:
            return ""
        count = len(self.refusals)
        last = "; ".join(self.refusals[-1].errors)
        stopped = f"not asked again ({self.stopped}); " if self.stopped else ""
        replies = "reply" if count == 1 else "replies"
        return _bounded(f"{count} {replies} refused; {stopped}the last: {last}", _LONGEST_TOLD)


async def ask_until_usable(
    chat: Chat,
    calls: PaidCalls,
    request: ChatRequest,
    corrections: int,
    read: Callable[[ChatReply, int], T | Refusal],
    correct: Callable[[Refusal, int], str],
) -> Asked[T]:
    """Ask, and ask again with what was wrong, at most `corrections` times and only while the budgets last.

    Every call is paid for through the ledger.

    Args:
        chat: whom to ask.
        calls: where in the search the question is asked.
        request: the question, without turns.
        corrections: corrective turns after the first reply.
        read: (reply, corrective turns left) -> what it holds, or why it cannot be used. Runs in a thread. It is not
            asked about a reply that the model refused or its provider withheld.
        correct: (refusal, corrective turns left after the one that it begins) -> the next message to the model.

    Raises:
        UsageError, ModelFailure, StoreError: as `ask_paid`. An unusable reply raises nothing.
    """

    def read_given(reply: ChatReply, left: int) -> T | Refusal:
        return _withheld(reply) or read(reply, left)

    refusals: list[Refusal] = []
    for turn in range(corrections + 1):
        left = corrections - turn
        reply = await ask_paid(chat, calls, request, turn)
        found = await asyncio.to_thread(read_given, reply, left)
        if not isinstance(found, Refusal):
            return Asked(found, tuple(refusals))
        refusals.append(_told(found, reply))
        if left:
            request = _corrected(request, reply, correct(refusals[-1], left - 1), turn + 1)
            stopped = await refused_by_budget(calls, request, turn + 1)
            if stopped:
                # The last reply may do: readers ask less of one after which nothing comes.
                last = await asyncio.to_thread(read_given, reply, 0)
                return Asked(None if isinstance(last, Refusal) else last, tuple(refusals), stopped)
    return Asked(None, tuple(refusals))


def _withheld(reply: ChatReply) -> Refusal | None:
    match reply.finish:
        case "refusal":
            return Refusal((f"the model refused to answer: {excerpt(reply.text)}",))
        case "filter":
            return Refusal(("the provider's filter withheld the reply",))
        case _:
            return None


def _told(refusal: Refusal, reply: ChatReply) -> Refusal:
    errors = (_CUT_OFF, *refusal.errors) if reply.finish == "length" else refusal.errors
    return Refusal(tuple(_bounded(error, _LONGEST_ERROR) for error in errors), refusal.whole)


def _bounded(text: str, longest: int) -> str:
    """Return an error fit for a message and a log: one line of valid text; foreign text in it may be endless."""
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return line if len(line) <= longest else f"{line[: longest - 4]} ..."


def _corrected(request: ChatRequest, reply: ChatReply, correction: str, turn: int) -> ChatRequest:
    turns = (*request.turns, Message(role="assistant", text=_echo(reply.text)), Message(role="user", text=correction))
    return ChatRequest.model_validate({**dict(request), "turns": turns, "identity": {**request.identity, "turn": turn}})


def _echo(text: str) -> str:
    """Return a reply as it is shown to the model again: providers take neither empty messages nor broken text."""
    if len(text) > _LONGEST_ECHO:
        return f"(a reply of {len(text)} characters)"
    return text.encode("utf-8", "replace").decode() if text.strip() else "(an empty reply)"
