"""One figure from several estimates, with an interval."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.worker.figures import aggregate, combined, figure

RATIOS = st.floats(0.01, 100)
ESTIMATES = st.integers(1, 5).flatmap(
    lambda cases: st.lists(st.lists(RATIOS, min_size=cases, max_size=cases), min_size=1, max_size=25)
)
HOW = st.sampled_from(["geometric_mean", "mean"])


@given(ESTIMATES, HOW)
def test_the_interval_holds_the_value_which_lies_among_the_cases_ratios(estimates: list[list[float]], how: str) -> None:
    found = combined(estimates, how)
    assert 0 < found.low <= found.value <= found.high
    seen = [ratio for estimate in estimates for ratio in estimate]
    assert min(seen) * (1 - 1e-9) <= found.value <= max(seen) * (1 + 1e-9)


@given(st.lists(RATIOS, min_size=1, max_size=25), HOW)
def test_a_single_case_has_the_figure_of_its_estimates(ratios: list[float], how: str) -> None:
    one, many = figure(ratios), combined([[ratio] for ratio in ratios], how)
    assert (many.value, many.low, many.high) == pytest.approx((one.value, one.low, one.high))


@given(st.lists(RATIOS, min_size=2, max_size=5), HOW)
def test_equal_estimates_leave_no_doubt(cases: list[float], how: str) -> None:
    found = combined([cases] * 6, how)
    assert (found.low, found.high) == pytest.approx((found.value, found.value))
    assert found.value == pytest.approx(aggregate(cases, how))


def test_what_disturbs_a_case_once_moves_nothing_but_the_interval() -> None:
    calm = [[2.0, 3.0], [2.02, 3.03], [1.98, 2.97], [2.01, 3.02], [1.99, 2.98]]
    # Each time another case is slowed, so that most estimates are disturbed as a whole.
    disturbed = [[2.0, 2.0], [1.4, 3.03], [1.98, 2.97], [2.01, 2.1], [1.3, 2.98]]
    before, after = combined(calm, "geometric_mean"), combined(disturbed, "geometric_mean")
    as_wholes = statistics.median(aggregate(estimate, "geometric_mean") for estimate in disturbed)
    assert before.value == pytest.approx(6**0.5, rel=0.005)
    assert after.value == pytest.approx(before.value, rel=0.02)
    assert as_wholes < 0.9 * before.value
    assert after.high / after.low > before.high / before.low
