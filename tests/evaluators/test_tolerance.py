import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.worker.status import Status
from evaluators.worker.tolerance import Finding, Rule, compare, look_closer

FIB = Rule(1e-2, 1e-2, "either")
LIMITS = st.sampled_from([0.0, 1e-40, 1e-6, 1e-2, 0.5, 2.0])
RULES = st.builds(
    Rule,
    LIMITS,
    LIMITS,
    st.sampled_from(["sum", "either"]),
    st.sampled_from([1.0, 0.5]),
    st.sampled_from([None, 1e-6, 0.1]),
)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
ODD = st.sampled_from([0.0, -0.0, 1.0, 1e-45, 3e38, -3e38, math.inf, -math.inf, math.nan])
VALUES = st.floats(width=32) | ODD | st.floats(-2, 2, width=32)


def found(rule: Rule, got: list[float], expected: list[float], dtype: torch.dtype = torch.float32) -> Finding:
    return compare(rule, torch.tensor(got, dtype=dtype), torch.tensor(expected, dtype=dtype))


@pytest.mark.parametrize(
    ("got", "expected", "right"),
    [
        (0.0099, 0.0, True),  # within atol, however large the relative error
        (0.0101, 0.0, False),
        (100.9, 100.0, True),  # within rtol, however large the absolute error
        (101.1, 100.0, False),
        (1.015, 1.0, False),  # atol + rtol would allow it
    ],
)
def test_either_error_is_enough_but_they_do_not_add_up(got: float, expected: float, right: bool) -> None:
    assert (found(FIB, [got], [expected]).status is Status.PASSED) is right


def test_the_sum_rule_adds_both_limits() -> None:
    assert found(Rule(1e-2, 1e-2), [1.015], [1.0]).status is Status.PASSED
    assert found(Rule(1e-2, 1e-2), [1.021], [1.0]).status is Status.WRONG_VALUES


def test_a_share_of_the_elements_must_match() -> None:
    expected = [1.0] * 20
    one_wrong, two_wrong = [2.0, *expected[1:]], [2.0, 2.0, *expected[2:]]
    low_bit = Rule(1e-2, 1e-2, "either", matched=0.95)
    assert found(low_bit, one_wrong, expected).status is Status.PASSED
    assert found(low_bit, two_wrong, expected).status is Status.WRONG_VALUES
    assert "2 of 20 elements are wrong" in found(low_bit, two_wrong, expected).message


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_share_of_wrong_elements_excuses_what_is_not_finite(value: float) -> None:
    expected = [1.0] * 20
    for rule in (Rule(1e-2, 1e-2, matched=0.5), Rule(1e-2, 1e-2, "either", matched=0.5)):
        assert found(rule, [value, *expected[1:]], expected).status is Status.NON_FINITE


def test_an_expected_infinity_is_right_by_the_sum_rule_and_wrong_by_the_other() -> None:
    values = [-math.inf, 1.0]
    assert found(Rule(1e-2, 1e-2), values, values).status is Status.PASSED
    assert found(FIB, values, values).status is Status.NON_FINITE


@pytest.mark.parametrize("dtype", [dtype for dtype in FLOATS if dtype is not torch.float8_e4m3fn])
@pytest.mark.parametrize("expected", [math.inf, -math.inf])
def test_where_an_infinity_is_expected_nothing_else_is_right(expected: float, dtype: torch.dtype) -> None:
    for got in (12345.0, 0.0, -expected):
        finding = found(Rule(1e-2, 1e-2), [got, 1.0], [expected, 1.0], dtype)
        assert finding.status is Status.WRONG_VALUES
        assert finding.matched == 0.5
    assert found(Rule(1e-2, 1e-2), [expected, 1.0], [expected, 1.0], dtype).status is Status.PASSED


@pytest.mark.parametrize("total", [10, 100, 1000])
@pytest.mark.parametrize("tenths", range(1, 10))
def test_just_as_many_elements_as_may_be_wrong_are_excused(tenths: int, total: int) -> None:
    wrong = total - tenths * total // 10
    rule, expected = Rule(1e-2, 1e-2, matched=tenths / 10), [1.0] * total
    assert found(rule, [9.0] * wrong + expected[wrong:], expected).status is Status.PASSED
    assert found(rule, [9.0] * (wrong + 1) + expected[wrong + 1 :], expected).status is Status.WRONG_VALUES


def test_the_normalised_error_sees_what_no_element_shows() -> None:
    generator = torch.Generator().manual_seed(1)
    expected = 0.02 * torch.randn(4000, generator=generator)
    got = expected + 0.002 * torch.randn(4000, generator=generator)
    assert compare(FIB, got, expected).status is Status.PASSED
    finding = compare(Rule(1e-2, 1e-2, "either", normalised=0.02), got, expected)
    assert finding.status is Status.WRONG_VALUES
    assert finding.normalised == pytest.approx(0.1, rel=0.1)
    assert compare(Rule(1e-2, 1e-2, "either", normalised=0.11), got, expected).worst == pytest.approx(0.91, rel=0.1)


def test_an_offset_of_everything_is_seen_against_the_spread_and_not_against_the_size() -> None:
    """A logsumexp of about 14 that is short by log2(0.95): a twentieth of the keys was left out."""
    expected = 14.0 + 0.2 * torch.randn(64, generator=torch.Generator().manual_seed(2))
    got = expected + math.log2(0.95)
    assert compare(FIB, got, expected).status is Status.PASSED
    assert compare(Rule(1e-2, 1e-2, "either", normalised=0.02), got, expected).status is Status.WRONG_VALUES


def test_expected_values_that_are_all_alike_are_left_to_the_elements() -> None:
    rule = Rule(1e-2, 1e-2, "either", normalised=0.02)
    assert found(rule, [0.005, 0.0], [0.0, 0.0]).status is Status.PASSED
    assert found(rule, [0.5, 0.0], [0.0, 0.0]).status is Status.WRONG_VALUES


def test_eight_bit_floats_are_compared() -> None:
    rule = Rule(0.1, 0.1, "either")
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        assert found(rule, [1.0, -2.0], [1.0, -2.0], dtype).status is Status.PASSED
        assert found(rule, [1.0, 2.0], [1.0, -2.0], dtype).status is Status.WRONG_VALUES
        assert found(rule, [1.0, math.nan], [1.0, -2.0], dtype).status is Status.NON_FINITE


@settings(max_examples=400)
@given(RULES, st.sampled_from(FLOATS), st.lists(VALUES, min_size=1, max_size=20), st.data())
def test_the_quick_look_finds_what_the_closer_one_does(
    rule: Rule, dtype: torch.dtype, values: list[float], data: st.DataObject
) -> None:
    expected = torch.tensor(values).to(dtype)
    off = data.draw(st.sampled_from([0.0, rule.rtol, rule.atol, 1e-7]))
    got = (expected.double() * (1 + off * data.draw(st.floats(-1, 1))) + off * data.draw(st.floats(-1, 1))).to(dtype)
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(values) - 1))
        got[place] = torch.tensor(data.draw(VALUES)).to(dtype)
    assert compare(rule, got, expected) == look_closer(rule, got, expected)


@given(
    RULES,
    st.sampled_from([torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool]),
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 2)), min_size=1, max_size=20),
)
def test_the_quick_look_finds_the_same_of_whole_numbers(
    rule: Rule, dtype: torch.dtype, pairs: list[tuple[int, int]]
) -> None:
    expected, got = (torch.tensor(values).to(dtype) for values in ([a for a, _ in pairs], [a + b for a, b in pairs]))
    assert compare(rule, got, expected) == look_closer(rule, got, expected)


@given(st.floats(0, 2.0**127, width=32), st.integers(1, 4))
def test_an_error_just_above_what_is_allowed_is_not_rounded_away(allowed: float, steps: int) -> None:
    limit = torch.tensor([allowed])
    above = limit
    for _ in range(steps):
        above = torch.nextafter(above, torch.tensor(math.inf))
    assert compare(Rule(0.0, allowed), above, torch.zeros(1)).status is Status.WRONG_VALUES
    assert compare(Rule(0.0, allowed), limit, torch.zeros(1)).status is Status.PASSED
