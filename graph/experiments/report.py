"""An experiment's findings as JSON and as lines for people. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from graph.experiments.curves import Search
from graph.experiments.findings import CellFindings, Comparison, Figure, TaskFindings
from graph.experiments.plan import Plan, jobs
from graph.experiments.significance import ALPHA, CONFIDENCE, Mean, seeds_needed
from graph.report.figures import quantity, shown
from graph.wording import counted


def facts(plan: Plan, found: Sequence[TaskFindings]) -> dict[str, Any]:
    """Return everything that is found, as plain JSON."""
    return {
        "experiment": plan.name,
        "searches": len(jobs(plan)),
        "finished": sum(item.finished for item in _searches(found)),
        "measure": measure(plan),
        "interval": CONFIDENCE,
        "rule": rule(found),
        "power": power(found),
        "tasks": [
            {
                "task": task.task,
                "objective": task.objective.name,
                "goal": task.objective.goal,
                "unit": task.objective.unit,
                "cells": [_cell(plan, cell) for cell in task.cells],
                "comparisons": [_comparison(item) for item in task.comparisons],
            }
            for task in found
        ],
    }


def _cell(plan: Plan, cell: CellFindings) -> dict[str, Any]:
    options = next((item.options for item in plan.cells if item.name == cell.cell), {})
    return {
        "cell": cell.cell,
        "options": options,
        "at": [
            {
                "budget": item.budget.kind,
                "amount": item.budget.amount,
                "reached": item.reached,
                "found": item.found,
                **_mean(item.mean),
                "worst": item.worst,
                "best": item.best,
            }
            for item in cell.figures
        ],
        "searches": [
            {
                "run": item.run,
                "unit": item.unit,
                "finished": item.finished,
                "replies": item.replies.count,
                "distinct_replies": item.replies.distinct,
                "programs": item.replies.programs,
                "distinct_programs": item.replies.distinct_programs,
                "curve": [asdict(point) for point in item.points],
            }
            for item in cell.searches
        ],
        "alike": [list(units) for units in cell.alike],
    }


def _comparison(item: Comparison) -> dict[str, Any]:
    ratio = _mean(item.ratio)
    return {
        "first": item.first,
        "second": item.second,
        "budget": item.budget.kind,
        "amount": item.budget.amount,
        "test": item.test.kind,
        "pairs": item.test.pairs,
        "repeats_left_out": item.left_out,
        "ratio": ratio["mean"],
        "low": ratio["low"],
        "high": ratio["high"],
        "p": item.test.p,
        "p_corrected": item.corrected,
        "smallest_p": item.test.smallest,
        "supported": item.supported,
    }


def _mean(mean: Mean | None) -> dict[str, float | None]:
    if mean is None:
        return {"mean": None, "low": None, "high": None}
    return {"mean": mean.value, "low": mean.low, "high": mean.high}


def measure(plan: Plan) -> str:
    """Return what the figures are."""
    if plan.matched is not None:
        return f"the best provisional figure that a search reached from the given state of {plan.matched.run}"
    return "the best certified figure of a search"


def rule(found: Sequence[TaskFindings]) -> str:
    """Return how cells are compared."""
    made = [item for task in found for item in task.comparisons]
    if not made:
        return "there is nothing to compare"
    kinds = {item.test.kind for item in made}
    tests = {
        frozenset(("signed_rank",)): "Wilcoxon's signed-rank test, pairs have the seed (or state) in common",
        frozenset(("rank_sum",)): "Wilcoxon's rank-sum test, nothing is paired",
    }.get(frozenset(kinds), "Wilcoxon's signed-rank test in pairs of a seed (or state), else his rank-sum test")
    return (
        f"{tests}; exact, two-sided; p corrected by Holm's rule for {counted(len(made), 'comparison')}; "
        f"supported: corrected p not above {ALPHA}"
    )


def power(found: Sequence[TaskFindings]) -> str:
    """Return what the number of searches makes impossible; empty when it makes nothing so."""
    made = [item for task in found for item in task.comparisons]
    if not made or min(item.test.smallest for item in made) * len(made) <= ALPHA:
        return ""
    return (
        f"too few searches to support any difference, however large: the smallest possible p, corrected for "
        f"{counted(len(made), 'comparison')}, is {min(1.0, min(item.test.smallest for item in made) * len(made)):.2g}; "
        f"{seeds_needed(len(made))} seeds each would do"
    )


def report_lines(plan: Plan, found: Sequence[TaskFindings]) -> Iterator[str]:
    """Yield the findings for people."""
    searches = list(_searches(found))
    ended = sum(item.finished for item in searches)
    yield f"{plan.name}: {ended} of {len(jobs(plan))} searches have ended"
    yield f"Figures are {measure(plan)}: geometric means over the searches of a cell, in brackets {CONFIDENCE:.0%}"
    yield "intervals (Student's t on logarithms)."
    for task in found:
        goal = "more" if task.objective.goal == "max" else "less"
        yield ""
        yield f"task {task.task}: {task.objective.name} in {task.objective.unit}, {goal} is better"
        yield from table(task)
        yield from notes(task)
        if task.comparisons:
            yield ""
            yield f"compared at {task.comparisons[0].budget}"
            yield from _sorted_out(task)
    yield ""
    yield f"How: {rule(found)}."
    if power(found):
        yield f"Note: {power(found)}."


def table(task: TaskFindings) -> Iterator[str]:
    """Yield one line for each cell."""
    budgets = [item.budget for item in task.cells[0].figures]
    rows = [["CELL", "SEARCHES", *(f"AT {budget}".upper() for budget in budgets), "DISTINCT REPLIES"]]
    for cell in task.cells:
        figures = [figure_text(item, task.objective.unit) for item in cell.figures]
        rows.append([cell.cell, str(len(cell.searches)), *figures, replies_text(cell)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def figure_text(item: Figure, unit: str) -> str:
    """Return a cell's figure."""
    if item.mean is None:
        return "nothing passed" if item.reached else "not reached"
    if item.mean.low is None or item.mean.high is None:
        return quantity(item.mean.value, unit)
    return shown({"value": item.mean.value, "low": item.mean.low, "high": item.mean.high}, unit)


def replies_text(cell: CellFindings) -> str:
    """Return the distinct replies of each seed, of how many: programs where nobody replied in words."""
    told = []
    for item in cell.searches:
        replies = item.replies
        count, distinct = (
            (replies.count, replies.distinct) if replies.count else (replies.programs, replies.distinct_programs)
        )
        told.append(f"{distinct}/{count}")
    return " ".join(told) if len(set(told)) > 1 else f"{told[0]} each" if len(told) > 1 else told[0]


def notes(task: TaskFindings) -> Iterator[str]:
    """Yield what must be known about the cells."""
    for cell in task.cells:
        for units in cell.alike:
            yield f"{cell.cell}: {', '.join(units)} went alike, reply by reply: together they are one observation"
        for item in cell.figures:
            if item.reached < len(cell.searches):
                yield f"{cell.cell}: {item.reached} of {len(cell.searches)} searches have got to {item.budget}"
            if item.found < item.reached:
                lost = item.reached - item.found
                yield f"{cell.cell}: at {item.budget} {lost} of {item.reached} had found nothing that passes"


def _sorted_out(task: TaskFindings) -> Iterator[str]:
    for head, wanted in (("supported by the data", True), ("not supported by the data", False)):
        chosen = [item for item in task.comparisons if item.supported is wanted]
        if chosen:
            yield f"  {head}:"
        for item in chosen:
            yield f"    {comparison_text(item)}"


def comparison_text(item: Comparison) -> str:
    """Return one comparison in a line."""
    first, second, ratio = item.first, item.second, item.ratio
    if ratio is not None and ratio.value < 1:
        first, second, ratio = second, first, ratio.inverse
    words = "no figures to divide"
    if ratio is not None:
        interval = "" if ratio.low is None or ratio.high is None else f" ({ratio.low:.3f} to {ratio.high:.3f})"
        words = f"{ratio.value:.3f} times better{interval}"
    pairs = "unpaired" if item.test.pairs is None else counted(item.test.pairs, "pair")
    repeats = f", {item.left_out} repeats left out" if item.left_out else ""
    return f"{first} over {second}: {words}, p {item.test.p:.2g}, corrected {item.corrected:.2g} ({pairs}{repeats})"


def _searches(found: Sequence[TaskFindings]) -> Iterator[Search]:
    for task in found:
        for cell in task.cells:
            yield from cell.searches
