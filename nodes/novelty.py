"""Which programs a thread has evaluated, by their novelty keys: derived from the log of attempts, never stored."""

from typing import Any

from checkpoints.blobs import BlobStore
from checkpoints.logs import Log, newest


class NoveltyIndex:
    """The first evaluated attempt of each novelty key in one thread's log."""

    def __init__(self) -> None:
        self._read = 0
        self._first: dict[str, dict[str, Any]] = {}

    def find(self, blobs: BlobStore, log: Log, key: str) -> dict[str, Any] | None:
        """Return the first attempt in `log` with `key`; reads only what was added since the last call."""
        if log["count"] < self._read:
            self._read, self._first = 0, {}
        for attempt in newest(blobs, log, log["count"] - self._read):
            if attempt["key"] is not None and attempt["result"]["outcome"] == "evaluated":
                self._first.setdefault(attempt["key"], attempt)
        self._read = log["count"]
        found = self._first.get(key)
        return None if found is None or found["number"] > log["count"] else found
