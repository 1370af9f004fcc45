"""LangChain's chat models, built for us: no streaming, no retries of their own, what they send recorded."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel

from evaluators.errors import UsageError
from nodes.models.errors import told
from nodes.models.options import ModelOptions
from nodes.models.target import Target, find_key
from nodes.models.wire import event_hooks

FOREIGN: tuple[type[Exception], ...] = (Exception,)
"""What a package that we do not know may raise: anything."""
MALFORMED: tuple[type[Exception], ...] = (ValueError, TypeError, LookupError, AttributeError)
"""What clients trip over when a response is not what its API promises."""

Arguments = Callable[[dict[str, Any]], dict[str, Any]]
"""JSON schema -> arguments of the call that ask for it."""


@dataclass(frozen=True)
class Client:
    """A chat model, how it is asked for JSON, and how it is let go."""

    model: BaseChatModel
    structured: Arguments
    close: Callable[[], Awaitable[None]]
    errors: tuple[type[Exception], ...]
    """What it may raise beside LangChain's and the transport's errors."""


def build_client(target: Target, options: ModelOptions) -> Client:
    """Return the client of a model; blocks while its package is imported.

    Raises:
        UsageError: no key, no such provider, its package is not installed, or an option that it refuses.
    """
    if target.provider == "openai":
        return _openai(target, options)
    return _google(target, options) if target.provider == "google_genai" else _other(target, options)


def _openai(target: Target, options: ModelOptions) -> Client:
    from langchain_openai import ChatOpenAI
    from openai import DefaultAsyncHttpxClient, OpenAIError

    key = find_key(target)
    http = DefaultAsyncHttpxClient(event_hooks=event_hooks())
    limit = options.max_output_tokens
    given: dict[str, Any] = {
        "model": target.name,
        "base_url": target.url,
        "api_key": key,
        "max_tokens": None if target.url else limit,
    }
    # Compatible servers know the older name of the limit.
    body = {"max_tokens": limit} if target.url and limit is not None else {}
    model = ChatOpenAI(
        **given,
        temperature=options.temperature,
        reasoning_effort=options.reasoning_effort,
        timeout=options.timeout_s,
        max_retries=0,
        http_async_client=http,
        disable_streaming=True,
        extra_body=body or None,
    )
    by_responses = model._use_responses_api({})

    def structured(schema: dict[str, Any]) -> dict[str, Any]:
        asked = {"name": "reply", "schema": schema, "strict": is_strict(schema)}
        wanted = {"type": "json_schema", "json_schema": asked}
        if by_responses:
            return {"response_format": wanted}
        # As a plain argument it makes the client parse the reply, and raise away what it cannot parse.
        return {"extra_body": {**body, "response_format": wanted}}

    return Client(model, structured, http.aclose, (OpenAIError, *MALFORMED))


def _google(target: Target, options: ModelOptions) -> Client:
    from langchain_google_genai import ChatGoogleGenerativeAI

    given: dict[str, Any] = {"model": target.name, "api_key": find_key(target)}
    if target.url:
        given["base_url"] = target.url
    if options.reasoning_effort is not None:
        given["reasoning_effort"] = options.reasoning_effort
    if options.temperature is not None:
        given["temperature"] = options.temperature
    try:
        model = ChatGoogleGenerativeAI(
            **given,
            max_output_tokens=options.max_output_tokens,
            timeout=options.timeout_s,
            max_retries=1,  # tries, not retries
            client_args={"event_hooks": event_hooks()},
            disable_streaming=True,
        )
    except ValueError as error:
        raise _refused(target, error) from None

    def structured(schema: dict[str, Any]) -> dict[str, Any]:
        return {"response_mime_type": "application/json", "response_json_schema": schema}

    async def close() -> None:
        if model.client is not None:
            await model.client.aio.aclose()

    # Which HTTP package it uses, and so what it raises, depends on what else is installed.
    return Client(model, structured, close, FOREIGN)


def _other(target: Target, options: ModelOptions) -> Client:
    """Return any other model that LangChain knows, asked for JSON by the prompt alone."""
    from langchain.chat_models import init_chat_model

    if target.url:
        raise UsageError(f"{target}: only openai and google_genai models can be reached at another address")
    given: dict[str, Any] = {
        "temperature": options.temperature,
        "max_tokens": options.max_output_tokens,
        "reasoning_effort": options.reasoning_effort,
    }
    try:
        model = init_chat_model(
            target.name,
            model_provider=target.provider,
            timeout=options.timeout_s,
            max_retries=0,
            disable_streaming=True,
            configurable_fields=None,
            **{name: value for name, value in given.items() if value is not None},
        )
    except ImportError as error:
        raise UsageError(f"{target}: a package is not installed: {told(str(error))}") from None
    except FOREIGN as error:
        raise _refused(target, error) from None

    async def close() -> None:
        """Nothing of ours to let go."""

    return Client(model, lambda schema: {}, close, FOREIGN)


def _refused(target: Target, error: Exception) -> UsageError:
    return UsageError(f"{target} cannot be used: {told(str(error))}")


def is_strict(schema: Any) -> bool:
    """Return whether OpenAI can hold a model to the schema: every object is closed and all its properties required."""
    if isinstance(schema, list):
        return all(is_strict(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" and not (
        schema.get("additionalProperties") is False
        and set(schema.get("required", ())) == set(schema.get("properties", ()))
    ):
        return False
    return all(is_strict(item) for item in schema.values())
