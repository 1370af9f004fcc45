"""`manual`: a person answers. The run pauses at a LangGraph interrupt that carries the prompt.

What the interrupt carries is `ManualQuestion` as JSON; it is answered with the reply's text (JSON that is no text, as
the Studio may send it, is taken for a reply in JSON). Several may be pending at once, one for each branch of a fan-out.
"""

import json
from collections.abc import Iterable
from typing import Any

from langgraph.types import interrupt

from nodes.models.chat import ChatReply, ChatRequest, Usage
from nodes.models.question import ManualQuestion

MODEL = "manual"
_ANSWER_SCHEMA = {"type": "string", "description": "The reply, as a model would give it"}


class ManualChat:
    """Implements nodes.models.chat.Chat by asking a person. Works within a node of the graph only."""

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Return what a person answered. Raises langgraph.errors.GraphInterrupt, which pauses the run, until then."""
        return self.answered(request, ())

    def answered(self, request: ChatRequest, earlier: Iterable[str]) -> ChatReply:
        """Return the answer, passing over `earlier` ones: replies that this node has on record."""
        question = ManualQuestion(
            request=request.digest,
            role=request.role,
            round=request.round,
            cycle=request.cycle,
            sample=request.sample,
            turn=request.turn,
            system=request.system,
            prompt=request.prompt,
            turns=request.turns,
            reply_schema=request.reply_schema,
        ).model_dump(mode="json")
        text = ask_person(question, _ANSWER_SCHEMA, earlier)
        return ChatReply(text=text, model=MODEL, finish="stop", usage=_NOTHING, usd=0.0)


_NOTHING = Usage(input_tokens=0, output_tokens=0, cached_tokens=0, reasoning_tokens=0)


def ask_person(question: dict[str, Any], wanted: dict[str, Any], earlier: Iterable[str]) -> str:
    """Return what a person answered; raises langgraph.errors.GraphInterrupt, which pauses the run, until then.

    LangGraph hands a node, run again from its top, all answers it ever got, in their order. The node skips the
    questions whose answers are in the ledger, so those answers come first here, and belong to others.

    Args:
        question: What the interrupt carries.
        wanted: JSON schema of the answer, for those who show the question.
        earlier: Answers of this node that are on record.
    """
    known = list(earlier)
    text = _text(interrupt(question, response_schema=wanted))
    while text in known:
        known.remove(text)
        text = _text(interrupt(question, response_schema=wanted))
    return text


def _text(answer: Any) -> str:
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, indent=1)
    return text.encode("utf-8", "replace").decode()
