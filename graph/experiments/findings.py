"""What an experiment says: figures of each cell, and which differences between cells the data support. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from evaluators.objective import Goal, Objective, gain
from graph.experiments.curves import Budget, Search, worth
from graph.experiments.significance import (
    ALPHA,
    Mean,
    Test,
    geometric_mean,
    holm,
    paired_ratio,
    rank_sum,
    signed_rank,
    welch_ratio,
)

_PLACES = 12


@dataclass(frozen=True)
class Figure:
    """One cell at one budget."""

    budget: Budget
    reached: int
    """Searches that have gone so far."""
    found: int
    """Those of them that had found anything that passed."""
    mean: Mean | None
    """Over the found; None for none."""
    worst: float | None
    best: float | None


@dataclass(frozen=True)
class CellFindings:
    """One cell of one task."""

    cell: str
    searches: tuple[Search, ...]
    figures: tuple[Figure, ...]
    alike: tuple[tuple[str, ...], ...]
    """Units of searches in which planner and coder said the same throughout: together they are one observation."""


@dataclass(frozen=True)
class Comparison:
    """Two cells at one budget."""

    first: str
    second: str
    budget: Budget
    ratio: Mean | None
    """How many times better the first is, over searches that found something; None for none."""
    test: Test
    corrected: float
    """The p value after Holm's rule."""
    left_out: int
    """Searches, or pairs, that only repeat others."""

    @property
    def supported(self) -> bool:
        """Whether the data support that the cells differ."""
        return self.corrected <= ALPHA


@dataclass(frozen=True)
class TaskFindings:
    """The cells of one task; figures of different tasks are never compared."""

    task: str
    objective: Objective
    cells: tuple[CellFindings, ...]
    comparisons: tuple[Comparison, ...]


def findings(
    searches: Sequence[Search], objectives: dict[str, Objective], budgets: Sequence[Budget], tested: Budget
) -> tuple[TaskFindings, ...]:
    """Return what the searches say, task by task.

    Args:
        searches: In the plan's order.
        objectives: Of each task by its name.
        budgets: At which the cells' figures are taken.
        tested: At which cells are compared, every pair of a task once. Holm's rule takes all comparisons together.
    """
    tasks = list(dict.fromkeys(item.task for item in searches))
    groups = {task: _by_cell([item for item in searches if item.task == task]) for task in tasks}
    raw = [
        (task, _compared(first, second, tested, objectives[task].goal))
        for task in tasks
        for first, second in combinations(groups[task].values(), 2)
    ]
    corrected = holm([comparison.test.p for _, comparison in raw])
    made = [(task, replace(item, corrected=p)) for (task, item), p in zip(raw, corrected, strict=True)]
    return tuple(
        TaskFindings(
            task=task,
            objective=objectives[task],
            cells=tuple(
                CellFindings(
                    cell=cell,
                    searches=tuple(group),
                    figures=tuple(_figure(group, budget, objectives[task].goal) for budget in budgets),
                    alike=tuple(_alike(group)),
                )
                for cell, group in groups[task].items()
            ),
            comparisons=tuple(item for name, item in made if name == task),
        )
        for task in tasks
    )


def _by_cell(searches: Sequence[Search]) -> dict[str, list[Search]]:
    groups: dict[str, list[Search]] = {}
    for item in searches:
        groups.setdefault(item.cell, []).append(item)
    return groups


def _figure(searches: Sequence[Search], budget: Budget, goal: Goal) -> Figure:
    reached = [item.best_at(budget) for item in searches if item.reached(budget)]
    found = sorted((value for value in reached if value is not None), key=lambda value: worth(value, goal))
    return Figure(
        budget=budget,
        reached=len(reached),
        found=len(found),
        mean=geometric_mean(found) if found else None,
        worst=found[0] if found else None,
        best=found[-1] if found else None,
    )


def _alike(searches: Sequence[Search]) -> Iterator[tuple[str, ...]]:
    said: dict[str, list[str]] = {}
    for item in searches:
        if item.replies.trace is not None:
            said.setdefault(item.replies.trace, []).append(item.unit)
    yield from (tuple(units) for units in said.values() if len(units) > 1)


def _compared(first: Sequence[Search], second: Sequence[Search], budget: Budget, goal: Goal) -> Comparison:
    """Return the comparison of two cells, not yet corrected: paired where two units or more are common."""
    ours, theirs = ({item.unit: item for item in cell if item.reached(budget)} for cell in (first, second))
    common = [(item, theirs[unit]) for unit, item in ours.items() if unit in theirs]
    if len(common) > 1:
        kept = _distinct(common)
        values = [(a.best_at(budget), b.best_at(budget)) for a, b in kept]
        test = signed_rank([_difference(a, b, goal) for a, b in values])
        known = [(a, b) for a, b in values if a is not None and b is not None]
        ratio = paired_ratio([_gain(a, goal) for a, _ in known], [_gain(b, goal) for _, b in known]) if known else None
        left_out = len(common) - len(kept)
    else:
        groups = [[item for (item,) in _distinct([(item,) for item in cell.values()])] for cell in (ours, theirs)]
        bests = [[item.best_at(budget) for item in group] for group in groups]
        test = rank_sum(*([worth(value, goal) for value in group] for group in bests))
        mine, other = ([_gain(value, goal) for value in group if value is not None] for group in bests)
        ratio = welch_ratio(mine, other) if mine and other else None
        left_out = len(ours) + len(theirs) - sum(map(len, groups))
    return Comparison(first[0].cell, second[0].cell, budget, ratio, test, test.p, left_out)


def _distinct(rows: Sequence[tuple[Search, ...]]) -> list[tuple[Search, ...]]:
    """Return the rows without those in which every search only repeats what was said in an earlier row's."""
    kept: dict[tuple[str, ...], tuple[Search, ...]] = {}
    for row in rows:
        traces = tuple(item.run if item.replies.trace is None else item.replies.trace for item in row)
        kept.setdefault(traces, row)
    return list(kept.values())


def _difference(first: float | None, second: float | None, goal: Goal) -> float:
    """Return by how much the first is better, on a scale of ratios; infinite when only one has found anything.

    To so many places that equal ratios, such as 2 / 4 and 3 / 6, are equal here and share a rank.
    """
    if first is None or second is None:
        return 0.0 if first is second else math.copysign(math.inf, -1 if first is None else 1)
    return round(math.log(_gain(first, goal)) - math.log(_gain(second, goal)), _PLACES)


def _gain(value: float, goal: Goal) -> float:
    return gain(value, 1.0, goal)
