"""Knob settings and what came of them, in words for people who read the tree."""

import math
from collections.abc import Mapping, Sequence

from evaluators.knobs import Knob
from nodes.knob_model import Outlook
from nodes.knob_tree import Trial

TITLE_LENGTH = 160
"""What graph.world_model.Intent admits."""
_LONG = 24
"""Values longer than this are cut in the middle when a title would be too long."""


def words(settings: Mapping[str, str]) -> str:
    """Return `UNROLL = 4, TILE = 8`."""
    return ", ".join(f"{name} = {value}" for name, value in settings.items())


def title(settings: Mapping[str, str]) -> str:
    """Return the settings in at most TITLE_LENGTH characters: values are cut first, then the knobs are only named."""
    whole = words(settings)
    if len(whole) > TITLE_LENGTH:
        whole = words({name: _cut(value) for name, value in settings.items()})
    return whole if len(whole) <= TITLE_LENGTH else f"{len(settings)} knobs: {', '.join(settings)}"[:TITLE_LENGTH]


def description(knobs: Mapping[str, Knob], settings: Mapping[str, str]) -> str:
    """Return what turning each knob means, as the program's author put it."""
    return _bounded([f"{name} = {value}: {knobs[name].intent}." for name, value in settings.items()], " ", 8000)


def rationale(histories: Mapping[str, str]) -> str:
    """Return what is known of each change: words of the change -> its history."""
    return _bounded([f"{change}: {told}." for change, told in histories.items()], " ", 8000)


def history(trials: Sequence[Trial]) -> str:
    """Return what a change was worth wherever it was made alone."""
    if not trials:
        return "not tried alone yet"
    return ", ".join(
        f"{'failed' if trial.log_gain is None else times(trial.log_gain)} on {trial.parent}" for trial in trials
    )


def expectation(value: str, outlook: Outlook, standing: float) -> str:
    """Return what a value is expected to be worth on a program of log gain `standing`."""
    doubt = f" if it works at all ({outlook.works:.0%})" if outlook.works < 0.9 else ""
    return f"{value}: {times(outlook.mean - standing)}{doubt}"


def paragraphs(lines: Sequence[str]) -> str:
    """Return the lines as a world model's summary; whole lines are left out where it would be too long."""
    return _bounded(lines, "\n", 20000)


def times(log_gain: float) -> str:
    """Return a log gain as a factor: `x1.25`."""
    return f"x{math.exp(log_gain):.3g}"


def _cut(value: str) -> str:
    return value if len(value) <= _LONG else f"{value[: _LONG // 2]}…{value[-_LONG // 2 + 1 :]}"


def _bounded(items: Sequence[str], separator: str, limit: int) -> str:
    """Join as many whole items as fit, and say how many did not."""
    whole = separator.join(items)
    if len(whole) <= limit:
        return whole
    kept, room = 0, limit - 40
    while room >= len(items[kept]) + len(separator):
        room -= len(items[kept]) + len(separator)
        kept += 1
    return separator.join([*items[:kept], f"({len(items) - kept} more left out)"])
