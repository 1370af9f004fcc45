"""How good each search of an experiment was when it had spent so much. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evaluators.objective import Goal
from graph.wording import counted

Kind = Literal["evaluations", "tokens", "usd"]
KINDS: tuple[Kind, ...] = ("evaluations", "tokens", "usd")


@dataclass(frozen=True)
class Budget:
    """So much of one kind of spend."""

    kind: Kind
    amount: float

    def __str__(self) -> str:
        if self.kind == "usd":
            return f"{self.amount:.2f} US dollars"
        return counted(round(self.amount), self.kind.removesuffix("s"))

    @staticmethod
    def parse(text: str) -> "Budget | None":
        """Return the budget in "tokens=20000", None when it is none."""
        name, _, amount = text.partition("=")
        try:
            value = float(amount)
        except ValueError:
            return None
        named: list[Kind] = [kind for kind in KINDS if str(kind) == name.strip()]
        return Budget(named[0], value) if named and 0 <= value < float("inf") else None


@dataclass(frozen=True)
class Point:
    """A search at the end of a round."""

    evaluations: int
    tokens: int
    usd: float
    best: float | None
    """The best objective so far, None while nothing has passed."""

    def spent(self, kind: Kind) -> float:
        """Return how much of a kind was spent."""
        return {"evaluations": self.evaluations, "tokens": self.tokens, "usd": self.usd}[kind]


@dataclass(frozen=True)
class Replies:
    """What planner and coder said in a search."""

    count: int
    distinct: int
    programs: int
    distinct_programs: int
    trace: str | None
    """Equal for searches in which everything was said alike; None when nothing was said."""


@dataclass(frozen=True)
class Search:
    """One search of an experiment, as far as it is."""

    run: str
    cell: str
    unit: str
    task: str
    finished: bool
    points: tuple[Point, ...]
    """In the order of the rounds."""
    replies: Replies

    def reached(self, budget: Budget) -> bool:
        """Whether the search has gone so far, or has ended before."""
        return self.finished or (bool(self.points) and self.points[-1].spent(budget.kind) >= budget.amount)

    def best_at(self, budget: Budget) -> float | None:
        """Return the best objective when no more than the budget was spent, None when nothing had passed."""
        within = [point for point in self.points if point.spent(budget.kind) <= budget.amount]
        return within[-1].best if within else None


def worth(value: float | None, goal: Goal) -> float:
    """Return a figure of which more is better, for ranks only: nothing found is worse than anything."""
    if value is None:
        return float("-inf")
    return value if goal == "max" else -value


def default_budgets(searches: Sequence[Search], evaluations: int) -> tuple[Budget, ...]:
    """Return what is looked at unless it is said: a quarter, half and all of the evaluations, and what all spent."""
    amounts = sorted({max(evaluations // 4, 1), max(evaluations // 2, 1), evaluations})
    found = [Budget("evaluations", amount) for amount in amounts if amount]
    kinds: tuple[Kind, ...] = ("tokens", "usd")
    for kind in kinds:
        least = min((item.points[-1].spent(kind) for item in searches if item.points), default=0)
        if least > 0:
            found.append(Budget(kind, least))
    return tuple(found)
