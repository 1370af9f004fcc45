"""One figure from several estimates, with an interval."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.worker.figures import LOWER, MIDDLE, aggregate, combined, figure, lower_quarter
from evaluators.worker.timing import Times

RATIOS = st.floats(0.01, 100)
ESTIMATES = st.integers(1, 5).flatmap(
    lambda cases: st.lists(st.lists(RATIOS, min_size=cases, max_size=cases), min_size=1, max_size=25)
)
HOW = st.sampled_from(["geometric_mean", "mean"])


def medians(estimates: list[list[float]]) -> list[float]:
    return [statistics.median(case) for case in zip(*estimates, strict=True)]


@given(ESTIMATES, HOW)
def test_the_interval_holds_the_value_which_lies_among_the_cases_ratios(estimates: list[list[float]], how: str) -> None:
    found = combined(medians(estimates), estimates, how)
    assert 0 < found.low <= found.value <= found.high
    seen = [ratio for estimate in estimates for ratio in estimate]
    assert min(seen) * (1 - 1e-9) <= found.value <= max(seen) * (1 + 1e-9)


@given(st.lists(RATIOS, min_size=1, max_size=25), HOW)
def test_a_single_case_has_the_figure_of_its_estimates(ratios: list[float], how: str) -> None:
    middle = statistics.median(ratios)
    one, many = figure(middle, ratios), combined([middle], [[ratio] for ratio in ratios], how)
    assert (many.value, many.low, many.high) == pytest.approx((one.value, one.low, one.high))


@given(st.lists(RATIOS, min_size=2, max_size=5), HOW)
def test_equal_estimates_leave_no_doubt(cases: list[float], how: str) -> None:
    found = combined(cases, [cases] * 6, how)
    assert (found.low, found.high) == pytest.approx((found.value, found.value))
    assert found.value == pytest.approx(aggregate(cases, how))


def test_what_disturbs_a_case_once_moves_nothing_but_the_interval() -> None:
    calm = [[2.0, 3.0], [2.02, 3.03], [1.98, 2.97], [2.01, 3.02], [1.99, 2.98]]
    # Each time another case is slowed, so that most estimates are disturbed as a whole.
    disturbed = [[2.0, 2.0], [1.4, 3.03], [1.98, 2.97], [2.01, 2.1], [1.3, 2.98]]
    before, after = (combined(medians(one), one, "geometric_mean") for one in (calm, disturbed))
    as_wholes = statistics.median(aggregate(estimate, "geometric_mean") for estimate in disturbed)
    assert before.value == pytest.approx(6**0.5, rel=0.005)
    assert after.value == pytest.approx(before.value, rel=0.02)
    assert as_wholes < 0.9 * before.value
    assert after.high / after.low > before.high / before.low


@given(st.lists(RATIOS, min_size=1, max_size=25))
def test_a_quarter_of_the_times_is_no_longer_than_their_lower_quarter(times: list[float]) -> None:
    found = lower_quarter(times)
    assert sum(time <= found for time in times) >= max(1, len(times) // 4)
    assert sum(time < found for time in times) < max(1, len(times) / 4)


def test_a_host_that_is_slow_for_most_of_the_estimates_moves_no_figure_of_a_gpu() -> None:
    """The first program is bound by its host; the second is not, and three of five estimates are disturbed."""
    call_ns = [[[took], [200.0]] for took in (150.0, 100.0, 170.0, 101.0, 130.0)]
    gpu, processor = Times(LOWER, call_ns), Times(MIDDLE, call_ns)
    assert gpu.ratio(0, 1, "mean").value == gpu.case_ratio(0, 1, 0).value == 101 / 200
    assert (gpu.usual_ns(0, 0), gpu.usual_ns(1, 0)) == (101, 200)
    assert processor.ratio(0, 1, "mean").value == processor.case_ratio(0, 1, 0).value == 130 / 200
    assert processor.usual_ns(0, 0) == 130


@given(ESTIMATES, HOW)
def test_on_a_processor_programs_are_compared_estimate_by_estimate(estimates: list[list[float]], how: str) -> None:
    slowed = [
        [[3 * (step + 1) * ns for ns in one], [(step + 1) * ns for ns in one]] for step, one in enumerate(estimates)
    ]
    assert Times(MIDDLE, slowed).ratio(0, 1, how).value == pytest.approx(3)
