"""Searches in this process, with scripted planner, coder and evaluator."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from checkpoints.logs import read
from graph import runs
from graph.world_model import WorldModel
from nodes.services import Services


@dataclass
class Searched:
    """One search that has ended, and what was told of it."""

    means: Services
    ended: runs.Ended
    model: WorldModel
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def attempts(self) -> list[dict[str, Any]]:
        return list(read(self.means.home.blobs, self.ended.state["attempts"]))

    @property
    def edits(self) -> list[dict[str, Any]]:
        return list(read(self.means.home.blobs, self.ended.state["edits"]))

    def trace(self) -> list[str]:
        """The events in one readable line each."""
        return [line for event in self.events if (line := _line(event))]


def _line(event: dict[str, Any]) -> str:
    match event["event"]:
        case "selected":
            return f"select {event['node']}"
        case "result":
            value = event["objective"]
            return f"cycle {event['cycle']} sample {event['sample']}: {value['value'] if value else event['status']}"
        case "certified":
            return f"certify: {'accepted' if event['accepted'] else event['status']}"
        case "settled":
            return f"{event['status']} {event['node']}"
        case "edits":
            return f"edit: {event['edits']}" + ("" if event["accepted"] else " rejected")
        case _:
            return ""


Search = Callable[..., Awaitable[Searched]]


def intent(title: str, priority: float) -> dict[str, Any]:
    """An Insert under the root."""
    return under("root", title, priority)


def under(parent: str, title: str, priority: float) -> dict[str, Any]:
    """An Insert."""
    return {"kind": "insert", "parent": parent, "intent": {"title": title, "priority": priority}}
