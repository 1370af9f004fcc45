"""All runs, one line each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkpoints.history import Snapshot
from checkpoints.lineage import Lineage
from graph.config import SearchConfig
from graph.report.figures import duration, shown

_HEADS = ("RUN", "STATUS", "ROUND", "EVALUATIONS", "BEST", "WORKED ON")


def listing(snapshot: Snapshot, config: SearchConfig, lineage: Lineage | None = None) -> dict[str, Any]:
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
        "parent": None if lineage is None else lineage.parent,
        "branched_at": None if lineage is None else lineage.round,
        "best": None if incumbent is None else incumbent["objective"],
        "created_at": thread.created_at,
        "updated_at": thread.updated_at,
        "worked_at": max(thread.updated_at, thread.beat_at or 0.0),
    }


def by_descent(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs with each branch right below its parent, oldest branch first, and `guides`: how it is drawn."""
    known = {run["uuid"] for run in runs}
    below: dict[str | None, list[dict[str, Any]]] = {}
    for run in runs:
        below.setdefault(run["parent"] if run["parent"] in known else None, []).append(run)
    ordered: list[dict[str, Any]] = []
    waiting = [(run, "", "") for run in reversed(below.get(None, []))]
    while waiting:
        run, guides, deeper = waiting.pop()
        ordered.append({**run, "guides": guides})
        children = sorted(below.get(run["uuid"], []), key=lambda child: (child["branched_at"], child["created_at"]))
        for child in reversed(children):
            last = child is children[-1]
            waiting.append((child, deeper + ("└╴" if last else "├╴"), deeper + ("  " if last else "│ ")))
    return ordered


def listing_lines(runs: Sequence[Mapping[str, Any]], now: float) -> Iterator[str]:
    """Yield a table's lines; `now` is Unix time in seconds. Nothing for no runs."""
    rows = [_HEADS, *(_row(run, now) for run in runs)] if runs else []
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))] if rows else []
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(run: Mapping[str, Any], now: float) -> tuple[str, ...]:
    origin = "" if run["branched_at"] is None or "guides" not in run else f" (from round {run['branched_at']})"
    return (
        run.get("guides", "") + run["thread"] + origin,
        run["status"],
        str(run["round"]),
        f"{run['evaluations']} of {run['budget']}",
        "" if run["best"] is None else shown(run["best"], "").strip(),
        "now" if run["status"] == "running" else f"{duration(max(now - run['worked_at'], 0))} ago",
    )
