"""Selection policies: which frontier nodes are worked on next. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from graph.calibration import Calibration
from graph.config import PolicyName, SearchConfig
from graph.draws import draw
from graph.puct import Puct
from graph.world_model import Node, WorldModel

SHOWN = 8
"""Frontier nodes in the digest."""


class Policy(Protocol):
    """Picks intents. Implementations are pure: equal arguments, equal picks."""

    def select(
        self, model: WorldModel, config: SearchConfig, round: int, places: int, calibration: Calibration | None
    ) -> tuple[str, ...]:
        """Return the ids of up to `places` distinct frontier nodes, in the order in which they are to start.

        Nodes above the difficulty ceiling are never picked, pinned or not. Pinned nodes come first. Picks are made
        one after another, each as if the earlier ones were active. Fewer ids than places: nothing else can be picked.
        """
        ...


def selectable(model: WorldModel, config: SearchConfig) -> tuple[Node, ...]:
    """Return the frontier nodes that the difficulty ceiling admits, oldest first."""
    ceiling = config.difficulty_ceiling
    return tuple(node for node in model.frontier() if ceiling is None or node.intent.difficulty <= ceiling)


def urgency(node: Node) -> tuple[float, int]:
    """Sort key, most urgent first: higher V, then lower difficulty. Nodes come oldest first, and sorting keeps that."""
    return (-node.intent.priority, node.intent.difficulty)


def frontier_digest(model: WorldModel) -> list[dict[str, Any]]:
    """Return the most promising frontier nodes, pinned ones first, for people who look at a run or at its state."""
    ranked = sorted(model.frontier(), key=lambda node: (not node.pinned, -node.intent.priority, node.number))
    return [{"node": node.id, "title": node.intent.title, "priority": node.intent.priority} for node in ranked[:SHOWN]]


class Priority:
    """Argmax V; ties go to the lower difficulty, then to the older node. The paper's policy."""

    def select(
        self, model: WorldModel, config: SearchConfig, round: int, places: int, calibration: Calibration | None
    ) -> tuple[str, ...]:
        """Return the `places` most urgent nodes, pinned ones first."""
        ranked = sorted(selectable(model, config), key=lambda node: (not node.pinned, *urgency(node)))
        return tuple(node.id for node in ranked[: max(places, 0)])


class Random:
    """Uniformly at random among the frontier nodes, by hash: the control for the other policies."""

    def select(
        self, model: WorldModel, config: SearchConfig, round: int, places: int, calibration: Calibration | None
    ) -> tuple[str, ...]:
        """Return pinned nodes by urgency, then others drawn without replacement."""

        def pick(choices: Sequence[Node], index: int) -> Node:
            return choices[int(draw(config.seed, "policy", round, index) * len(choices))]

        return _one_by_one(selectable(model, config), places, pick)


class TreeBandit:
    """`puct`: descends from the root by prior, measured results and visits (graph/puct.py has the formula)."""

    def select(
        self, model: WorldModel, config: SearchConfig, round: int, places: int, calibration: Calibration | None
    ) -> tuple[str, ...]:
        """Return pinned nodes by urgency, then others by descent, each with a virtual loss for those before."""
        choices = selectable(model, config)
        puct = Puct(model, choices, config.puct_exploration, calibration if config.calibration else None)

        def pick(left: Sequence[Node], index: int) -> Node:
            return puct.descend()

        return _one_by_one(choices, places, pick, puct.occupy)


def _one_by_one(
    choices: Sequence[Node],
    places: int,
    pick: Callable[[Sequence[Node], int], Node],
    picked: Callable[[Node], None] = lambda node: None,
) -> tuple[str, ...]:
    """Fill `places`: pinned nodes by urgency, then what `pick` takes of the rest; `picked` is told of each."""
    pinned = sorted((node for node in choices if node.pinned), key=urgency)
    left = {node.id: node for node in choices}
    taken: list[str] = []
    while left and len(taken) < places:
        node = pinned[len(taken)] if len(taken) < len(pinned) else pick(tuple(left.values()), len(taken))
        del left[node.id]
        picked(node)
        taken.append(node.id)
    return tuple(taken)


POLICIES: Mapping[PolicyName, Policy] = {"priority": Priority(), "puct": TreeBandit(), "random": Random()}
"""Every policy by its name in the configuration."""
