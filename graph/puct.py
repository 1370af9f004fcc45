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
from dataclasses import dataclass

from evaluators.objective import Goal, log_gain
from graph.calibration import Calibration
from graph.world_model import ROOT, Evidence, Node, WorldModel


@dataclass(slots=True)
class _Tally:
    """Sums over a node and everything below it."""

    visits: int = 0
    reward: float = 0.0
    ready: int = 0
    """Frontier nodes that can still be picked."""

    @property
    def mean(self) -> float:
        return self.reward / self.visits if self.visits else 0.0


class Puct:
    """One selection: sums over the tree, brought up to date after every pick."""

    def __init__(
        self, model: WorldModel, choices: Sequence[Node], exploration: float, calibration: Calibration | None
    ) -> None:
        """Gather the sums for picking among `choices` (frontier nodes of `model`)."""
        self._model = model
        self._exploration = exploration
        self._calibration = calibration if calibration is not None and calibration.measured_count else None
        self._scale = _Scale.of(model)
        self._tallies = {ROOT: _Tally()} | {node.id: _Tally() for node in model.nodes}
        self._parents = {node.id: node.parent for node in model.nodes}
        self._children: dict[str, list[Node]] = {}
        self._sum(frozenset(node.id for node in choices))

    def _sum(self, ready: frozenset[str]) -> None:
        tallies = self._tallies
        if self._model.seed is not None:
            self._count(tallies[ROOT], self._model.seed)
        for node in reversed(self._model.nodes):
            own = tallies[node.id]
            for evidence in node.evidence:
                self._count(own, evidence)
            own.visits += node.status == "active"
            own.ready += node.id in ready
            above = tallies[node.parent]
            above.visits += own.visits
            above.reward += own.reward
            above.ready += own.ready
            if own.ready:
                self._children.setdefault(node.parent, []).append(node)

    def _count(self, tally: _Tally, evidence: Evidence) -> None:
        if evidence.objective is not None:
            tally.reward += self._scale.reward(evidence.objective.value)
        tally.visits += evidence.objective is not None or not evidence.cut_short

    def descend(self) -> Node:
        """Return the frontier node that the rule leads to. Raises ValueError when nothing can be picked."""
        if not self._tallies[ROOT].ready:
            raise ValueError("no frontier node can be picked")
        at = ROOT
        while True:
            children = [node for node in self._children[at] if self._tallies[node.id].ready]
            total = sum(node.intent.priority for node in children)
            chosen = max(children, key=lambda node: self._rank(node, total, len(children)))
            if chosen.status == "open":
                return chosen
            at = chosen.id

    def _rank(self, node: Node, total: float, count: int) -> tuple[float, float, int, int]:
        own, above = self._tallies[node.id], self._tallies[node.parent]
        prior = node.intent.priority / total if total > 0 else 1 / count
        value = own.mean if own.visits else self._expected(node)
        bound = value + self._exploration * prior * math.sqrt(max(above.visits, 1)) / (1 + own.visits)
        return (bound, node.intent.priority, -node.intent.difficulty, -node.number)

    def _expected(self, node: Node) -> float:
        predicted, standing = node.intent.predicted_gain, self._model.standing(node.parent)
        if self._calibration and predicted is not None and standing is not None and standing.objective is not None:
            return self._scale.reward(standing.objective.value, gain=self._calibration.corrected(predicted))
        return self._tallies[node.parent].mean

    def occupy(self, node: Node) -> None:
        """Treat a picked node as active: a visit without reward on it and everything above, and no longer a choice."""
        at = node.id
        while True:
            self._tallies[at].visits += 1
            self._tallies[at].ready -= 1
            if at == ROOT:
                return
            at = self._parents[at]


@dataclass(frozen=True)
class _Scale:
    """Objectives as rewards from 0 to 1."""

    goal: Goal
    low: float
    high: float

    @classmethod
    def of(cls, model: WorldModel) -> "_Scale":
        evidence = [item for node in model.nodes for item in node.evidence]
        seed = [] if model.seed is None else [model.seed]
        logs = [log_gain(item.objective.value, 1.0, model.goal) for item in (*seed, *evidence) if item.objective]
        return cls(goal=model.goal, low=min(logs, default=0.0), high=max(logs, default=0.0))

    def reward(self, objective: float, gain: float = 1.0) -> float:
        if self.high <= self.low:
            return 0.5
        scaled = (log_gain(objective, 1.0, self.goal) + math.log(gain) - self.low) / (self.high - self.low)
        return min(max(scaled, 0.0), 1.0)
