"""Driver: the least that any program must move and do at each workload, as a reference's function `floor` tells it."""

import types
from collections.abc import Callable
from typing import Any


class Untold(Exception):
    """A floor cannot be told; the message says of which workload, and why."""


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Return `{"floors": [{"bytes", "operations"}]}`, one for each case, or `{"problem"}`.

    `request`: `reference` (source), `cases` (`name` and `axes` of each workload).
    """
    module = types.ModuleType("reference")
    try:
        _run(request["reference"], module)
        return {"floors": [told(vars(module)["floor"], case) for case in request["cases"]]}
    except Untold as error:
        return {"problem": str(error)}


def told(floor: Callable[..., Any], case: dict[str, Any]) -> dict[str, int]:
    """Return what `floor` says of one workload, whole numbers. Raises Untold."""
    where = f"floor() of {case['name']}"
    try:
        said = floor(dict(case["axes"]))
        least = {what: int(said.get(what, 0)) for what in ("bytes", "operations")}
    except Exception as error:
        raise Untold(f"{where} failed: {_words(error)}") from error
    if set(said) - set(least) or min(least.values()) < 0 or not any(least.values()):
        raise Untold(f"{where} must be {{'bytes': ..., 'operations': ...}}, above 0; it is {str(said)[:200]}")
    return least


def _run(source: str, module: types.ModuleType) -> None:
    try:
        exec(compile(source, "reference.py", "exec"), vars(module))
    except Exception as error:
        raise Untold(f"the reference's source failed: {_words(error)}") from error


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
