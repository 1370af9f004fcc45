"""Several ways to sum up the workloads' ratios to the baseline: a mean alone hides a few easy workloads. Pure."""

import math
from collections.abc import Mapping
from typing import Any

from evaluators.evaluation import Evaluation


def ratios(evaluation: Evaluation) -> dict[str, float | int] | None:
    """Return mean, geometric mean and minimum of the ratios, and on how many of how many workloads it is faster.

    None unless all workloads passed and were timed.
    """
    values = [result.measurement.ratio.value for result in evaluation.workloads if result.measurement is not None]
    if evaluation.objective is None or not values or len(values) != len(evaluation.workloads):
        return None
    return {
        "mean": math.fsum(values) / len(values),
        "geometric_mean": math.exp(math.fsum(map(math.log, values)) / len(values)),
        "minimum": min(values),
        "faster": sum(value > 1.0 for value in values),
        "workloads": len(values),
    }


def ratios_text(facts: Mapping[str, Any]) -> str:
    """Return "mean 1.92x, geometric mean 1.71x, least 0.94x, faster on 4 of 5 workloads"."""
    return (
        f"mean {facts['mean']:.2f}x, geometric mean {facts['geometric_mean']:.2f}x, least {facts['minimum']:.2f}x,"
        f" faster on {facts['faster']} of {facts['workloads']} workloads"
    )
