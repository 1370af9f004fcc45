"""States of earlier versions of ksearch, brought up to this one's. Pure.

A state is brought up to date when it is read: checkpoints stay as they were written. Steps are only ever added.
"""

from collections.abc import Callable, Mapping
from typing import Any

from evaluators.errors import UsageError
from graph.state import SCHEMA_VERSION

Values = dict[str, Any]


def migrated(values: Mapping[str, Any]) -> Values:
    """Return a state as this version knows it; one that has no version yet (before initialize) is left as it is.

    Raises:
        UsageError: a newer ksearch wrote it.
    """
    current = dict(values)
    version = current.get("schema_version")
    if version is None or version == SCHEMA_VERSION:
        return current
    if not isinstance(version, int) or not 1 <= version < SCHEMA_VERSION:
        raise UsageError(
            f"the run's state has version {version}, and this ksearch knows up to {SCHEMA_VERSION}: "
            "a newer ksearch wrote it; upgrade, or go on with that one"
        )
    for step in _STEPS[version - 1 :]:
        current = step(current)
    return {**current, "schema_version": SCHEMA_VERSION}


def _to_2(values: Values) -> Values:
    """Version 2 counts repaired programs, and knows up to which edit of people's a plan has been brought."""
    return {**values, "steered": 0, "spend": {"repairs": 0, **values["spend"]}}


_STEPS: tuple[Callable[[Values], Values], ...] = (_to_2,)
"""Step n brings a state from version n + 1 to n + 2."""
