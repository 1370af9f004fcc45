"""A provider's model, and the key it is reached with: from the environment, and never another server's."""

import os
from dataclasses import dataclass

from evaluators.errors import UsageError

SERVER_KEY = "KSEARCH_SERVER_API_KEY"
"""Environment variable with the key for `PROVIDER:NAME@URL`. A provider's own key is never sent to another server."""
_KEYS = {"openai": ("OPENAI_API_KEY",), "google_genai": ("GOOGLE_API_KEY", "GEMINI_API_KEY")}
_NO_KEY = "none"


@dataclass(frozen=True)
class Target:
    """A provider's model."""

    provider: str
    name: str
    url: str | None = None
    """Another server that speaks the provider's language; None: the provider's."""

    def __str__(self) -> str:
        """Return the string that names it."""
        return f"{self.provider}:{self.name}" + (f"@{self.url}" if self.url else "")


def find_key(target: Target) -> str:
    """Return the key of a model; empty for providers whose packages find theirs by themselves.

    Raises:
        UsageError: there is none; names the variables.
    """
    if target.url:
        return os.environ.get(SERVER_KEY) or _NO_KEY
    names = _KEYS.get(target.provider, ())
    key = next((os.environ[name] for name in names if os.environ.get(name)), "")
    if names and not key:
        raise UsageError(f"{target} needs a key: set {' or '.join(names)} in the environment or in .env")
    return key
