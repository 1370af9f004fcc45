"""The seam between the search and chat models: one question, one reply."""

from typing import Any, Literal, Protocol

from pydantic import Field

from evaluators.digest import digest_json
from evaluators.objective import Record

Role = Literal["planner", "coder"]
Finish = Literal["stop", "length", "refusal", "filter", "other"]
"""Why a reply ended: of itself, at the token limit, by the model's refusal, by the provider's filter, otherwise."""


class Message(Record):
    """One earlier message of a conversation, after the prompt."""

    role: Literal["user", "assistant"]
    text: str


class ChatRequest(Record):
    """One question to a model."""

    role: Role
    system: str = ""
    """Instructions ahead of the prompt; empty: none are sent."""
    prompt: str
    """The first user message, its stable part first so that the provider's prompt cache applies."""
    reply_schema: dict[str, Any] | None = None
    """JSON schema of the wanted reply; None: plain text. A request to the model, not a promise of its reply."""
    turns: tuple[Message, ...] = ()
    """What followed the prompt: replies, and the corrections asked for."""
    identity: dict[str, Any]
    """What asks, as JSON free of measured figures (variant, role, kind, node, intent, parent program's digest, turn):
    cassettes find replies by it, since prompts hold times that differ from run to run."""
    round: int = Field(default=0, ge=0)
    """Where in the search: filled in by `ask_paid`, as are the next three."""
    cycle: int = Field(default=0, ge=0)
    sample: int = Field(default=0, ge=0)
    turn: int = Field(default=0, ge=0)

    @property
    def digest(self) -> str:
        """Identity of the question with all its text (64 hex digits)."""
        return digest_json(self.model_dump(mode="json"))

    @property
    def identity_digest(self) -> str:
        """Identity of the question without what was measured (64 hex digits)."""
        return digest_json(self.identity)

    @property
    def place(self) -> str:
        """Where in the search it is asked, for messages."""
        return (
            f"the {self.role} request of round {self.round}, cycle {self.cycle}, sample {self.sample}, turn {self.turn}"
        )


class Usage(Record):
    """Tokens of one call; None where the provider does not tell."""

    input_tokens: int | None = None
    """All tokens sent, cached ones included."""
    output_tokens: int | None = None
    """All tokens received, reasoning included."""
    cached_tokens: int | None = None
    """Input tokens that the provider read from its cache."""
    reasoning_tokens: int | None = None


class ChatReply(Record):
    """What a model answered. An empty or useless text is a reply too."""

    text: str
    model: str
    """The model as the response names it."""
    finish: Finish
    usage: Usage = Usage()
    usd: float | None = None
    """Price of the call, US dollars; None when it is unknown."""
    sent: dict[str, Any] = {}
    """The parameters that were really sent (without messages and keys)."""
    latency_s: float = 0.0
    """Seconds from the request to the reply, earlier tries included."""


class Chat(Protocol):
    """A chat model.

    Raises:
        UsageError: the model cannot be used as configured: a missing key, an unknown provider.
        ModelFailure: no reply came, whatever was tried; the run stops and can be resumed.
    """

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Return the model's reply to `request`."""
        ...
