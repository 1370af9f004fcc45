"""What is seen of a run while it runs: a live display on a terminal, one line per event elsewhere."""

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from rich.live import Live
from rich.text import Text

from graph.cli.screen import Screen
from graph.report.events import event_line
from graph.report.progress import Progress, advanced, from_state, progress_lines

ReadState = Callable[[str], Mapping[str, Any]]
"""Thread's uuid -> its latest state. Raises StoreError."""
_QUIET = ("round", "selected")
"""Events that the live display shows by itself."""
_STYLES = {"certified": "green", "draining": "yellow", "stopping": "yellow", "environment": "yellow"}


class Display(Protocol):
    """Shows the events of a run."""

    def add(self, event: Mapping[str, Any]) -> None:
        """Show one event. Raises StoreError when the state cannot be read."""
        ...

    def __enter__(self) -> Self:
        """Start."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the screen as a person expects it."""
        ...


class PlainDisplay:
    """One line per event, for files, pipes and CI."""

    def __init__(self, screen: Screen, unit: str, budget: int) -> None:
        self._screen = screen
        self._unit = unit
        self._budget = budget

    def add(self, event: Mapping[str, Any]) -> None:
        """See `Display`."""
        line = event_line(event, self._unit, self._budget)
        if line is not None:
            self._screen.say(line)

    def __enter__(self) -> Self:
        """See `Display`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See `Display`."""


class LiveDisplay:
    """The last lines of the terminal show how far the run is; results scroll by above them."""

    def __init__(self, screen: Screen, progress: Progress, read: ReadState) -> None:
        self._screen = screen
        self._progress = progress
        self._read = read
        self._uuid = ""
        self._began = time.monotonic()
        self._live = Live(
            console=screen.console,
            get_renderable=self._render,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
        )

    def add(self, event: Mapping[str, Any]) -> None:
        """See `Display`."""
        self._progress = advanced(self._progress, event)
        if event["event"] == "thread":
            self._uuid = event["uuid"]
            self._began = time.monotonic()
        if event["event"] in ("thread", "selected"):
            # The frontier is in no event. These two come right after a checkpoint, so the state has it.
            self._progress = from_state(self._progress, self._read(self._uuid))
        line = event_line(event, self._progress.unit, self._progress.budget)
        if line is not None and event["event"] not in _QUIET:
            self._screen.say(line, _STYLES.get(event["event"], ""))

    def __enter__(self) -> Self:
        """See `Display`."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See `Display`."""
        self._live.stop()

    def _render(self) -> Text:
        width = self._screen.console.width
        lines = list(progress_lines(self._progress, time.monotonic() - self._began))
        return Text("\n").join(Text(line[:width], style="bold" if at < 3 else "") for at, line in enumerate(lines))
