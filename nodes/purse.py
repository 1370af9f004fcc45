"""What is left to spend on models within a round: looked at before every further call, not only between rounds."""

from collections.abc import Callable
from dataclasses import dataclass

from checkpoints.ledger import Ledger
from graph.config import SearchConfig
from graph.state import Spend
from graph.stopping import budget_spent
from nodes.accounts import add_calls


@dataclass(frozen=True)
class Purse:
    """The budgets as one node sees them, calls of its siblings in the same fan-out included.

    The state's spend is what it was when the round began. What was paid for since then stands in the ledger, whichever
    branch paid. Calls in flight are in neither: a budget is exceeded by them and by nothing else.
    """

    config: SearchConfig
    before: Spend
    """The state's spend, in which no call of `role` in `round` is counted."""
    ledger: Ledger
    thread: str
    round: int
    role: str
    elapsed_s: Callable[[], float]
    """Seconds since the wall clock of `before` was read."""

    async def empty(self) -> str:
        """Return which budget is used up, with its figures; empty while none is. Raises StoreError."""
        entries = await self.ledger.of_round(self.thread, self.round, self.role)
        spend = add_calls(self.before, self.role, (entry.spend for entry in entries if entry.spend is not None))
        stop = budget_spent(self.config, {**spend, "wall_s": spend["wall_s"] + self.elapsed_s()})
        return "" if stop is None else stop["detail"]
