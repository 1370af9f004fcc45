"""Chat models from one string. Nothing is imported, read or connected before the first question.

| string | model |
|---|---|
| `openai:NAME`, `google_genai:NAME` | the provider's; needs OPENAI_API_KEY, GOOGLE_API_KEY |
| `openai:NAME@URL` | a server that speaks the provider's language; its key, if any, in KSEARCH_SERVER_API_KEY |
| `PROVIDER:NAME` | any other that LangChain's `init_chat_model` knows, when its package is installed |
| `exec:COMMAND` | a command: prompt on standard input, reply on standard output |
| `manual` | a person, asked at a pause of the run |
| `cassette:FILE` | a recorded run |
| `A until 150, B` | A up to and with round 150, then B (any of the above, any number of stages) |
"""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from evaluators.errors import UsageError
from evaluators.recording import load_cassette
from nodes.models.chat import Chat, ChatReply, ChatRequest
from nodes.models.options import ModelOptions
from nodes.models.schedule import Stage, model_at, parse_schedule
from nodes.models.target import Target, find_key

if TYPE_CHECKING:
    from langchain_core.rate_limiters import BaseRateLimiter

PROVIDERS = (
    *("openai", "google_genai", "anthropic", "anthropic_bedrock", "azure_ai", "azure_openai", "baseten", "bedrock"),
    *("bedrock_converse", "cohere", "deepseek", "fireworks", "google_anthropic_vertex", "google_vertexai", "groq"),
    *("huggingface", "ibm", "litellm", "mistralai", "nvidia", "ollama", "openrouter", "perplexity", "together"),
    *("upstage", "xai"),
)
"""Known to `init_chat_model`."""
_AT = re.compile(r"(?P<name>.+?)@(?P<url>[A-Za-z][A-Za-z0-9+.-]*://.*)", re.DOTALL)
_DEFAULTS = ModelOptions()


class ScheduledChat:
    """Implements nodes.models.chat.Chat by one model up to a round, then the next."""

    def __init__(self, stages: tuple[Stage, ...], chats: Mapping[str, Chat]) -> None:
        self._stages = stages
        self._chats = chats

    def at(self, round: int) -> Chat:
        """Return the model that is asked in `round`."""
        return self._chats[model_at(self._stages, round)]

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Ask the model of the request's round."""
        return await self.at(request.round).ask(request)


class Chats:
    """The chat models of one process: one of each string and set of options. Rate limits are shared by a model's."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ModelOptions], Chat] = {}
        self._limiters: dict[tuple[str, float], BaseRateLimiter] = {}

    def get(self, spec: str, options: ModelOptions = _DEFAULTS) -> Chat:
        """Return the model, or schedule of models, that `spec` names. Raises UsageError when it names none."""
        stages = parse_schedule(spec)
        chats = {stage.spec: self._one(stage.spec, options) for stage in stages}
        return ScheduledChat(stages, chats) if len(chats) > 1 else next(iter(chats.values()))

    async def close(self) -> None:
        """Let go of all connections."""
        from nodes.models.provider import ProviderChat

        made, self._made = self._made, {}
        for chat in made.values():
            if isinstance(chat, ProviderChat):
                await chat.close()

    def _one(self, spec: str, options: ModelOptions) -> Chat:
        key = (spec, options)
        if key not in self._made:
            self._made[key] = _make(spec, options, self._limiter(spec, options))
        return self._made[key]

    def _limiter(self, spec: str, options: ModelOptions) -> "BaseRateLimiter | None":
        """Return the limiter of a model: whatever its other options are, a provider counts the requests together."""
        if options.requests_per_minute is None:
            return None
        from nodes.models.provider import make_limiter

        key = (spec, options.requests_per_minute)
        if key not in self._limiters and (made := make_limiter(options)) is not None:
            self._limiters[key] = made
        return self._limiters.get(key)


def kinds(spec: str) -> tuple[str, ...]:
    """Return what stands before the colon in each stage: `openai`, `exec`, ... For whoever must refuse some."""
    return tuple(stage.spec.partition(":")[0] for stage in parse_schedule(spec))


def require(spec: str) -> None:
    """Raise UsageError when a model that `spec` names will lack its key, recording or command. Nothing is asked."""
    for stage in parse_schedule(spec):
        kind, _, rest = stage.spec.partition(":")
        if kind == "cassette":
            load_cassette(Path(rest))
        elif kind == "exec" and rest.strip():
            from nodes.models.command import require_command

            require_command(rest)
        elif kind in PROVIDERS:
            find_key(_target(kind, rest.strip()))


def _make(spec: str, options: ModelOptions, limiter: "BaseRateLimiter | None") -> Chat:
    kind, colon, rest = spec.partition(":")
    if spec == "manual":
        from nodes.models.manual import ManualChat

        return ManualChat()
    if not colon or not rest.strip():
        raise UsageError(f"model {spec!r} is incomplete: write PROVIDER:NAME, exec:COMMAND, cassette:FILE or manual")
    if kind == "exec":
        from nodes.models.command import ExecChat

        return ExecChat(rest, options)
    if kind == "cassette":
        from nodes.models.cassette import CassetteChat

        return CassetteChat(Path(rest))
    return _provider(kind, rest.strip(), options, limiter)


def _provider(kind: str, rest: str, options: ModelOptions, limiter: "BaseRateLimiter | None") -> Chat:
    if kind not in PROVIDERS:
        close = difflib.get_close_matches(kind, (*PROVIDERS, "exec", "manual", "cassette"), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UsageError(f"model {kind}:{rest}: there is no provider {kind!r}{hint or '; docs/models.md lists them'}")
    from nodes.models.provider import ProviderChat

    return ProviderChat(_target(kind, rest), options, limiter)


def _target(kind: str, rest: str) -> Target:
    found = _AT.fullmatch(rest)
    name, url = (found["name"], _checked(found["url"])) if found else (rest, None)
    return Target(kind, name, url)


def _checked(url: str) -> str:
    """Return the address of a server. Raises UsageError; the message never holds credentials."""
    try:
        parts = urlsplit(url)
        host, credentials, _ = parts.hostname, parts.username or parts.password, parts.port
    except ValueError as error:
        raise UsageError(f"a model's address is wrong: {error}") from None
    if credentials is not None:
        raise UsageError("a model's address must not hold credentials: put the key into KSEARCH_SERVER_API_KEY")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or re.search(r"\s", url):
        raise UsageError(f"model address {url!r} must be http://HOST[:PORT][/PATH]")
    return url
