import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.draws import draw


@given(st.integers(0, 2**63 - 1), st.text(max_size=20), st.integers(0, 10**6), st.integers(0, 10**6))
def test_draws_are_numbers_from_zero_to_one(seed: int, purpose: str, round: int, index: int) -> None:
    value = draw(seed, purpose, round, index)
    assert 0 <= value < 1
    assert draw(seed, purpose, round, index) == value


def test_draws_never_change_between_versions() -> None:
    """A resumed run must repeat what it drew: this value may not move."""
    assert draw(1, "policy", 2, 3) == 0.4537062159428431


@pytest.mark.parametrize("changed", [(2, "policy", 3, 4), (1, "other", 3, 4), (1, "policy", 4, 4), (1, "policy", 3, 5)])
def test_every_argument_counts(changed: tuple[int, str, int, int]) -> None:
    assert draw(*changed) != draw(1, "policy", 3, 4)


def test_draws_are_uniform() -> None:
    count = 4000
    values = sorted(draw(7, "uniform", 0, index) for index in range(count))
    distance = max(abs(value - rank / count) for rank, value in enumerate(values))
    assert distance < 1.95 / math.sqrt(count)  # Kolmogorov-Smirnov at the 0.1 % level; the draws are fixed
