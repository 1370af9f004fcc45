"""Telling people what happens, as it happens: custom stream events of the graph."""

from typing import Protocol


class Tell(Protocol):
    """Emits one event. Events are for display only: everything in them is also in the state or a blob."""

    def __call__(self, event: str, /, **facts: object) -> None:
        """Emit `event` with plain JSON facts."""
        ...
