"""Which programs of a trip are certified, in which order: as the search itself would choose."""

from collections.abc import Iterable, Sequence
from typing import Any

from evaluators.worker.bundle import Request


def challengers(
    measured: Iterable[tuple[Request, float | None]], incumbent: float | None, goal: str, margin: float
) -> list[Request]:
    """Return the requests whose programs may replace the incumbent, best first, then by cycle and sample.

    Args:
        measured: Provisional evaluations and their objectives, None where there is none.
        incumbent: Objective of the incumbent; None when there is none.
        goal: `max` or `min`.
        margin: Share within which two figures are tied.
    """
    known = [(request, value) for request, value in measured if value is not None]
    ahead = [item for item in known if incumbent is None or _gain(item[1], incumbent, goal) > 1.0 + margin]
    sign = -1.0 if goal == "max" else 1.0
    return [item[0] for item in sorted(ahead, key=lambda item: (sign * item[1], item[0].cycle, item[0].sample))]


def accepted(answer: dict[str, Any], with_rival: bool, margin: float) -> bool:
    """Return whether a certification makes its program the incumbent."""
    verdict = answer["verdict"]
    first = verdict["programs"][0]
    if first["status"] != "passed" or first["objective"] is None:
        return False
    if not with_rival:
        return True
    pairs: Sequence[dict[str, Any]] = verdict["pairs"]
    return bool(pairs) and pairs[0]["ratio"]["low"] > 1.0 + margin


def _gain(value: float, reference: float, goal: str) -> float:
    return value / reference if goal == "max" else reference / value
