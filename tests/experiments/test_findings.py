"""What an experiment says, from made-up searches: figures at budgets, comparisons, what is left out and why."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evaluators.objective import Goal, Objective
from graph.experiments.curves import Budget, Point, Replies, Search, default_budgets
from graph.experiments.findings import Comparison, TaskFindings, findings
from graph.experiments.report import comparison_text, power, rule

MAX, MIN = Objective(), Objective(name="time", goal="min", unit="ms")
TEN = Budget("evaluations", 10)


def search(cell: str, seed: int, *bests: float | None, finished: bool = True, said: str | None = None) -> Search:
    """A search of one evaluation, ten tokens and a tenth of a dollar a round."""
    points = tuple(Point(at, at * 10, at / 10, best) for at, best in enumerate(bests))
    trace = f"{cell} {seed}" if said is None else said
    return Search(f"{cell}-{seed}", cell, f"s{seed}", "task", finished, points, Replies(3, 3, 3, 3, trace))


def group(cell: str, bests: Sequence[float | None]) -> list[Search]:
    return [search(cell, seed, best) for seed, best in enumerate(bests)]


def found(searches: list[Search], goal: Objective = MAX, *budgets: Budget, tested: Budget = TEN) -> TaskFindings:
    (task,) = findings(searches, {"task": goal}, budgets or (TEN,), tested)
    return task


def only(searches: list[Search], goal: Objective = MAX) -> Comparison:
    (comparison,) = found(searches, goal).comparisons
    return comparison


def test_a_search_is_as_good_as_it_was_when_the_budget_was_spent() -> None:
    one = search("a", 0, None, 1.5, 1.5, 2.0)
    budgets = [
        ("evaluations", 0),
        ("evaluations", 1),
        ("evaluations", 2.5),
        ("tokens", 29),
        ("tokens", 30),
        ("usd", 9.0),
    ]
    values = [one.best_at(Budget(kind, amount)) for kind, amount in budgets]  # type: ignore[arg-type]
    assert values == [None, 1.5, 1.5, 1.5, 2.0, 2.0]
    left = search("a", 0, None, 1.5, finished=False)
    assert [left.reached(Budget("evaluations", amount)) for amount in (1, 2)] == [True, False]
    assert one.reached(TEN), "what has ended will not become better"


def test_figures_count_who_got_there_and_who_found_anything() -> None:
    cell = [search("a", 0, None, 2.0), search("a", 1, None, 8.0), search("a", 2, None, None)]
    cell.append(search("a", 3, None, finished=False))
    (at_one, at_none) = found(cell, MAX, Budget("evaluations", 1), Budget("evaluations", 0)).cells[0].figures
    assert (at_one.reached, at_one.found, at_one.worst, at_one.best) == (3, 2, 2.0, 8.0)
    assert at_one.mean is not None
    assert at_one.mean.value == pytest.approx(4.0)
    assert (at_none.reached, at_none.found, at_none.mean) == (4, 0, None)


def test_best_and_worst_follow_the_goal() -> None:
    (figure,) = found(group("a", [2.0, 8.0]), MIN).cells[0].figures
    assert (figure.worst, figure.best) == (8.0, 2.0)


@pytest.mark.parametrize("goal", [MAX, MIN])
def test_a_difference_that_the_data_support(goal: Objective) -> None:
    slow = [1.0, 1.1, 1.2, 0.9, 1.3, 1.05]
    ratio = 2 if goal is MAX else 0.5
    made = only([*group("a", [value * ratio for value in slow]), *group("b", slow)], goal)
    assert (made.test.kind, made.test.pairs, made.test.p, made.supported) == ("signed_rank", 6, 2 / 64, True)
    assert made.ratio is not None
    assert made.ratio.value == pytest.approx(2)
    assert comparison_text(made).startswith("a over b: 2.000 times better")


def test_too_few_searches_are_said_to_be() -> None:
    task = found([*group("a", [2.0, 2.1, 2.2]), *group("b", [1.0, 1.1, 1.2])])
    assert not task.comparisons[0].supported
    assert "the smallest possible p, corrected for 1 comparison, is 0.25; 6 seeds each would do" in power([task])
    enough = found([*group("a", [2.0] * 6), *group("b", [1.0] * 6)])
    assert power([enough]) == ""
    assert "Wilcoxon's signed-rank test, pairs" in rule([enough])


def test_nothing_found_is_the_last_rank_and_never_a_number() -> None:
    made = only([*group("a", [2.0] * 6), *group("b", [None, None, 1.0, None, None, None])])
    assert made.test.p == 2 / 64
    assert made.ratio is not None
    assert (made.ratio.count, made.ratio.low) == (1, None)
    both = only([*group("a", [None] * 6), *group("b", [None] * 6)])
    assert (both.test.p, both.ratio, both.supported) == (1.0, None, False)


def test_searches_that_said_the_same_are_one() -> None:
    """Six times the same search are no six observations; against six different ones they are six comparisons."""
    copies = [search("a", seed, 2.0 + seed / 100, said="the same") for seed in range(6)]
    others = [search("b", seed, 1.0, said="also the same") for seed in range(6)]
    made = only([*copies, *others])
    assert (made.test.pairs, made.test.p, made.left_out, made.supported) == (1, 1.0, 5, False)
    assert only([*copies, *group("b", [1.0] * 6)]).left_out == 0
    assert found(copies).cells[0].alike == (("s0", "s1", "s2", "s3", "s4", "s5"),)


def test_without_common_seeds_nothing_is_paired() -> None:
    other = [search("b", seed + 10, value) for seed, value in enumerate([1.0, 1.1, 1.2, 1.3, 1.4])]
    made = only([*group("a", [2.0, 2.1, 2.2, 2.3, 2.4]), *other])
    assert (made.test.kind, made.test.pairs, made.test.p) == ("rank_sum", None, pytest.approx(2 / 252))
    assert made.ratio is not None
    assert made.ratio.low is not None
    assert 1.5 < made.ratio.low < made.ratio.value


def test_only_searches_that_got_there_are_compared() -> None:
    cells = [*group("a", [2.0] * 6), *(search("b", seed, 1.0, finished=seed < 3) for seed in range(6))]
    assert only(cells).test.pairs == 3


def test_holm_takes_every_comparison_of_the_report_together() -> None:
    cells = [*group("a", [3.0] * 8), *group("b", [2.0] * 8), *group("c", [1.0] * 8)]
    made = found(cells).comparisons
    assert [(item.first, item.second) for item in made] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [item.corrected for item in made] == pytest.approx([3 * 2 / 256] * 3)


def test_tasks_are_never_compared() -> None:
    other = [Search("x", "b", "s0", "other", True, (Point(1, 1, 0, 2.0),), Replies(0, 0, 0, 0, None))]
    made = findings([*group("a", [1.0]), *other], {"task": MAX, "other": MIN}, (TEN,), TEN)
    assert [(item.task, item.comparisons) for item in made] == [("task", ()), ("other", ())]


def test_what_is_looked_at_unless_it_is_said() -> None:
    searches = [search("a", 0, 1.0, 1.0, 1.0, 1.0), search("b", 0, 1.0, 1.0, 1.0)]
    assert [str(item) for item in default_budgets(searches, 8)] == [
        "2 evaluations", "4 evaluations", "8 evaluations", "20 tokens", "0.20 US dollars",
    ]  # fmt: skip
    assert [str(item) for item in default_budgets([], 1)] == ["1 evaluation"]


@pytest.mark.parametrize("text", ["evaluations", "evaluations=x", "rounds=3", "usd=-1", "tokens=nan", "usd=inf"])
def test_budgets_that_are_none(text: str) -> None:
    assert Budget.parse(text) is None
    assert Budget.parse("usd=2.5") == Budget("usd", 2.5)


VALUES = st.lists(st.floats(0.1, 10) | st.none(), min_size=2, max_size=7)


@given(VALUES, VALUES, st.sampled_from(["max", "min"]))
@example([1.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 2.0], "max")
@example([2.0, 3.0, 1.0], [4.0, 6.0, 2.0], "min")
def test_swapping_cells_turns_the_ratio_over_and_nothing_else(
    first: list[float | None], second: list[float | None], goal: Goal
) -> None:
    objective = Objective(goal=goal)
    one = only([*group("a", first), *group("b", second)], objective)
    other = only([*group("b", second), *group("a", first)], objective)
    assert one.test.p == pytest.approx(other.test.p)
    assert (one.ratio is None) == (other.ratio is None)
    if one.ratio is not None and other.ratio is not None:
        assert one.ratio.value == pytest.approx(other.ratio.inverse.value)
