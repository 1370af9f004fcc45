"""The statistics of experiments: against published values, brute force, and laws that must hold for any figures."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.experiments.significance import (
    geometric_mean,
    holm,
    incomplete_beta,
    paired_ratio,
    rank_sum,
    seeds_needed,
    signed_rank,
    t_quantile,
    welch_ratio,
)

DARWIN = (49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48)
"""Darwin's maize, eighths of an inch (Fisher, The Design of Experiments, 1935)."""
FIGURES = st.floats(0.01, 100)
GROUP = st.lists(FIGURES, min_size=1, max_size=7)
COARSE = st.lists(st.integers(-3, 3).map(float) | st.sampled_from([math.inf, -math.inf]), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("probability", "freedom", "value"),
    # Tables of Student's t, as in any textbook; 1 and 2 degrees of freedom have closed forms.
    [(0.975, 1, 12.7062), (0.975, 2, 4.3027), (0.975, 4, 2.7764), (0.95, 9, 1.8331), (0.995, 30, 2.7500),
     (0.975, 120, 1.9799), (0.9995, 5, 6.8688)],
)  # fmt: skip
def test_quantiles_are_those_of_the_tables(probability: float, freedom: int, value: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(value, abs=5e-5)


@given(st.floats(0.51, 0.9999))
def test_quantiles_with_closed_forms(probability: float) -> None:
    assert t_quantile(probability, 1) == pytest.approx(math.tan(math.pi * (probability - 0.5)), rel=1e-9)
    spread = 2 * probability - 1
    assert t_quantile(probability, 2) == pytest.approx(spread * math.sqrt(2 / (1 - spread**2)), rel=1e-9)


@given(st.floats(0.3, 60), st.floats(0.3, 60), st.floats(0.001, 0.999))
def test_the_incomplete_beta_function_mirrors_itself(a: float, b: float, x: float) -> None:
    assert incomplete_beta(a, b, x) + incomplete_beta(b, a, 1 - x) == pytest.approx(1, abs=1e-9)
    assert incomplete_beta(a, 1, x) == pytest.approx(x**a, rel=1e-9)


def test_signed_ranks_of_darwins_maize() -> None:
    """V = 96; the exact two-sided p value that is published for these data is 0.0413."""
    test = signed_rank(DARWIN)
    assert (round(test.p, 5), test.smallest, test.pairs) == (0.04126, 2**-14, 15)


@pytest.mark.parametrize(
    ("first", "second", "p"),
    # U = 0 and U = 2 with five each; U = 0 with three each: tables of Mann and Whitney.
    [
        ((1, 2, 3, 4, 5), (6, 7, 8, 9, 10), 2 / 252),
        ((1, 2, 3, 4, 7), (5, 6, 8, 9, 10), 8 / 252),
        ((1, 2, 3), (4, 5, 6), 0.1),
    ],
)
def test_rank_sums_are_those_of_the_tables(first: tuple[float, ...], second: tuple[float, ...], p: float) -> None:
    assert rank_sum(first, second).p == pytest.approx(p)


@given(COARSE)
def test_signed_ranks_equal_flipping_every_sign(differences: list[float]) -> None:
    sizes = [abs(item) for item in differences]
    ranks = [(sum(other < size for other in sizes) + (sum(other == size for other in sizes) + 1) / 2) for size in sizes]
    ranks = [rank if size else 0.0 for rank, size in zip(ranks, sizes, strict=True)]
    seen = sum(rank for rank, item in zip(ranks, differences, strict=True) if item > 0)
    centre = sum(ranks) / 2
    all_sums = [sum(itertools.compress(ranks, signs)) for signs in itertools.product((0, 1), repeat=len(ranks))]
    expected = sum(abs(item - centre) >= abs(seen - centre) - 1e-9 for item in all_sums) / len(all_sums)
    assert signed_rank(differences).p == pytest.approx(expected)


@given(COARSE.map(lambda items: items[:4]), COARSE.map(lambda items: items[:4]))
def test_rank_sums_equal_every_relabelling(first: list[float], second: list[float]) -> None:
    pooled = [*first, *second]
    ranks = [
        sum(other < item for other in pooled) + (sum(other == item for other in pooled) + 1) / 2 for item in pooled
    ]
    all_sums = [sum(chosen) for chosen in itertools.combinations(ranks, len(first))]
    centre, seen = sum(all_sums) / len(all_sums), sum(ranks[: len(first)])
    expected = sum(abs(item - centre) >= abs(seen - centre) - 1e-9 for item in all_sums) / len(all_sums)
    assert rank_sum(first, second).p == pytest.approx(expected)


@given(GROUP, GROUP, st.floats(0.1, 10))
def test_tests_do_not_depend_on_order_or_unit(first: list[float], second: list[float], unit: float) -> None:
    test = rank_sum(first, second)
    assert rank_sum(second, first).p == pytest.approx(test.p)
    assert rank_sum(first[::-1], second).p == test.p
    assert test.smallest <= test.p + 1e-12 <= 1 + 1e-9
    differences = [a - b for a, b in zip(first, second, strict=False)]
    paired = signed_rank(differences)
    assert signed_rank([-item for item in differences]).p == pytest.approx(paired.p)
    assert paired.smallest <= paired.p + 1e-12


@given(GROUP, st.floats(0.1, 10))
def test_means_scale_with_the_unit(values: list[float], unit: float) -> None:
    mean, scaled = geometric_mean(values), geometric_mean([value * unit for value in values])
    assert scaled.value == pytest.approx(mean.value * unit)
    assert min(values) * (1 - 1e-9) <= mean.value <= max(values) * (1 + 1e-9)
    assert (mean.low is None) == (len(values) < 2)
    if mean.low is not None and mean.high is not None and scaled.low is not None:
        assert mean.low <= mean.value * (1 + 1e-12)
        assert mean.value <= mean.high * (1 + 1e-12)
        assert scaled.low == pytest.approx(mean.low * unit, rel=1e-6)


def test_the_interval_of_darwins_maize() -> None:
    """Fisher's t on the differences: mean 20.933, 95 % interval 0.03 to 41.83 (2.145 standard errors of 9.746)."""
    mean = geometric_mean([math.exp(item / 10) for item in DARWIN])
    assert mean.low is not None
    assert mean.high is not None
    shown = [round(10 * math.log(item), 2) for item in (mean.value, mean.low, mean.high)]
    assert shown == [20.93, 0.03, 41.84]


def test_ratios_paired_and_not() -> None:
    first, second = [2.0, 4.0, 8.0], [1.0, 2.0, 4.0]
    paired, apart = paired_ratio(first, second), welch_ratio(first, second)
    assert (paired.value, paired.low, paired.high) == pytest.approx((2.0, 2.0, 2.0))
    # Equal variances and sizes: Welch's degrees of freedom are those of Student, 4.
    half = 2.7764 * math.sqrt(2 * math.log(2) ** 2 / 3)
    assert apart.low is not None
    assert math.log(2.0 / apart.low) == pytest.approx(half, rel=1e-4)
    assert welch_ratio([3.0], [1.5, 1.5]).low is None


def test_holm_in_the_published_example() -> None:
    """Holm's steps by hand: 0.005 x 4, 0.01 x 3, then 0.03 x 2 holds for 0.04 x 1 as well."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_lies_between_none_and_bonferroni(p_values: list[float]) -> None:
    corrected = holm(p_values)
    for p, q in zip(p_values, corrected, strict=True):
        assert p <= q <= min(1.0, p * len(p_values)) + 1e-12 or q == pytest.approx(max(corrected))
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    assert [corrected[at] for at in order] == sorted(corrected)


@given(st.integers(1, 200))
def test_seeds_needed_are_just_enough(comparisons: int) -> None:
    seeds = seeds_needed(comparisons)
    assert comparisons * 2.0 ** (1 - seeds) <= 0.05 < comparisons * 2.0 ** (2 - seeds)
