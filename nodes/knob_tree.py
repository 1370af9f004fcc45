"""What the tree knows of knob settings: which were measured, which exist, and which changes have lost."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from evaluators.objective import Value, log_gain
from evaluators.worker.status import Status
from graph.world_model import ROOT, Evidence, Node, WorldModel
from nodes.knob_model import Observation

Change = tuple[str, str]
"""A knob and the value it is turned to."""
Combination = frozenset[Change]
"""Full settings, as something that can be looked up."""
_STATUSES = frozenset(status.value for status in Status)


@dataclass(frozen=True)
class Standing:
    """A node with a passing program, or the root with the seed: somewhere to go on from."""

    node: str
    settings: Mapping[str, str]
    log_gain: float
    """Natural logarithm of its gain on the seed."""
    solution: str
    """Blob of its program."""
    improved: bool
    """It beat its parent beyond noise; true of the root."""


@dataclass(frozen=True)
class Trial:
    """What one change was worth on one parent."""

    node: str
    parent: str
    log_gain: float | None
    """Of the objective on the parent's; None when no program passed."""
    lost: bool
    """Failed, or did not beat the parent beyond noise."""


class KnobTree:
    """Reads a world model whose seed passed. Raises ValueError without one."""

    def __init__(self, model: WorldModel) -> None:
        if model.seed is None or model.seed.objective is None or model.seed.solution is None:
            raise ValueError("the tree has no seed program that passed")
        self.model = model
        self._seed = model.seed
        self._seed_value = model.seed.objective.value
        self._settings: dict[str, dict[str, str]] = {ROOT: dict(model.seed.settings)}
        for node in model.nodes:
            self._settings[node.id] = self._settings_of(node)

    def settings(self, node: str) -> Mapping[str, str]:
        """Return the full settings of a node's best program, or of the one it would lead to."""
        return self._settings[node]

    def combinations(self) -> set[Combination]:
        """Return every full setting that exists in the tree, whatever became of it."""
        found = {combination(settings) for settings in self._settings.values()}
        for node in self.model.nodes:
            found.add(combination(self._planned(node)))
            found.update(combination(item.settings) for item in node.evidence if item.settings)
        return found

    def observations(self) -> list[Observation]:
        """Return what became of every program that was evaluated, the seed first."""
        seen = [Observation(self._seed.settings, 0.0, _noise(self._seed.objective))]
        for node in self.model.nodes:
            for evidence in node.evidence:
                if evidence.objective is not None:
                    gained = self._log_gain(evidence.objective)
                    seen.append(Observation(evidence.settings, gained, _noise(evidence.objective)))
                elif failed(evidence):
                    seen.append(Observation(self._planned(node), None))
        return seen

    def standings(self) -> list[Standing]:
        """Return the root and the closed nodes, best first; equals stay in the tree's order."""
        standings = [self._standing(ROOT, self._seed, improved=True)]
        for node in self.model.nodes:
            best = node.best(self.model.goal)
            if node.status == "closed" and best is not None:
                standings.append(self._standing(node.id, best, improved=not self._lost(node, best)))
        return sorted((item for item in standings if item.solution), key=lambda item: -item.log_gain)

    def trials(self) -> dict[Change, list[Trial]]:
        """Return, for every change that nodes made alone, what it was worth on each parent."""
        trials: dict[Change, list[Trial]] = defaultdict(list)
        for node in self.model.nodes:
            if len(node.intent.settings) != 1 or node.status not in ("closed", "failed"):
                continue
            change = next(iter(node.intent.settings.items()))
            best = node.best(self.model.goal)
            if best is not None and best.gain is not None:
                trials[change].append(Trial(node.id, node.parent, math.log(best.gain), self._lost(node, best)))
            elif best is None and any(failed(item) for item in node.evidence):
                trials[change].append(Trial(node.id, node.parent, None, lost=True))
        return trials

    def _settings_of(self, node: Node) -> dict[str, str]:
        best = node.best(self.model.goal)
        return dict(best.settings) if best is not None and best.settings else self._planned(node)

    def _planned(self, node: Node) -> dict[str, str]:
        return {**self._settings[node.parent], **node.intent.settings}

    def _log_gain(self, objective: Value) -> float:
        return log_gain(objective.value, self._seed_value, self.model.goal)

    def _standing(self, node: str, evidence: Evidence, *, improved: bool) -> Standing:
        assert evidence.objective is not None
        return Standing(
            node=node,
            settings=self._settings[node],
            log_gain=self._log_gain(evidence.objective),
            solution=evidence.solution or "",
            improved=improved,
        )

    def _lost(self, node: Node, best: Evidence) -> bool:
        parent = self.model.standing(node.parent)
        if best.gain is None or best.objective is None or parent is None or parent.objective is None:
            return False
        noise = math.hypot(_noise(best.objective), _noise(parent.objective))
        return math.log(best.gain) <= 2 * noise


def combination(settings: Mapping[str, str]) -> Combination:
    """Return settings as something that can be looked up."""
    return frozenset(settings.items())


def failed(evidence: Evidence) -> bool:
    """Return whether a program was evaluated and none passed (a draft that never became a program is no failure)."""
    return evidence.objective is None and not evidence.cut_short and bool(_STATUSES & evidence.outcomes.keys())


def _noise(value: Value | None) -> float:
    """Standard deviation of the logarithm: a quarter of the interval, which is taken to span 95 %."""
    return 0.0 if value is None else math.log(value.high / value.low) / 4
