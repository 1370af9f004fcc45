"""All runs, one line each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkpoints.history import Snapshot
from graph.config import SearchConfig
from graph.report.figures import duration, shown

_HEADS = ("RUN", "STATUS", "ROUND", "EVALUATIONS", "BEST", "WORKED ON")


def listing(snapshot: Snapshot, config: SearchConfig) -> dict[str, Any]:
    """Return one run's entry in `ksearch list --json`."""
    thread, values = snapshot.thread, snapshot.values
    incumbent = values.get("incumbent")
    return {
        "thread": thread.name,
        "uuid": thread.uuid,
        "task": thread.task,
        "status": thread.status,
        "reason": thread.reason,
        "stop": values.get("stop"),
        "round": values.get("round", 0),
        "evaluations": values["spend"]["evaluations"] if "spend" in values else 0,
        "budget": config.max_evaluations,
        "best": None if incumbent is None else incumbent["objective"],
        "created_at": thread.created_at,
        "updated_at": thread.updated_at,
    }


def listing_lines(runs: Sequence[Mapping[str, Any]], now: float) -> Iterator[str]:
    """Yield a table's lines; `now` is Unix time in seconds. Nothing for no runs."""
    rows = [_HEADS, *(_row(run, now) for run in runs)] if runs else []
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))] if rows else []
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(run: Mapping[str, Any], now: float) -> tuple[str, ...]:
    return (
        run["thread"],
        run["status"],
        str(run["round"]),
        f"{run['evaluations']} of {run['budget']}",
        "" if run["best"] is None else shown(run["best"], "").strip(),
        f"{duration(max(now - run['updated_at'], 0))} ago",
    )
