"""Which programs of a trip are certified, in which order: as the search itself would choose."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
    ahead = [item for item in known if beats(item[1], incumbent, goal, margin)]
    sign = -1.0 if goal == "max" else 1.0
    return [item[0] for item in sorted(ahead, key=lambda item: (sign * item[1], item[0].cycle, item[0].sample))]


def beats(value: float, incumbent: float | None, goal: str, margin: float) -> bool:
    """Return whether a figure is better than the incumbent's by more than the margin, or there is no incumbent."""
    return incumbent is None or _gain(value, incumbent, goal) > 1.0 + margin


@dataclass
class Turns:
    """Who is certified, as one certification after the other tells what the challengers are worth."""

    goal: str
    margin: float
    rival: str | None
    """The best so far: digest of its program, None when there is none."""
    value: float | None
    """Its objective."""
    settled: bool = False
    """Whether one was accepted whose figure was not in doubt: of the others, only doubted ones have their turn then."""

    def has(self, value: float, *, doubted: bool) -> bool:
        """Return whether a challenger with this provisional figure is to be certified."""
        return (doubted or not self.settled) and beats(value, self.value, self.goal, self.margin)

    def certified(self, solution: str, answer: dict[str, Any], *, doubted: bool) -> None:
        """Note what the certification of a challenger, against `rival`, has brought."""
        if accepted(answer, self.rival is not None, self.margin):
            self.rival, self.value = solution, float(answer["verdict"]["programs"][0]["objective"]["value"])
            self.settled = self.settled or not doubted


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
