"""How far a run is: folded from its events, shown while it runs. Pure; time comes from the caller."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from graph.report.events import Event
from graph.report.figures import NONE_CERTIFIED, NONE_PASSED, duration, one_line, shown

_FREE = ("unusable", "repeated")
"""Results that cost no evaluation."""
BAR = 24
"""Cells of the bar of evaluations."""
SHOWN = 3
"""Frontier nodes and cycles that are shown."""


@dataclass(frozen=True)
class Progress:
    """What is known of a run at work."""

    task: str
    unit: str
    budget: int
    """Evaluations in all."""
    thread: str = ""
    round: int = 0
    evaluations: int = 0
    """Evaluations of finished rounds."""
    pending: int = 0
    """Evaluations of the round at work."""
    began: int | None = None
    """Evaluations at the beginning of this visit; None until the first is known."""
    best: Mapping[str, float] | None = None
    """Value, low, high of the incumbent."""
    passed: bool = False
    """Whether any program has passed, certified or not."""
    frontier: tuple[Mapping[str, Any], ...] = ()
    cycles: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Active cycle -> its node and the intent's title (empty while that is not known)."""

    @property
    def done(self) -> int:
        """Evaluations so far."""
        return self.evaluations + self.pending


def from_state(progress: Progress, values: Mapping[str, Any]) -> Progress:
    """Return the progress with what a state says: where a resumed run goes on, and the frontier."""
    if "spend" not in values:
        return progress
    incumbent = values.get("incumbent")
    done = values["spend"]["evaluations"]
    return replace(
        progress,
        round=values["round"],
        evaluations=done,
        began=done if progress.began is None else progress.began,
        best=None if incumbent is None else incumbent["objective"],
        passed=progress.passed or values["spend"]["certifications"] > 0,
        frontier=tuple(values.get("frontier", ())),
        cycles={cycle["id"]: (cycle["node"], "") for cycle in values["cycles"]} | dict(progress.cycles),
    )


def advanced(progress: Progress, event: Event) -> Progress:
    """Return the progress after an event."""
    changes = _CHANGES.get(event["event"])
    return progress if changes is None else replace(progress, **changes(progress, event))


def _thread(progress: Progress, event: Event) -> dict[str, Any]:
    return {"thread": event["thread"]}


def _seed(progress: Progress, event: Event) -> dict[str, Any]:
    return {"best": event["objective"] or progress.best}


def _selected(progress: Progress, event: Event) -> dict[str, Any]:
    return {"cycles": {**progress.cycles, event["cycle"]: (event["node"], event["title"])}}


def _result(progress: Progress, event: Event) -> dict[str, Any]:
    passed = progress.passed or event["objective"] is not None
    return {"pending": progress.pending + (event["status"] not in _FREE), "passed": passed}


def _certified(progress: Progress, event: Event) -> dict[str, Any]:
    return {"best": event["objective"]} if event["accepted"] else {}


def _round(progress: Progress, event: Event) -> dict[str, Any]:
    best = None if event["incumbent"] is None else event["incumbent"]["objective"]
    return {"round": event["round"], "evaluations": event["evaluations"], "pending": 0, "best": best}


def _settled(progress: Progress, event: Event) -> dict[str, Any]:
    return {"cycles": {cycle: work for cycle, work in progress.cycles.items() if cycle != event["cycle"]}}


_CHANGES: Mapping[str, Callable[[Progress, Event], dict[str, Any]]] = {
    "thread": _thread,
    "seed": _seed,
    "selected": _selected,
    "result": _result,
    "certified": _certified,
    "round": _round,
    "settled": _settled,
}


def pace(progress: Progress, elapsed_s: float) -> tuple[float, float] | None:
    """Return (evaluations a minute, seconds left of the budget of evaluations); None while it cannot be told.

    Args:
        progress: How far the run is.
        elapsed_s: Seconds that this visit has lasted.
    """
    made = progress.done - (progress.began or 0)
    if made < 1 or elapsed_s <= 0:
        return None
    return 60 * made / elapsed_s, max(progress.budget - progress.done, 0) * elapsed_s / made


def progress_lines(progress: Progress, elapsed_s: float) -> Iterator[str]:
    """Yield the lines of the live display. Arguments as of `pace`."""
    filled = BAR if progress.budget == 0 else min(BAR * progress.done // progress.budget, BAR)
    bar = "#" * filled + "." * (BAR - filled)
    known = pace(progress, elapsed_s)
    rate = f", {known[0]:.3g} a minute, about {duration(known[1])} left" if known else ""
    yield f"{progress.thread or progress.task}  round {progress.round}, {duration(elapsed_s)}"
    yield f"[{bar}] {progress.done} of {progress.budget} evaluations{rate}"
    yield f"best: {_best(progress)}"
    for cycle, (node, title) in list(progress.cycles.items())[:SHOWN]:
        yield f"at work: cycle {cycle}, {node} {one_line(title, 60)}".rstrip()
    if len(progress.cycles) > SHOWN:
        yield f"at work: {len(progress.cycles) - SHOWN} more cycles"
    busy = {node for node, _ in progress.cycles.values()}
    for entry in [entry for entry in progress.frontier if entry["node"] not in busy][:SHOWN]:
        yield f"frontier: {entry['node']} (V {entry['priority']:.2f}) {one_line(entry['title'], 60)}"


def _best(progress: Progress) -> str:
    if progress.best is None:
        return NONE_CERTIFIED if progress.passed else NONE_PASSED
    return shown(progress.best, progress.unit) + (", as a ratio to the baseline" if progress.unit == "x" else "")
