"""The log of a run: every event as one line of JSON in `logs/NAME.jsonl` of the folder of the runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import structlog

from checkpoints.faults import storage_errors


class RunLog:
    """Writes the events of one visit to a run. No secrets: events hold facts of the state only."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "logs"
        self._file: TextIO | None = None
        self._logger: Any = None

    def add(self, event: Mapping[str, Any]) -> None:
        """Append one event. Those before the run has a name are not kept. Raises StoreError."""
        with storage_errors(self._folder):
            if self._file is None and "thread" in event:
                self._open(event["thread"])
            if self._logger is not None:
                facts = {name: value for name, value in event.items() if name != "event"}
                self._logger.info(event["event"], **facts)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _open(self, thread: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file = (self._folder / f"{thread}.jsonl").open("a", encoding="utf-8", errors="backslashreplace")
        # Wrapped here and not configured for the process: the library's users have loggers of their own.
        self._logger = structlog.wrap_logger(
            structlog.WriteLogger(self._file),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.JSONRenderer(),
            ],
            wrapper_class=structlog.BoundLogger,
            context_class=dict,
        )
