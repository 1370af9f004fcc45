"""Estimates of ratios and their intervals."""

import math
import statistics
from collections.abc import Sequence

from evaluators.worker.job import Figure

# Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


def figure(estimates: Sequence[float]) -> Figure:
    """Return the median of positive estimates with an interval, as `combined` has it."""
    return _figure(statistics.median(estimates), estimates)


def combined(estimates: Sequence[Sequence[float]], how: str) -> Figure:
    """Return one figure of positive estimates, each a sequence of the cases' figures, with an interval.

    The value aggregates the medians of the cases: what disturbs one case in one estimate moves nothing else. The
    interval is Student's t (95 %) around the mean of the estimates' logarithms, widened where needed to hold the value.
    With a single estimate it is the estimate itself.
    """
    medians = [statistics.median(case) for case in zip(*estimates, strict=True)]
    return _figure(aggregate(medians, how), [aggregate(estimate, how) for estimate in estimates])


def _figure(value: float, estimates: Sequence[float]) -> Figure:
    if len(estimates) < 2:
        return Figure(value, value, value)
    logs = [math.log(estimate) for estimate in estimates]
    mean = statistics.fmean(logs)
    half = _T95[min(len(logs) - 1, len(_T95)) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
    return Figure(value, min(value, math.exp(mean - half)), max(value, math.exp(mean + half)))


def aggregate(values: Sequence[float], how: str) -> float:
    """Return the geometric (or arithmetic) mean of the cases' figures."""
    return statistics.fmean(values) if how == "mean" else statistics.geometric_mean(values)
