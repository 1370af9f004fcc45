"""What a provider's client really sends, and how long its server asks us to wait: seen at the HTTP client."""

import json
import re
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import httpx2

from evaluators.digest import digest_json

_TEXTS = frozenset({"messages", "input", "instructions", "contents", "systemInstruction"})
"""Parameters that hold the prompt, which is on record as it is."""
_SCHEMAS = frozenset({"schema", "responseJsonSchema", "responseSchema"})
_RETRY_DELAY = re.compile(rb'"retryDelay"\s*:\s*"(\d{1,6}(?:\.\d{1,9})?)s"')
_BUSY = (429, 503)


@dataclass
class Exchange:
    """One request and what came of it."""

    sent: dict[str, Any] = field(default_factory=dict)
    """The body's parameters, without the prompt; schemas by their digest. Empty: the client told us nothing."""
    wait_s: float | None = None
    """How long the server asks us to wait before the next try, seconds."""


current: ContextVar[Exchange | None] = ContextVar("current", default=None)
"""The exchange that the running task records."""


def event_hooks() -> dict[str, list[Callable[[Any], Awaitable[None]]]]:
    """Return hooks for an asynchronous HTTP client that fill in the current exchange. Headers are never recorded."""
    return {"request": [_on_request], "response": [_on_response]}


async def _on_request(request: httpx2.Request) -> None:
    exchange = current.get()
    if exchange is None:
        return
    body = json.loads(request.content or b"{}")
    parameters = {name: value for name, value in body.items() if name not in _TEXTS}
    exchange.sent = {"path": request.url.path, **_without_schemas(parameters)}


async def _on_response(response: httpx2.Response) -> None:
    exchange = current.get()
    if exchange is None or response.status_code not in _BUSY:
        return
    exchange.wait_s = _seconds(response.headers.get("retry-after", ""))
    if exchange.wait_s is None:
        # Google says it in the body.
        found = _RETRY_DELAY.search(await response.aread())
        exchange.wait_s = float(found[1]) if found else None


def _seconds(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,6}(\.\d{1,9})?", text) else None


def _without_schemas(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_schemas(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: f"schema {digest_json(item)[:12]}" if name in _SCHEMAS else _without_schemas(item)
        for name, item in value.items()
    }
