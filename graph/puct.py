"""PUCT over the tree of intents: AlphaZero's rule for descending a search tree. Pure.

At a node s, the child a with the largest

    Q(a) + c * P(a) * sqrt(N(s)) / (1 + N(a))

is entered, from the root down to a frontier node (Silver et al., "A general reinforcement learning algorithm that
masters chess, shogi, and Go through self-play", Science 362, 2018, and its pseudocode). Here

- N(a) counts the settled cycles of a and of everything below it; an active cycle counts too, as a loss (virtual loss).
  N(s) is at least 1.
- P(a) is a's priority V divided by the sum of V over the children of s that lead to a frontier node.
- Q(a) is the mean reward over those N(a) cycles. The reward of a cycle without a passing program is 0; of others, it
  is the logarithm of the objective, scaled so that the worst measured in the tree (the seed included) is 0 and the
  best 1 (Schrittwieser et al., "Mastering Atari, Go, chess and shogi by planning with a learned model", Nature 588,
  2020, appendix B). 0.5 when all are equal.
- Without a visit, Q(a) is the mean reward at and below s (what its parent and siblings brought), 0 when there is none.
  With calibration, an intent that predicts a gain is instead rewarded for the parent's objective times the corrected
  gain, scaled likewise and cut to [0, 1].
- c is the exploration constant. Ties: higher V, lower difficulty, older.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

from evaluators.objective import Goal, log_gain
from graph.calibration import Calibration
from graph.world_model import ROOT, Node, WorldModel

_Number = TypeVar("_Number", int, float)


class Puct:
    """One selection: sums over the tree, brought up to date after every pick.

    The root has place 0 and the tree's i-th node place i + 1, so that one pass from the end adds up every subtree.
    """

    def __init__(
        self, model: WorldModel, choices: Sequence[Node], exploration: float, calibration: Calibration | None
    ) -> None:
        """Gather the sums for picking among `choices` (frontier nodes of `model`)."""
        self._model = model
        self._exploration = exploration
        self._log_correction = None if calibration is None else calibration.log_correction
        """What to add to the logarithm of a predicted gain; None: predictions are not used."""
        self._place = {ROOT: 0} | {node.id: place for place, node in enumerate(model.nodes, start=1)}
        self._above = [0, *(self._place[node.parent] for node in model.nodes)]
        self._visits, self._passed, self._logs, self._scale = _own_figures(model)
        self._ready = [0] * len(self._place)
        """Frontier nodes at and below each place that can still be picked."""
        for node in choices:
            self._ready[self._place[node.id]] = 1
        _add_up(self._visits, self._above)
        _add_up(self._passed, self._above)
        _add_up(self._logs, self._above)
        _add_up(self._ready, self._above)
        self._children: dict[str, list[Node]] = {}
        for node, ready in zip(model.nodes, self._ready[1:], strict=True):
            if ready:
                self._children.setdefault(node.parent, []).append(node)

    def descend(self) -> Node:
        """Return the frontier node that the rule leads to. Raises ValueError when nothing can be picked."""
        if not self._ready[0]:
            raise ValueError("no frontier node can be picked")
        at = ROOT
        while True:
            children = [node for node in self._children[at] if self._ready[self._place[node.id]]]
            total = sum(node.intent.priority for node in children)
            chosen = max(children, key=lambda node: self._rank(node, total, len(children)))
            if chosen.status == "open":
                return chosen
            at = chosen.id

    def occupy(self, node: Node) -> None:
        """Treat a picked node as active: a visit without reward on it and everything above, and no longer a choice."""
        place = self._place[node.id]
        while True:
            self._visits[place] += 1
            self._ready[place] -= 1
            if place == 0:
                return
            place = self._above[place]

    def _rank(self, node: Node, total: float, count: int) -> tuple[float, float, int, int]:
        place = self._place[node.id]
        visits, visits_above = self._visits[place], max(self._visits[self._above[place]], 1)
        prior = node.intent.priority / total if total > 0 else 1 / count
        value = self._mean(place) if visits else self._expected(node)
        bound = value + self._exploration * prior * math.sqrt(visits_above) / (1 + visits)
        return (bound, node.intent.priority, -node.intent.difficulty, -node.number)

    def _mean(self, place: int) -> float:
        reward = self._scale.total(self._logs[place], self._passed[place])
        return reward / self._visits[place] if self._visits[place] else 0.0

    def _expected(self, node: Node) -> float:
        """Return Q of a node that has not been visited."""
        predicted = node.intent.predicted_gain
        if self._log_correction is not None and predicted is not None:
            place = self._place[node.parent]
            standing = self._model.nodes[place - 1].best(self._model.goal) if place else self._model.seed
            if standing is not None and standing.objective is not None:
                log = log_gain(standing.objective.value, 1.0, self._model.goal)
                return self._scale.one(log + math.log(predicted) + self._log_correction)
        return self._mean(self._place[node.parent])


def _add_up(figures: list[_Number], above: list[int]) -> None:
    """Turn each place's own figure into the sum over its subtree."""
    for place in range(len(figures) - 1, 0, -1):
        figures[above[place]] += figures[place]


def _own_figures(model: WorldModel) -> tuple[list[int], list[int], list[float], "_Scale"]:
    """Return by place: visits, how many of them passed, the sum of their logarithms; and the scale of rewards."""
    visits, passed, logs = [0], [0], [0.0]
    scale = _Scale()
    if model.seed is not None and model.seed.objective is not None:
        visits, passed, logs = [1], [1], [scale.seen(model.seed.objective.value, model.goal)]
    for node in model.nodes:
        count, passes, total = int(node.status == "active"), 0, 0.0
        for item in node.evidence:
            if item.objective is not None:
                passes += 1
                total += scale.seen(item.objective.value, model.goal)
            elif not item.cut_short:
                count += 1
        visits.append(count + passes)
        passed.append(passes)
        logs.append(total)
    return visits, passed, logs, scale


class _Scale:
    """Logarithms of objectives (in the goal's direction) as rewards from 0 to 1."""

    def __init__(self) -> None:
        self._low, self._high = math.inf, -math.inf

    def seen(self, objective: float, goal: Goal) -> float:
        """Return the objective's logarithm, and widen the scale so that it holds it."""
        log = log_gain(objective, 1.0, goal)
        if log < self._low:
            self._low = log
        if log > self._high:
            self._high = log
        return log

    def total(self, logs: float, count: int) -> float:
        """Return the sum of the rewards of `count` logarithms whose sum is `logs`."""
        if self._high <= self._low:
            return 0.5 * count
        return (logs - count * self._low) / (self._high - self._low)

    def one(self, log: float) -> float:
        """Return the reward of one logarithm, which need not lie on the scale."""
        return min(max(self.total(log, 1), 0.0), 1.0)
