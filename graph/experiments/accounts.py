"""What the searches of an experiment have spent together, and whether that is all they may. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from graph.experiments.plan import Limits


@dataclass(frozen=True)
class Spent:
    """Spend of one search, or of several."""

    evaluations: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.evaluations + other.evaluations, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.evaluations - other.evaluations, self.tokens - other.tokens, self.usd - other.usd)


NOTHING = Spent()


def spent_of(values: Mapping[str, Any]) -> Spent:
    """Return what a search's state says; nothing for the state of one that has not begun."""
    spend = values.get("spend")
    if spend is None:
        return NOTHING
    return Spent(spend["evaluations"], spend["input_tokens"] + spend["output_tokens"], spend["usd"])


def in_all(several: Iterable[Spent]) -> Spent:
    """Return the sum."""
    return sum(several, NOTHING)


def used_up(limits: Limits, spent: Spent, wall_s: float) -> str:
    """Return which limit is reached, with its figures; empty while none is."""
    budgets = (
        (f"{spent.evaluations} of {limits.evaluations} evaluations", spent.evaluations, limits.evaluations),
        (f"{spent.tokens} of {limits.tokens} tokens", spent.tokens, limits.tokens),
        (f"{spent.usd:.2f} of {limits.usd or 0:.2f} US dollars", spent.usd, limits.usd),
        (f"{wall_s:.0f} of {limits.wall_s or 0:.0f} seconds", wall_s, limits.wall_s),
    )
    for text, used, limit in budgets:
        if limit is not None and used >= limit:
            return f"{text} are spent"
    return ""
