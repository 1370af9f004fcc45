"""Driver: the least that any program must move and do at each workload, as a reference's function `floor` tells it."""

import math
from collections.abc import Callable
from typing import Any

from evaluators.worker.source import load_source

_MOST = 2**63
"""Bytes and operations are fewer."""


class Untold(Exception):
    """A floor cannot be told; the message says of which workload, and why."""


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Return `{"floors": [{"bytes", "operations", "practical_us"}]}`, one for each case, or `{"problem"}`.

    `request`: `reference` (source), `cases` (`name` and `axes` of each workload).
    """
    try:
        names = _run(request["reference"])
        return {"floors": [told(names["floor"], case) for case in request["cases"]]}
    except Untold as error:
        return {"problem": str(error)}


def told(floor: Callable[..., Any], case: dict[str, Any]) -> dict[str, Any]:
    """Return what `floor` says of one workload: whole numbers, and microseconds or None. Raises Untold."""
    where = f"floor() of {case['name']}"
    try:
        said = floor(dict(case["axes"]))
        practical_us = None if said.get("practical_us") is None else float(said["practical_us"])
        least = {what: int(said.get(what, 0)) for what in ("bytes", "operations")}
    except Exception as error:  # the task's code may raise anything: told as a floor that cannot be told
        raise Untold(f"{where} failed: {_words(error)}") from error
    fits = all(0 <= number < _MOST for number in least.values())
    if set(said) - {*least, "practical_us"} or not fits or not any(least.values()):
        raise Untold(f"{where} must be {{'bytes': ..., 'operations': ...}}, above 0; it is {str(said)[:200]}")
    if practical_us is not None and not 0 < practical_us < math.inf:
        raise Untold(f"{where}: 'practical_us' must be above 0, microseconds; it is {practical_us:g}")
    return {**least, "practical_us": practical_us}


def _run(source: str) -> dict[str, Any]:
    try:
        return vars(load_source(source))
    except Exception as error:  # the task's code may raise anything: told as a floor that cannot be told
        raise Untold(f"the reference's source failed: {_words(error)}") from error


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
