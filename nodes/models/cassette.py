"""`cassette:FILE`: replies from a recorded run, found by place and by what was asked, measured figures left out."""

import asyncio
from pathlib import Path

from evaluators.recording import Cassette, Place, load_cassette
from nodes.models.chat import ChatReply, ChatRequest


class CassetteChat:
    """Implements nodes.models.chat.Chat by a recording; the file is read at the first question."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._cassette: Cassette | None = None

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Return the recorded reply, its tokens and price included.

        Raises:
            CassetteMiss: there is none; names role, round, cycle, sample, turn and digest.
            UsageError: the file is no cassette.
        """
        if self._cassette is None:
            self._cassette = await asyncio.to_thread(load_cassette, self.file)
        entry = self._cassette.get("reply", place_of(request), request.identity_digest)
        return ChatReply.model_validate(entry.result)


def place_of(request: ChatRequest) -> Place:
    """Return where in the search a question is asked."""
    return Place(role=request.role, round=request.round, cycle=request.cycle, sample=request.sample, turn=request.turn)
