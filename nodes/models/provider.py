"""A provider's model behind our seam: one layer of retries, everything recorded, errors by consequence."""

import asyncio
import math
import time
from typing import Any

import httpx2
from langchain_core.exceptions import ModelError
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.rate_limiters import BaseRateLimiter, InMemoryRateLimiter

from nodes.models.chat import ChatReply, ChatRequest
from nodes.models.clients import Client, build_client
from nodes.models.errors import ModelFailure, told
from nodes.models.options import ModelOptions
from nodes.models.reading import finish_of, model_of, text_of, usage_of
from nodes.models.target import Target
from nodes.models.wire import Exchange, current
from nodes.pricing import price_usd

FIRST_WAIT_S = 1.0
"""Before the second try; doubled for each further one."""
LONGEST_WAIT_S = 60.0
LONGEST_ASKED_S = 600.0
"""A server that asks for a longer wait than this has run out of quota: the run stops."""


class ProviderChat:
    """Implements nodes.models.chat.Chat for whatever LangChain has a chat model of. Built at the first question."""

    def __init__(self, target: Target, options: ModelOptions, limiter: BaseRateLimiter | None = None) -> None:
        """Ask `target`; `limiter` is what it shares with others who ask the same model."""
        self.target = target
        self.options = options
        self._client: Client | None = None
        self._building = asyncio.Lock()
        self.limiter = make_limiter(options) if limiter is None else limiter
        """Keeps to the limit of requests; None: there is none."""

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Return the model's reply; see `Chat` for what is raised."""
        client = await self._built()
        errors: tuple[type[Exception], ...] = (ModelError, httpx2.HTTPError, OSError, *client.errors)
        started = time.monotonic()
        for attempt in range(self.options.retries + 1):
            if self.limiter is not None:
                await self.limiter.aacquire()
            exchange = Exchange()
            try:
                message = await self._once(client, request, exchange)
                return self._reply(message, exchange, attempt + 1, time.monotonic() - started)
            except errors as error:
                wait_s = _wait_s(attempt, exchange, request)
                if attempt == self.options.retries or not _may_pass(error) or wait_s > LONGEST_ASKED_S:
                    raise self._failure(error, attempt + 1, exchange) from None
                await asyncio.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    async def close(self) -> None:
        """Let go of the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _built(self) -> Client:
        async with self._building:
            if self._client is None:
                self._client = await asyncio.to_thread(build_client, self.target, self.options)
            return self._client

    async def _once(self, client: Client, request: ChatRequest, exchange: Exchange) -> AIMessage:
        asked = request.reply_schema if self.options.structured else None
        arguments = {} if asked is None else client.structured(asked)
        token = current.set(exchange)
        try:
            async with asyncio.timeout(self.options.timeout_s):
                return await client.model.ainvoke(_messages(request), **arguments)
        finally:
            current.reset(token)

    def _reply(self, message: AIMessage, exchange: Exchange, tries: int, latency_s: float) -> ChatReply:
        usage = usage_of(message)
        model = model_of(message) or self.target.name
        return ChatReply(
            text=text_of(message),
            model=model,
            finish=finish_of(message),
            usage=usage,
            usd=None if self.target.url else price_usd(self.target.provider, model, usage),
            sent={**(exchange.sent or self._wanted()), "tries": tries},
            latency_s=round(latency_s, 3),
        )

    def _wanted(self) -> dict[str, Any]:
        """What we asked the client to send, for clients that do not let us see what they do send."""
        return {"wanted": self.options.model_dump(exclude_none=True, exclude={"requests_per_minute", "retries"})}

    def _failure(self, error: Exception, tries: int, exchange: Exchange) -> ModelFailure:
        count = "one try" if tries == 1 else f"{tries} tries"
        asked = f" (its server asks to wait {exchange.wait_s:g} s)" if exchange.wait_s else ""
        reason = told(f"{type(error).__name__}: {error}")
        return ModelFailure(f"{self.target} gave no reply after {count}{asked}, resume later or with another: {reason}")


def make_limiter(options: ModelOptions) -> BaseRateLimiter | None:
    """Return what keeps to the options' limit; None when there is none."""
    if options.requests_per_minute is None:
        return None
    return InMemoryRateLimiter(requests_per_second=options.requests_per_minute / 60, check_every_n_seconds=0.05)


def _messages(request: ChatRequest) -> list[BaseMessage]:
    system = [SystemMessage(request.system)] if request.system else []
    turns = [AIMessage(turn.text) if turn.role == "assistant" else HumanMessage(turn.text) for turn in request.turns]
    return [*system, HumanMessage(request.prompt), *turns]


def _may_pass(error: Exception) -> bool:
    if isinstance(error, ModelError):
        return error.is_retryable
    # Google's client lets the transport's errors through as they are.
    return isinstance(error, httpx2.TransportError | OSError)


def _wait_s(attempt: int, exchange: Exchange, request: ChatRequest) -> float:
    if exchange.wait_s is not None:
        return exchange.wait_s
    # Calls that failed together must not all come back together: each waits by its own digest.
    share = int(request.digest[:8], 16) / 2**32
    wait_s = min(math.ldexp(FIRST_WAIT_S, attempt), LONGEST_WAIT_S)
    return wait_s * (0.75 + 0.5 * share)
