"""Where a run's spend went: by cycle and by node, from the ledger. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from checkpoints.ledger import Entry
from graph.world_model import WorldModel

FIGURES = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "usd", "device_s")
OUTSIDE = 0
"""The cycle of calls that belong to none: the planner's and the seed's."""


def spend_by(entries: Iterable[Entry], nodes: Mapping[int, str]) -> dict[str, list[dict[str, Any]]]:
    """Return the finished calls added up by cycle and by node, each in the order of their first cycle.

    Args:
        entries: The run's ledger.
        nodes: Cycle -> its node. Calls of no cycle, such as the planner's, have neither: cycle and node are None.
    """
    cycles: dict[int, dict[str, Any]] = {}
    by_node: dict[str | None, dict[str, Any]] = {}
    for entry in sorted(entries, key=lambda entry: entry.key.cycle):
        if entry.spend is None:
            continue
        number = entry.key.cycle
        node = nodes.get(number)
        cycle = None if number == OUTSIDE else number
        _add(cycles.setdefault(number, {"cycle": cycle, "node": node, **_nothing()}), entry.spend)
        _add(by_node.setdefault(node, {"node": node, **_nothing()}), entry.spend)
    return {"by_cycle": list(cycles.values()), "by_node": list(by_node.values())}


def nodes_of_cycles(model: WorldModel, active: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """Return cycle -> node: of ended cycles as their evidence tells, of `active` ones as the state does."""
    ended = {evidence.cycle: node.id for node in model.nodes for evidence in node.evidence}
    return ended | {cycle["id"]: cycle["node"] for cycle in active}


def cached_share(spend: Mapping[str, Any]) -> float | None:
    """Return how much of the input tokens the providers read from their caches, 0 to 1; None when there were none."""
    return spend["cached_tokens"] / spend["input_tokens"] if spend["input_tokens"] else None


def _nothing() -> dict[str, Any]:
    return {"calls": 0, "unpriced_calls": 0, **dict.fromkeys(FIGURES, 0)}


def _add(total: dict[str, Any], spend: Mapping[str, Any]) -> None:
    total["calls"] += 1
    total["unpriced_calls"] += "model" in spend and spend.get("usd") is None
    for name in FIGURES:
        total[name] += spend.get(name) or 0
