"""What a handful of searches supports: means with intervals, exact rank tests, Holm's rule. Pure.

Figures of searches are ratios or times, above 0 and skewed, so means are geometric and intervals those of Student's t
on logarithms. Tests look at ranks only: they need no assumption about the distribution, and a search that found nothing
has a rank (the last) where it has no figure. Their p values are exact, ties included, and never approximated.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

CONFIDENCE = 0.95
ALPHA = 0.05
"""A difference is supported when its p value, corrected for the number of comparisons, is not above this."""


@dataclass(frozen=True)
class Mean:
    """A geometric mean with its interval."""

    value: float
    low: float | None
    """None, as `high`, where there is one figure only."""
    high: float | None
    count: int

    @property
    def inverse(self) -> "Mean":
        """The mean of the reciprocals."""
        low, high = (None if end is None else 1 / end for end in (self.high, self.low))
        return Mean(1 / self.value, low, high, self.count)


@dataclass(frozen=True)
class Test:
    """A two-sided exact test."""

    kind: Literal["signed_rank", "rank_sum"]
    p: float
    smallest: float
    """The smallest p value that so many searches could have led to."""
    pairs: int | None = None
    """Pairs compared; None where nothing is paired."""


def geometric_mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Mean:
    """Return the geometric mean of figures above 0, of which there must be one, with Student's interval."""
    return _mean([math.log(value) for value in values], confidence)


def paired_ratio(first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE) -> Mean:
    """Return the geometric mean of first / second, pair by pair. There must be one pair."""
    return _mean([math.log(a / b) for a, b in zip(first, second, strict=True)], confidence)


def _mean(logs: Sequence[float], confidence: float) -> Mean:
    count = len(logs)
    mean = math.fsum(logs) / count
    if count < 2:
        return Mean(math.exp(mean), None, None, count)
    half = t_quantile((1 + confidence) / 2, count - 1) * math.sqrt(_variance(logs) / count)
    return Mean(math.exp(mean), math.exp(mean - half), math.exp(mean + half), count)


def welch_ratio(first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE) -> Mean:
    """Return the ratio of two geometric means with Welch's interval (Biometrika 34, 1947); each needs one figure."""
    logs = [[math.log(value) for value in values] for values in (first, second)]
    difference = math.fsum(logs[0]) / len(first) - math.fsum(logs[1]) / len(second)
    count = min(len(first), len(second))
    if count < 2:
        return Mean(math.exp(difference), None, None, count)
    shares = [_variance(item) / len(item) for item in logs]
    if not any(shares):
        return Mean(math.exp(difference), math.exp(difference), math.exp(difference), count)
    # As shares of their sum, so that squares of tiny variances do not vanish.
    weights = [share / sum(shares) for share in shares]
    freedom = 1 / sum(weight**2 / (len(item) - 1) for weight, item in zip(weights, logs, strict=True))
    half = t_quantile((1 + confidence) / 2, freedom) * math.sqrt(sum(shares))
    return Mean(math.exp(difference), math.exp(difference - half), math.exp(difference + half), count)


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def signed_rank(differences: Sequence[float]) -> Test:
    """Return Wilcoxon's signed-rank test of paired differences (Biometrics Bulletin 1, 1945).

    Equal sizes share their rank; zeros are ranked with the others and then left out (Pratt, JASA 54, 1959). Infinite
    differences are larger than all others. No pairs: p is 1.
    """
    doubled = _doubled_ranks([abs(difference) for difference in differences])
    ranks = [rank for rank, difference in zip(doubled, differences, strict=True) if difference]
    total = sum(rank for rank, difference in zip(doubled, differences, strict=True) if difference > 0)
    sums = Counter({0: 1})
    for rank in ranks:
        with_it = Counter({value + rank: ways for value, ways in sums.items()})
        sums.update(with_it)
    pairs = len(differences)
    return Test("signed_rank", _two_sided(sums, total), min(1.0, 2.0 ** (1 - pairs)), pairs)


def rank_sum(first: Sequence[float], second: Sequence[float]) -> Test:
    """Return Wilcoxon's rank-sum test (that of Mann and Whitney) of two groups; equal figures share their rank.

    Infinite figures are larger, or smaller, than all others. An empty group: p is 1.
    """
    ranks = _doubled_ranks([*first, *second])
    chosen = len(first)
    # sums[k]: sum of k ranks -> number of ways to choose them.
    sums: list[Counter[int]] = [Counter({0: 1}), *(Counter() for _ in range(chosen))]
    for rank in ranks:
        for size in range(chosen, 0, -1):
            sums[size].update({value + rank: ways for value, ways in sums[size - 1].items()})
    # Groups of unequal sizes and ties can leave one arrangement alone at the far end.
    ends = 2 if len(first) == len(second) else 1
    smallest = min(1.0, ends / math.comb(len(ranks), chosen))
    return Test("rank_sum", _two_sided(sums[chosen], sum(ranks[:chosen])), smallest)


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, from 1; equal values share the mean of their ranks, hence the doubling."""
    ordered = sorted(values)
    first: dict[float, int] = {}
    for at, value in enumerate(ordered):
        first.setdefault(value, at)
    count = Counter(ordered)
    return [2 * first[value] + count[value] + 1 for value in values]


def _two_sided(sums: Counter[int], seen: int) -> float:
    """Return the share of `sums` at least as far from their mean as `seen`."""
    ways = sum(sums.values())
    mean = sum(value * count for value, count in sums.items())
    # Multiplied by `ways`, all of it is exact.
    distance = abs(seen * ways - mean)
    return sum(count for value, count in sums.items() if abs(value * ways - mean) >= distance) / ways


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values corrected by Holm's rule (Scand. J. Statistics 6, 1979), in the same order.

    The smallest is multiplied by the number of tests, the next by one less, and so on; none is below a smaller one's.
    Not above `ALPHA` after that: the chance that any of the tests calls an accident a difference is at most `ALPHA`.
    """
    corrected = [0.0] * len(p_values)
    before = 0.0
    for at, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        before = max(before, min(1.0, (len(p_values) - at) * p_values[index]))
        corrected[index] = before
    return corrected


def seeds_needed(comparisons: int, alpha: float = ALPHA) -> int:
    """Return how many pairs each comparison needs so that the smallest possible p value, corrected, supports one."""
    return 1 + math.ceil(math.log2(max(comparisons, 1) / alpha))


def t_quantile(probability: float, freedom: float) -> float:
    """Return the point below which Student's t lies with `probability`, 0.5 or more and below 1.

    Bisection on the distribution's tail, whose ends are told apart to the last digits.
    """
    tail = 1 - probability
    low, high = 0.0, 1.0
    while _t_tail(high, freedom) > tail:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if _t_tail(middle, freedom) > tail else (low, middle)
    return (low + high) / 2


def _t_tail(t: float, freedom: float) -> float:
    """Return the probability above t >= 0: half the incomplete beta function at nu / (nu + t^2) (DLMF 8.17)."""
    return 0.5 * incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by the continued fraction of DLMF 8.17.22."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - incomplete_beta(b, a, 1 - x)
    front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(front) / a / _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """Return 1 + d1 / (1 + d2 / (1 + ...)), by Lentz's method; where x is small enough it converges quickly."""
    tiny = 1e-300
    value = ratio = 1.0
    inverse = 0.0
    for step in range(1, 10_000):
        m = step // 2
        if step % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        inverse = 1 / ((1 + d * inverse) or tiny)
        ratio = (1 + d / ratio) or tiny
        value *= ratio * inverse
        if abs(ratio * inverse - 1) < 1e-15:
            break
    return value
