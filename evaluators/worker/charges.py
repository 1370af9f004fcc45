"""What a window is charged with: its calls, and what a program did around and beside them."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class WindowTimes:
    """What one window took, nanoseconds."""

    called: int
    """Making the calls."""
    idle: int
    """Used since the window before."""
    beside: tuple[int, ...] = ()
    """Reading the scalars, collecting what it returned, reading that, time asleep: as much of each as the baseline's is
    excused."""


def charged(windows: Sequence[WindowTimes], after: int, excused: Sequence[float]) -> list[float]:
    """Return what each window took with all that belongs to it.

    Args:
        windows: In order.
        after: Used since the last one.
        excused: What the baseline's windows take beside their calls.
    """
    idle = [window.idle for window in windows] + [after]
    return [
        window.called
        + before
        + behind
        + sum(max(0.0, took - free) for took, free in zip(window.beside, excused, strict=True))
        for window, before, behind in zip(windows, idle, idle[1:], strict=False)
    ]
