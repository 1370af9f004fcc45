"""The events of a run as lines for people. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from graph.report.figures import NONE_CERTIFIED, NONE_PASSED, one_line, shown
from graph.wording import counted

Event = Mapping[str, Any]


def event_line(event: Event, unit: str, budget: int) -> str | None:
    """Return the event in one line, None when there is nothing to tell.

    Args:
        event: Plain JSON with at least `event`; unknown events have no line.
        unit: Unit of the objective.
        budget: Evaluations in all.
    """
    writer = _LINES.get(event["event"])
    return None if writer is None else writer(event, unit, budget)


def _thread(event: Event, unit: str, budget: int) -> str:
    return f"{event['thread']}: task {event['task']}, {counted(budget, 'evaluation')} in all"


def _seed(event: Event, unit: str, budget: int) -> str:
    return f"seed program: {_verdict(event, unit)}"


def _edits(event: Event, unit: str, budget: int) -> str:
    note = f" ({one_line(event['note'])})" if event["note"] else ""
    if not event["accepted"]:
        reasons = "; ".join(one_line(reason) for reason in event["reasons"])
        return f"plan: {counted(event['edits'], 'edit')} by {event['origin']} rejected: {reasons}{note}"
    return f"plan: {counted(event['edits'], 'edit')} by {event['origin']}, revision {event['revision']}{note}"


def _selected(event: Event, unit: str, budget: int) -> str:
    return f"cycle {event['cycle']}: {event['node']} {one_line(event['title'])}"


def _result(event: Event, unit: str, budget: int) -> str:
    return f"cycle {event['cycle']} sample {event['sample']}: {_verdict(event, unit)}"


def _verdict(event: Event, unit: str) -> str:
    figure = f" {shown(event['objective'], unit)}" if event["objective"] else ""
    message = f": {one_line(event['message'])}" if event["message"] else ""
    return f"{event['status']}{figure}{message}"


def _certified(event: Event, unit: str, budget: int) -> str:
    where = f"cycle {event['cycle']} sample {event['sample']}"
    if event["accepted"]:
        return f"{where}: certified {shown(event['objective'], unit)}, the new best"
    if event["objective"] is None:
        return f"{where}: failed certification, {_verdict(event, unit)}"
    rival = event["versus_rival"]
    versus = "" if rival is None else f"; against the best so far {shown(rival, 'x')}"
    return f"{where}: not certified as better{versus}"


def _round(event: Event, unit: str, budget: int) -> str:
    best = event["incumbent"]
    nothing = NONE_CERTIFIED if event["certifications"] else NONE_PASSED
    found = nothing if best is None else f"best {shown(best['objective'], unit)}"
    return f"round {event['round']}: {event['evaluations']} of {budget} evaluations, {found}"


def _settled(event: Event, unit: str, budget: int) -> str:
    gain = "" if event["gain"] is None else f", {event['gain']:.2f}x its parent"
    why = event["ended"] or "the search stops"
    return f"cycle {event['cycle']} ended: {event['node']} {event['status']}{gain} ({one_line(why)})"


def _environment(event: Event, unit: str, budget: int) -> str:
    return f"another environment ({one_line(event['now'])}): baseline and best are measured again"


def _draining(event: Event, unit: str, budget: int) -> str:
    return "stopping after this step; press again to stop now"


def _pausing(event: Event, unit: str, budget: int) -> str:
    return "asked to pause: stopping after this step"


def _stopping(event: Event, unit: str, budget: int) -> str:
    return "stopping now"


_LINES: Mapping[str, Callable[[Event, str, int], str]] = {
    "thread": _thread,
    "seed": _seed,
    "edits": _edits,
    "selected": _selected,
    "result": _result,
    "certified": _certified,
    "round": _round,
    "settled": _settled,
    "environment": _environment,
    "draining": _draining,
    "pausing": _pausing,
    "stopping": _stopping,
}
