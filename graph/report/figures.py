"""Figures for people: ratios to the baseline, whatever a task's objective is, and how values are written."""

import math
from collections.abc import Mapping
from typing import Any

from evaluators.evaluation import Evaluation
from evaluators.objective import Objective, Value
from graph.wording import one_line as one_line

WHOSE: Mapping[str, str] = {
    "user": "the user's own verdict",
    "gpumode": "the verdict of GPU MODE's eval.py",
    "fib": "by FlashInfer-Bench's protocol",
}
"""Who decides on a task that ksearch does not judge by itself (field `verdict`) -> what is said beside the figures."""
BY_WHOM: Mapping[str, str] = {
    "user": f"{WHOSE['user']}: nothing was checked or timed by ksearch",
    "gpumode": f"{WHOSE['gpumode']}: it checked and timed, in the program's process; ksearch did neither",
    "fib": f"{WHOSE['fib']}: checked and timed in the program's own process, not to be compared with ksearch's figures",
}
"""The same in a sentence."""

NONE_PASSED, NONE_CERTIFIED = "no program has passed yet", "programs have passed, but none is certified yet"
"""What is said while a search has no best program."""


def ratio_to_baseline(objective: Objective, evaluation: Evaluation) -> Value | None:
    """Return how much better than the baseline the program is (above 1: better); None when it was not timed.

    The objective itself where that is the ratio, else the geometric mean of the workloads' ratios. The ends of the
    interval are then the means of the ends: at least as wide as the interval of the mean.
    """
    if evaluation.objective is None or objective.name == "ratio":
        return evaluation.objective
    ratios = [result.measurement.ratio for result in evaluation.workloads if result.measurement is not None]
    if not ratios:
        return None
    return Value(
        value=_mean([ratio.value for ratio in ratios]),
        low=_mean([ratio.low for ratio in ratios]),
        high=_mean([ratio.high for ratio in ratios]),
    )


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def shown(value: Mapping[str, Any] | Value | None, unit: str) -> str:
    """Return "1.72x (1.69 to 1.75)"; "not measured" for None."""
    if value is None:
        return "not measured"
    known = value.model_dump() if isinstance(value, Value) else value
    return f"{quantity(known['value'], unit)} ({_digits(known['low'], unit)} to {_digits(known['high'], unit)})"


def quantity(value: float, unit: str) -> str:
    """Return "1.72x" or "3.41 ms"."""
    return _digits(value, unit) + (unit if unit in ("", "x") else f" {unit}")


def _digits(value: float, unit: str) -> str:
    # Ratios to the hundredth: below that, everything is a tie.
    return f"{value:.2f}" if unit in ("", "x") else f"{value:.3g}"


def against_baseline(ratio: Value) -> str:
    """Return "1.72x faster than the baseline (1.69 to 1.75)", and likewise for slower and equal programs."""
    interval = f"({ratio.low:.2f} to {ratio.high:.2f})"
    words = f"{ratio.value:.2f}x faster than" if ratio.value > 1 else f"{1 / ratio.value:.2f}x slower than"
    if f"{ratio.value:.2f}" == "1.00":
        words = "as fast as"
    return f"{words} the baseline {interval}"


def duration(seconds: float) -> str:
    """Return "42 s", "3 min 5 s" or "2 h 7 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
