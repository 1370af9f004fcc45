"""What a window is charged with: its calls, and what a program did around and beside them.

On a processor every nanosecond beyond the baseline's counts, since one window, the fastest, decides. On a GPU the
lower middle window of an estimate decides, by the wall's clock: there what is usual on a host passes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Generic, TypeVar

_WAKE = 1.25
"""How many times what the baseline usually takes to be woken is no time for work."""
K = TypeVar("K")


@dataclass(frozen=True)
class WindowTimes:
    """What one window took, nanoseconds."""

    called: int
    """Making the calls."""
    idle: int
    """Used since the window before."""
    beside: tuple[int, ...] = ()
    """Reading the scalars, collecting what it returned; on a processor reading that, and time asleep."""


@dataclass(frozen=True)
class Slack:
    """How far what is done beside the calls may exceed the baseline's before all of the excess is charged."""

    share: float = 0.0
    ns: int = 0

    def excess(self, took: float, excused: float) -> float:
        """Return what is charged, nanoseconds."""
        return max(0.0, took - excused) if took > (1 + self.share) * excused + self.ns else 0.0


NONE, ON_GPU = Slack(), Slack(0.5, 80_000)


class Least(Generic[K]):
    """The least that work of each kind took, and what goes beyond it."""

    def __init__(self, uneven: float = 0.0) -> None:
        """`uneven`: how much longer, as a share, it takes now and then though nobody else is at work."""
        self._uneven = uneven
        self._least_ns: dict[K, int] = {}

    def forget(self, kind: K) -> None:
        """Know nothing of a kind any more."""
        self._least_ns.pop(kind, None)

    def excess(self, kind: K, took_ns: int) -> int:
        """Take note of what it took, and return what goes beyond the least, nanoseconds."""
        self._least_ns[kind] = least = min(took_ns, self._least_ns.get(kind, took_ns))
        return max(0, took_ns - int((1 + self._uneven) * least))


def wake_excess(took_ns: int, baseline_ns: Sequence[int]) -> int:
    """Return for how long a program may have worked while it was woken: beyond what wakes the baseline, nanoseconds.

    `baseline_ns`: what it took each time; none yet: this is its first time.
    """
    return max(0, int(took_ns - _WAKE * median(baseline_ns or [took_ns])))


def left_excess(took_ns: int, baseline_ns: Sequence[int]) -> int:
    """Return for how long what a stopped program has left keeps the device busy, nanoseconds.

    By the least that the baseline's ever took: what delays that one excuses nobody.
    """
    return took_ns - min([*baseline_ns, took_ns])


def excused(baseline: Sequence[WindowTimes], bare: int, more: Sequence[float]) -> list[float]:
    """Return what a program may do beside its calls, nanoseconds: what the baseline usually does.

    Args:
        baseline: Its windows.
        bare: What each thing takes at least, however many calls there are.
        more: How many times as much beyond that a program has to do; nothing: as much.
    """
    usual = [median(times) for times in zip(*(window.beside for window in baseline), strict=True)]
    return [bare + max(0.0, took - bare) * times for took, times in zip(usual, more or [1.0] * len(usual), strict=True)]


def charged(windows: Sequence[WindowTimes], after: int, excused: Sequence[float], slack: Slack = NONE) -> list[float]:
    """Return what each window took with all that belongs to it.

    Args:
        windows: In order.
        after: Used since the last one.
        excused: What it may do beside its calls.
        slack: How much more passes.
    """
    idle = [window.idle for window in windows] + [after]
    return [
        window.called
        + before
        + behind
        + sum(slack.excess(took, free) for took, free in zip(window.beside, excused, strict=True))
        for window, before, behind in zip(windows, idle, idle[1:], strict=False)
    ]
