"""A LangChain message as our record: text, why it ended, tokens. Pure, and calm about whatever a provider sends."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage

from nodes.models.chat import Finish, Usage

_FINISHES: Mapping[str, Finish] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "eos": "stop",
    "complete": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "content_filter": "filter",
    "safety": "filter",
    "recitation": "filter",
    "blocklist": "filter",
    "prohibited_content": "filter",
    "spii": "filter",
    "language": "filter",
}
"""Every provider's words, in lower case."""


def text_of(message: AIMessage) -> str:
    """Return the text of a reply without reasoning; a refusal's words when there is nothing else."""
    text = str(message.text) or _refusal(message) or ""
    # Half a surrogate pair, which JSON can spell, is no text.
    return text.encode("utf-8", "replace").decode()


def finish_of(message: AIMessage) -> Finish:
    """Return why the reply ended."""
    if _refusal(message) is not None:
        return "refusal"
    metadata = message.response_metadata
    if _mapping(metadata.get("prompt_feedback")).get("block_reason"):
        return "filter"
    incomplete = _mapping(metadata.get("incomplete_details")).get("reason")
    words = (incomplete, *(metadata.get(name) for name in ("finish_reason", "stop_reason", "done_reason", "status")))
    told = next((word for word in words if isinstance(word, str)), "")
    return _FINISHES.get(told.lower(), "other")


def model_of(message: AIMessage) -> str | None:
    """Return the model's name as the response has it."""
    metadata = message.response_metadata
    return next((metadata[name] for name in ("model_name", "model") if isinstance(metadata.get(name), str)), None)


def usage_of(message: AIMessage) -> Usage:
    """Return the tokens; None for each that the response does not tell."""
    usage = _mapping(message.usage_metadata)
    return Usage(
        input_tokens=_count(usage.get("input_tokens")),
        output_tokens=_count(usage.get("output_tokens")),
        cached_tokens=_count(_mapping(usage.get("input_token_details")).get("cache_read")),
        reasoning_tokens=_count(_mapping(usage.get("output_token_details")).get("reasoning")),
    )


def _refusal(message: AIMessage) -> str | None:
    told = message.additional_kwargs.get("refusal")
    if isinstance(told, str):
        return told
    blocks = message.content if isinstance(message.content, list) else []
    found = (block.get("refusal") for block in blocks if isinstance(block, dict) and block.get("type") == "refusal")
    return next((text for text in found if isinstance(text, str)), None)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
