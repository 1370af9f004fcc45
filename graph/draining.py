"""Ending runs in order: when a person or a signal asks, each ends at its next boundary, with nothing lost."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langgraph.runtime import RunControl

Listen = Callable[[dict[str, Any]], None]
"""Receives every event of a run, as it happens: plain JSON with at least `event`."""


class Drain:
    """The runs of this process that are asked to end together, those that are still to begin included."""

    def __init__(self) -> None:
        self.reason = ""
        """Why they were asked to end; empty while they were not."""
        self._controls: set[RunControl] = set()

    @property
    def requested(self) -> bool:
        """Whether every run is ending, for this or another reason."""
        return bool(self.reason) or (bool(self._controls) and all(item.drain_requested for item in self._controls))

    def request(self, reason: str) -> None:
        """Ask every run to end at its next boundary."""
        self.reason = self.reason or reason
        for control in self._controls:
            control.request_drain(reason)

    @contextmanager
    def control(self) -> Iterator[RunControl]:
        """Give one run's control, for as long as it runs."""
        control = RunControl()
        if self.reason:
            control.request_drain(self.reason)
        self._controls.add(control)
        try:
            yield control
        finally:
            self._controls.remove(control)


class draining:
    """While active, the first SIGINT or SIGTERM ends the runs at the next boundary, the second one at once."""

    def __init__(self, drain: Drain, listen: Listen) -> None:
        self._drain = drain
        self._listen = listen
        self._task = asyncio.current_task()

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._received, number)

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    def _received(self, number: int) -> None:
        name = signal.Signals(number).name
        if self._drain.requested:
            self._listen({"event": "stopping", "signal": name})
            if self._task is not None:
                self._task.cancel()
            return
        self._drain.request(name)
        self._listen({"event": "draining", "signal": name})
