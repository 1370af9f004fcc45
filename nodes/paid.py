"""Paid calls: whatever costs money or device time goes through here, and is never paid twice."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from checkpoints.blobs import BlobStore
from checkpoints.ledger import Ledger, LedgerKey, once
from evaluators.digest import digest_json
from nodes.purse import Purse

Call = Callable[[], Awaitable[tuple[Any, dict[str, Any]]]]


@dataclass
class PaidCalls:
    """The paid calls of one place in the search: a round, a cycle, a sample."""

    ledger: Ledger
    blobs: BlobStore
    thread: str
    round: int
    cycle: int = 0
    sample: int = 0
    spent: list[dict[str, Any]] = field(default_factory=list)
    """Spend of each call made or found, in order."""
    purse: Purse | None = None
    """What is left to spend; None: nobody looks."""

    def key(self, role: str, request: Any, turn: int = 0) -> LedgerKey:
        """Return what tells a call at this place from every other; `request` is the JSON that identifies it."""
        return LedgerKey(
            thread=self.thread,
            round=self.round,
            cycle=self.cycle,
            sample=self.sample,
            role=role,
            turn=turn,
            request=digest_json(request),
        )

    async def once(self, role: str, request: Any, call: Call, turn: int = 0) -> Any:
        """Return the JSON result of `call`, from the ledger when this very request was paid for before.

        `request` is the JSON that identifies the call. `call` returns (result, spend), both JSON.
        """
        result, spend, _ = await once(self.ledger, self.blobs, self.key(role, request, turn), call)
        self.spent.append(spend)
        return result
