"""Which model is asked in which round, from one string.

openai:gpt-5.2                                              one model throughout
openai:gpt-5.2 until 150, google_genai:gemini-3-pro-preview the first up to and with round 150, then the second
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from evaluators.errors import UsageError

_UNTIL = re.compile(r"(?:^|\s+)until\s+(\d+)\s*,\s*")
_TRAILING = re.compile(r"\suntil\s+\d+\s*,?\s*$")


@dataclass(frozen=True)
class Stage:
    """One model of a schedule."""

    spec: str
    last: int | None
    """The last round it is asked in; None: to the end."""


def parse_schedule(spec: str) -> tuple[Stage, ...]:
    """Return the stages of a model string, at least one, the last without an end. Raises UsageError."""
    parts = _UNTIL.split(spec.strip())
    specs, ends = [part.strip() for part in parts[::2]], [int(end) for end in parts[1::2]]
    if not all(specs):
        raise UsageError(f"models {spec!r}: a model is missing; write `MODEL until ROUND, MODEL`")
    if _TRAILING.search(specs[-1]):
        raise UsageError(f"models {spec!r}: the last one goes on to the end; write `MODEL until ROUND, MODEL`")
    if any(later <= earlier for earlier, later in pairwise(ends)):
        raise UsageError(f"models {spec!r}: the rounds after `until` must rise")
    return tuple(Stage(one, last) for one, last in zip(specs, [*ends, None], strict=True))


def model_at(stages: tuple[Stage, ...], round: int) -> str:
    """Return the string of the model that is asked in `round` (0: initialize)."""
    return next(stage.spec for stage in stages if stage.last is None or round <= stage.last)
