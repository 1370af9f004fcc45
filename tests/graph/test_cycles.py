from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.objective import Value
from evaluators.worker.status import Status
from graph.config import SearchConfig
from graph.cycles import Cycle, Result, evidence_of, fold

PAPER = SearchConfig(stagnation=3)
MARGIN = 0.03


def begun(**fields: Any) -> Cycle:
    return Cycle(**{"id": 1, "node": "n1", "parent": None, "first_round": 1, **fields})


def result(sample: int, objective: float | None = None, **fields: Any) -> Result:
    """An evaluated sample; `objective` None: it gave wrong values."""
    passed = objective is not None
    measured = None if objective is None else Value(value=objective, low=objective, high=objective)
    defaults: dict[str, Any] = {
        "cycle": 1,
        "sample": sample,
        "outcome": "evaluated",
        "status": Status.PASSED if passed else Status.WRONG_VALUES,
        "message": "" if passed else "y[3] is 2, not 1\nand more",
        "solution": f"{sample:064x}",
        "evaluation": f"{sample + 1000:064x}",
        "objective": measured,
    }
    return Result(**{**defaults, **fields})


def repeat(sample: int) -> Result:
    return result(sample, outcome="repeated", status=None, objective=None)


def unusable(sample: int) -> Result:
    return result(sample, outcome="unusable", status=None, solution=None, evaluation=None)


def run(*results: Result, config: SearchConfig = PAPER, goal: Any = "max", cycle: Cycle | None = None) -> Cycle:
    """The cycle after its samples, one a round; it must not end before the last."""
    cycle = cycle or begun()
    for number, item in enumerate(results, start=1):
        assert cycle.ended == ""
        cycle = fold(cycle, {number: item}, config, goal, MARGIN)
    return cycle


def test_a_cycle_ends_after_k_samples_in_a_row_without_improvement() -> None:
    cycle = run(result(1), result(2), result(3))
    assert (cycle.counted, cycle.streak) == (3, 3)
    assert cycle.ended == "3 samples in a row brought no improvement"
    assert run(result(1), result(2)).ended == ""


def test_the_first_pass_is_an_improvement_however_slow() -> None:
    cycle = run(result(1), result(2), result(3, 0.1))
    assert (cycle.streak, cycle.ended) == (0, "")
    assert cycle.best is not None
    assert cycle.best.objective.value == 0.1


def test_an_improvement_beats_the_best_by_more_than_the_margin() -> None:
    assert run(result(1, 1.0), result(2, 1.03)).streak == 1
    assert run(result(1, 1.0), result(2, 1.031)).streak == 0
    assert run(result(1, 1.0), result(2, 0.5), result(3, 0.9)).streak == 2


def test_within_the_margin_the_better_program_is_kept_all_the_same() -> None:
    cycle = run(result(1, 1.0), result(2, 1.02), result(3, 1.01))
    assert cycle.best is not None
    assert cycle.best.solution == result(2).solution
    assert cycle.streak == 2


def test_the_goal_decides_what_is_better() -> None:
    cycle = run(result(1, 2.0), result(2, 1.0), result(3, 3.0), goal="min")
    assert cycle.best is not None
    assert cycle.best.objective.value == 1.0
    assert cycle.streak == 1


def test_repeats_do_not_count_but_are_capped() -> None:
    cycle = run(result(1), result(2), repeat(3), repeat(4), config=SearchConfig(stagnation=3, repeat_cap=3))
    assert (cycle.counted, cycle.streak, cycle.repeats, cycle.samples, cycle.ended) == (2, 2, 2, 4, "")
    cycle = run(repeat(5), config=SearchConfig(stagnation=3, repeat_cap=3), cycle=cycle)
    assert cycle.ended == "3 samples repeated evaluated programs"


def test_repair_turns_do_not_count_but_what_they_mend_is_taken() -> None:
    broken = result(1, status=Status.BUILD_ERROR)
    cycle = run(broken, result(2, status=Status.BUILD_ERROR, repair=True), result(3, repair=True))
    assert (cycle.counted, cycle.streak, cycle.repairs, cycle.ended) == (1, 1, 2, "")
    mended = run(broken, result(2, 1.5, repair=True))
    assert (mended.counted, mended.streak, mended.repairs) == (1, 0, 1)
    assert mended.best is not None


def test_a_repair_that_repeats_is_counted_as_both() -> None:
    repeated = repeat(2).model_copy(update={"repair": True})
    cycle = run(result(1, status=Status.BUILD_ERROR), repeated)
    assert (cycle.counted, cycle.repairs, cycle.repeats) == (1, 1, 1)


def test_unusable_replies_count() -> None:
    cycle = run(unusable(1), unusable(2), unusable(3))
    assert cycle.ended == "3 samples in a row brought no improvement"
    assert cycle.outcomes == {"unusable": 3}


def test_the_cap_ends_a_cycle_that_improves_all_the_time() -> None:
    improving = [result(number, float(number)) for number in range(1, 31)]
    assert run(*improving).ended == ""
    capped = run(*improving[:4], config=SearchConfig(stagnation=3, sample_cap=4))
    assert capped.ended == "the cap of 4 samples is reached"


def test_a_fired_rule_ends_the_cycle_wherever_it_stands_in_the_round() -> None:
    caught = result(2, status=Status.INTEGRITY, rule="threads")
    cycle = fold(begun(), {1: result(1, 1.0), 2: caught, 3: result(3, 2.0)}, PAPER, "max", MARGIN)
    assert cycle.ended == "integrity rule threads fired"
    assert evidence_of(cycle, 1, "max").rule == "threads"


def test_a_coder_with_nothing_further_to_try_ends_the_cycle() -> None:
    cycle = fold(begun(), {1: result(1, 1.0, final=True), 2: result(2, 2.0)}, PAPER, "max", MARGIN)
    assert cycle.ended == "the coder has nothing further to try"
    assert cycle.best is not None
    assert cycle.best.objective.value == 2.0


def test_samples_of_one_round_are_counted_in_send_order() -> None:
    results = {1: result(1, 1.0), 2: result(2), 3: result(3), 4: result(4, 2.0), 5: result(5)}
    cycle = fold(begun(), results, PAPER, "max", MARGIN)
    assert (cycle.attempts, cycle.streak, cycle.counted, cycle.ended) == ((1, 2, 3, 4, 5), 1, 5, "")
    assert cycle.last == results[5]


def test_evidence_holds_what_the_cycle_found_out() -> None:
    cycle = run(
        result(1, 1.5, settings={"U": "2"}),
        result(2),
        result(3, 2.0, settings={"U": "4"}),
        cycle=begun(parent="p", parent_objective=1.0, predicted_gain=1.8, first_round=5),
    )
    found = evidence_of(cycle, 7, "max")
    assert (found.cycle, found.first_round, found.last_round, found.attempts) == (1, 5, 7, (1, 2, 3))
    assert found.outcomes == {"passed": 2, "wrong_values": 1}
    assert (found.gain, found.predicted_gain, found.settings, found.cause) == (2.0, 1.8, {"U": "4"}, "")
    assert found.solution == result(3).solution
    assert evidence_of(begun(best=cycle.best, parent_objective=1.0), 7, "min").gain == 0.5


def test_evidence_of_a_failed_cycle_names_the_cause_in_one_line() -> None:
    build_error = result(1, status=Status.BUILD_ERROR)
    found = evidence_of(run(build_error, result(2), result(3)), 3, "max")
    assert (found.solution, found.objective, found.gain) == (None, None, None)
    assert found.cause == "no program passed (1 build_error, 2 wrong_values); last: y[3] is 2, not 1"


def test_evidence_says_when_the_cycle_was_cut_short() -> None:
    assert evidence_of(run(result(1)), 1, "max").cut_short
    assert not evidence_of(run(result(1), result(2), result(3)), 3, "max").cut_short


def test_without_a_measured_parent_there_is_no_gain() -> None:
    assert evidence_of(run(result(1, 2.0)), 1, "max").gain is None


SAMPLES = st.lists(
    st.one_of(
        st.just("wrong"), st.just("repeat"), st.just("unusable"), st.floats(0.1, 10).map(lambda value: round(value, 2))
    ),
    max_size=25,
)


def _sample(kind: str | float, number: int) -> Result:
    if kind == "repeat":
        return repeat(number)
    if kind == "unusable":
        return unusable(number)
    return result(number, None if isinstance(kind, str) else kind)


@given(SAMPLES, st.integers(1, 7), st.none() | st.integers(1, 12), st.integers(1, 4))
def test_counting_is_that_of_the_paper(kinds: list[Any], k: int, cap: int | None, repeat_cap: int) -> None:
    """Against a direct reading of the rule, one sample a round."""
    config = SearchConfig(stagnation=k, sample_cap=cap, repeat_cap=repeat_cap)
    cycle, best, streak, counted, repeats = begun(), None, 0, 0, 0
    for number, kind in enumerate(kinds, start=1):
        cycle = fold(cycle, {number: _sample(kind, number)}, config, "max", MARGIN)
        repeats += kind == "repeat"
        if kind != "repeat":
            improved = isinstance(kind, float) and (best is None or kind / best > 1 + MARGIN)
            best = max(kind, best or kind) if isinstance(kind, float) else best
            counted, streak = counted + 1, 0 if improved else streak + 1
        assert (cycle.streak, cycle.counted, cycle.repeats) == (streak, counted, repeats)
        assert (cycle.best.objective.value if cycle.best else None) == best
        over = streak >= k or (cap is not None and counted >= cap) or repeats >= repeat_cap
        assert bool(cycle.ended) == over
        if over:
            return


@given(SAMPLES)
def test_a_cycle_comes_back_equal_from_json(kinds: list[Any]) -> None:
    cycle = begun()
    for number, kind in enumerate(kinds, start=1):
        cycle = fold(cycle, {number: _sample(kind, number)}, PAPER, "max", MARGIN)
    assert Cycle.model_validate(cycle.model_dump(mode="json")) == cycle


@pytest.mark.parametrize(
    ("outcome", "status", "label"),
    [("evaluated", Status.TIMEOUT, "timeout"), ("repeated", None, "repeated"), ("unusable", None, "unusable")],
)
def test_outcomes_are_counted_by_status(outcome: Any, status: Status | None, label: str) -> None:
    assert result(1, outcome=outcome, status=status).label == label
