"""How models are called, whichever they are."""

from pydantic import Field

from evaluators.objective import Record


class ModelOptions(Record):
    """Options of a chat model; what a provider does not know is left out, and what was sent is on record."""

    timeout_s: float = Field(default=900.0, gt=0, le=86_400)
    """Wall-clock limit of one try, seconds."""
    retries: int = Field(default=4, ge=0, le=100)
    """Further tries after errors that may pass: rate limits, server faults, timeouts, broken connections."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    """Limit for each model by itself, in this process; None: none of our own."""
    reasoning_effort: str | None = None
    """`low`, `medium`, `high`, ... in the provider's words; None: its default."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """None: the provider's default."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Limit of one reply, reasoning included; None: the provider's default."""
    structured: bool = True
    """Hand the wanted JSON schema to providers that take one; false for servers that refuse it."""
