"""What a configuration from the server may name: whoever reaches the server must not run or read what they like."""

import os
from collections.abc import Iterable

from evaluators.errors import UsageError
from graph.config import SearchConfig
from graph.context import RunContext
from graph.presets import nearest
from nodes.models.factory import kinds

ALLOW = "KSEARCH_SERVER_ALLOW"
"""Environment variable: kinds that the server may use all the same, separated by commas, such as `exec,script`."""
REFUSED = ("exec", "script", "cassette")
"""Run a command, or read a file that the configuration names."""
_LANGGRAPHS = ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map")
"""Keys of LangGraph's own that stand among ours when a client sends `configurable` in place of `context`."""


def refuse_unsafe(config: SearchConfig) -> None:
    """Raise UsageError when the configuration names a command or a file, unless the environment allows that kind."""
    allowed = {kind.strip() for kind in os.environ.get(ALLOW, "").split(",")}
    named = {*kinds(config.planner), *kinds(config.coder), config.evaluator.partition(":")[0]}
    named |= set() if config.first_tier is None else {config.first_tier.partition(":")[0]}
    for kind in sorted(named & set(REFUSED) - allowed):
        raise UsageError(f"{kind}: is refused from the server; to allow it, start the server with {ALLOW}={kind}")


def unknown_key(keys: Iterable[str]) -> UsageError | None:
    """Return what is wrong when the context has a key that there is not, which the server drops without a word."""
    known = list(RunContext.model_fields)
    for key in keys:
        if key in known or key in _LANGGRAPHS or key.startswith("__"):
            continue
        if key in SearchConfig.model_fields:
            return UsageError(f"context {key!r}: is an option; put it into the context's options: {{{key!r}: ...}}")
        return UsageError(f"context {key!r} is unknown{nearest(key, known)}")
    return None
