"""What a window is charged with: its calls, and what a program did around and beside them.

On a processor every nanosecond beyond the baseline's counts, since one window, the fastest, decides. On a GPU the
median decides, by the wall's clock: there what is usual on a host passes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


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
