"""Curves of an experiment: how good its cells are by what they have spent. Drawn by matplotlib, an optional extra."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints.faults import storage_errors
from evaluators.errors import UsageError
from graph.experiments.curves import KINDS, Budget, Kind
from graph.experiments.findings import CellFindings, TaskFindings
from graph.experiments.significance import geometric_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS = 200
_LABELS: dict[Kind, str] = {"evaluations": "evaluations", "tokens": "tokens", "usd": "US dollars"}


def write_png(found: Sequence[TaskFindings], file: Path) -> None:
    """Draw all curves into a PNG file. Raises UsageError without matplotlib, StoreError when it cannot be written."""
    with storage_errors(file):
        _figure(found).savefig(file, format="png", dpi=150)


def svg(found: Sequence[TaskFindings]) -> str:
    """Return all curves as an SVG element. Raises UsageError without matplotlib."""
    figure = _figure(found)
    import matplotlib as mpl

    stream = io.StringIO()
    # Text stays text, and equal experiments give equal files.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ksearch"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def _figure(found: Sequence[TaskFindings]) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("curves need matplotlib: pip install 'kernel-search[plots]'") from error
    kinds: list[Kind] = [kind for kind in KINDS if _most(found, kind) > 0] or ["evaluations"]
    figure = Figure(figsize=(6.4 * len(kinds), 4.2 * max(len(found), 1)), layout="constrained")
    axes: Any = figure.subplots(max(len(found), 1), len(kinds), squeeze=False)
    for row, task in zip(axes, found, strict=False):
        for place, kind in zip(row, kinds, strict=True):
            _draw(place, task, kind)
    return figure


def _most(found: Sequence[TaskFindings], kind: Kind) -> float:
    spent = [
        item.points[-1].spent(kind) for task in found for cell in task.cells for item in cell.searches if item.points
    ]
    return max(spent, default=0)


def _draw(axes: "Axes", task: TaskFindings, kind: Kind) -> None:
    """Draw the mean of each cell as a line, and the range of its searches as an area."""
    for number, cell in enumerate(task.cells):
        amounts, means, lows, highs = _line(cell, kind)
        if amounts:
            axes.step(amounts, means, where="post", label=cell.cell, color=f"C{number % 10}")
            axes.fill_between(amounts, lows, highs, step="post", alpha=0.15, color=f"C{number % 10}", linewidth=0)
    axes.set_title(task.task)
    axes.set_xlabel(_LABELS[kind])
    axes.set_ylabel(f"best {task.objective.name}, {task.objective.unit}")
    if axes.has_data():
        axes.legend(fontsize="small")


def _line(cell: CellFindings, kind: Kind) -> tuple[list[float], list[float], list[float], list[float]]:
    """Return amounts and, at each, the mean and the range over the searches that got so far and had found something.

    It ends where the first search is that goes on: beyond that, a mean over the others would mislead. What has ended
    keeps its best.
    """
    searches = [item for item in cell.searches if item.points]
    at_work = [item.points[-1].spent(kind) for item in searches if not item.finished]
    end = min(at_work or [max((item.points[-1].spent(kind) for item in searches), default=0)])
    places = sorted({point.spent(kind) for item in searches for point in item.points if point.spent(kind) <= end})
    places = places[:: max(len(places) // STEPS, 1)] if len(places) > STEPS else places
    rows = []
    for amount in places:
        bests = [item.best_at(Budget(kind, amount)) for item in searches]
        values = [value for value in bests if value is not None]
        if values:
            rows.append((amount, geometric_mean(values).value, min(values), max(values)))
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    return columns[0], columns[1], columns[2], columns[3]
