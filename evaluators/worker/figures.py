"""Estimates of ratios and their intervals."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluators.worker.job import Figure

# Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


@dataclass(frozen=True)
class Reading:
    """What is made of the times that several estimates give, [estimates]."""

    usual: Callable[[Sequence[float]], float]
    """Of one program's."""
    quotient: Callable[[Sequence[float], Sequence[float]], float]
    """Of two programs', which come from the same estimates: how many times as long the first takes."""


def lower_quarter(times: Sequence[float]) -> float:
    """Return the longest of the shortest quarter, which is never empty."""
    return sorted(times)[(len(times) - 1) // 4]


MIDDLE = Reading(
    usual=statistics.median,
    quotient=lambda some, others: statistics.median(one / other for one, other in zip(some, others, strict=True)),
)
"""What disturbs a machine for a while disturbs all programs alike."""
LOWER = Reading(usual=lower_quarter, quotient=lambda some, others: lower_quarter(some) / lower_quarter(others))
"""What disturbs a host makes estimates longer, none shorter, for seconds, and one program more than another."""


def combined(values: Sequence[float], estimates: Sequence[Sequence[float]], how: str) -> Figure:
    """Return one figure of several cases: `values` are the cases', `estimates` what each estimate had for them.

    What disturbs one case in one estimate moves nothing else.
    """
    return figure(aggregate(values, how), [aggregate(estimate, how) for estimate in estimates])


def figure(value: float, estimates: Sequence[float]) -> Figure:
    """Return a positive value with an interval.

    That is Student's t (95 %) around the mean of the estimates' logarithms, widened where needed to hold the value.
    With a single estimate it is the value itself.
    """
    if len(estimates) < 2:
        return Figure(value, value, value)
    logs = [math.log(estimate) for estimate in estimates]
    mean = statistics.fmean(logs)
    half = _T95[min(len(logs) - 1, len(_T95)) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
    return Figure(value, min(value, math.exp(mean - half)), max(value, math.exp(mean + half)))


def aggregate(values: Sequence[float], how: str) -> float:
    """Return the geometric (or arithmetic) mean of the cases' figures."""
    return statistics.fmean(values) if how == "mean" else statistics.geometric_mean(values)
