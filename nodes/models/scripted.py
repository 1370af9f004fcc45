"""A model that says what it was told to, in order: for tests and demonstrations; shipped, so that nothing is mocked."""

from collections.abc import Iterable

from nodes.models.chat import ChatReply, ChatRequest, Usage
from nodes.models.errors import ModelFailure


class ScriptedChat:
    """Implements nodes.models.chat.Chat by given replies; keeps the questions."""

    def __init__(self, replies: Iterable[str | ChatReply]) -> None:
        """Answer with `replies` in order; a text is a reply that ended of itself."""
        self._replies = list(replies)
        self.asked: list[ChatRequest] = []
        """Every question so far."""

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Return the next reply, with a token counted for every four characters.

        Raises:
            ModelFailure: all of them were given.
        """
        if len(self.asked) == len(self._replies):
            raise ModelFailure(f"the script has no reply for {request.place}")
        reply = self._replies[len(self.asked)]
        self.asked.append(request)
        if isinstance(reply, ChatReply):
            return reply
        sent = len(request.system) + len(request.prompt) + sum(len(message.text) for message in request.turns)
        usage = Usage(input_tokens=sent // 4, output_tokens=len(reply) // 4, cached_tokens=0, reasoning_tokens=0)
        return ChatReply(text=reply, model="scripted", finish="stop", usage=usage, usd=0.0)
