"""The planner that needs no model: best-first search over the knobs that the seed program declares.

Every revision fits nodes/knob_model.py to all that the tree knows and gives every open node the priority

    V = 1 - exp(-I / UNIT)      I: expected improvement of the log objective on the best program so far, failures 0

so that argmax V works on what promises most: mostly changes that gained elsewhere, on the best program; also what is
uncertain, because interactions may turn a change that lost. New intents go under programs that beat their parents:
one knob turned, or several at once where the effects seem to add up. A change that lost under two parents leaves the
search unless the model still gives it a chance. No settings are ever proposed twice.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, product

from evaluators.errors import UsageError
from evaluators.knobs import Knob, declared_knobs
from graph.edits import EditBatch, Insert, Prune, Update
from graph.world_model import ROOT, Intent, Node
from nodes.knob_model import KnobModel, Outlook, Prior
from nodes.knob_tree import Change, KnobTree, Standing, combination
from nodes.paid import PaidCalls
from nodes.planner import PlannerView, Proposal


@dataclass(frozen=True)
class Tuning:
    """Constants of the planner. benchmarks/offline_planner.py chose the values that are not mere bounds."""

    prior: Prior = field(default_factory=Prior)
    unit: float = 0.05
    """UNIT above: an expected improvement of 5 % has V = 0.63."""
    first: int = 24
    """Most inserts of initialize."""
    inserts: int = 12
    """Most inserts of a revision."""
    open_limit: int = 48
    """Most open nodes that the planner keeps."""
    bases: int = 3
    """How many programs new intents may go under, the best first."""
    together: int = 2
    """Most knobs turned at once around a base (the climb may turn more)."""
    losses: int = 2
    """Parents under which a change must have lost before it may leave the search."""
    last_chance: float = 0.02
    """A change that lost often enough stays while its chance to beat the best program is above this."""


class OfflinePlanner:
    """Implements nodes.planner.Planner without a model; costs nothing and never pays."""

    def __init__(self, tuning: Tuning | None = None) -> None:
        self.tuning = tuning or Tuning()

    async def initialize(self, view: PlannerView, calls: PaidCalls) -> Proposal:
        """Insert one intent for every value of every knob that the seed does not have."""
        return first_intents(view, self.tuning)

    async def revise(self, view: PlannerView, calls: PaidCalls) -> Proposal:
        """Learn from the tree, reprioritise, prune, and insert what has become promising."""
        return revision(view, self.tuning)


def first_intents(view: PlannerView, tuning: Tuning) -> Proposal:
    """Return the first intents: every knob of the seed turned to every other value, one at a time."""
    plan = _plan(view, tuning)
    if isinstance(plan, str):
        return _nothing(plan)
    inserts = plan.inserts(limit=tuning.first, together=1)
    reason = f"the seed declares {len(plan.knobs(plan.best))} knobs"
    return Proposal(EditBatch(origin="planner", reason=reason, edits=tuple(inserts)), "" if inserts else reason)


def revision(view: PlannerView, tuning: Tuning) -> Proposal:
    """Return the edits that the tree's evidence calls for."""
    plan = _plan(view, tuning)
    if isinstance(plan, str):
        return _nothing(plan)
    prunes = plan.prunes()
    gone = {prune.node for prune in prunes}
    updates = plan.updates(gone)
    room = tuning.open_limit - len(plan.own_open()) + len(gone)
    inserts = plan.inserts(limit=min(tuning.inserts, room), together=tuning.together)
    batch = EditBatch(
        origin="planner",
        reason=plan.reason(),
        cycles=tuple(report.cycle.id for report in view.reports),
        summary=plan.summary(),
        edits=(*prunes, *updates, *inserts),
    )
    return Proposal(batch)


def _nothing(why: str) -> Proposal:
    return Proposal(EditBatch(origin="planner", reason=why), why)


def _plan(view: PlannerView, tuning: Tuning) -> "_Plan | str":
    """Return what the planner works with, or why there is nothing to plan."""
    if view.model.seed is None or view.model.seed.solution is None:
        return "there is no seed program that passed, so there are no knobs to turn"
    plan = _Plan(view, tuning, KnobTree(view.model))
    try:
        knobs = plan.knobs(plan.standings[-1]) and plan.knobs(plan.best)
    except UsageError as error:
        return f"the knobs of a program cannot be read: {error}"
    return plan if knobs else "the program declares no knobs, and without a model nothing else can be planned"


@dataclass(frozen=True)
class _Candidate:
    base: Standing
    changes: dict[str, str]
    settings: Mapping[str, str]
    outlook: Outlook


class _Plan:
    """One revision's view of the knobs."""

    def __init__(self, view: PlannerView, tuning: Tuning, tree: KnobTree) -> None:
        self._view = view
        self._tuning = tuning
        self._tree = tree
        self._model = KnobModel(tree.observations(), tuning.prior)
        self._knobs: dict[str, dict[str, Knob]] = {}
        self._trials = tree.trials()
        self.standings = tree.standings()
        self.best = self.standings[0]

    def knobs(self, standing: Standing) -> dict[str, Knob]:
        """Return the knobs that a standing's program declares. Raises UsageError when they cannot be read."""
        if standing.solution not in self._knobs:
            solution = self._view.program(standing.solution)
            self._knobs[standing.solution] = declared_knobs(solution.files[solution.main_file])
        return self._knobs[standing.solution]

    def own_open(self) -> list[Node]:
        """Return the open nodes that are the planner's to change."""
        return [
            node
            for node in self._view.model.nodes
            if node.status == "open" and node.origin == "planner" and node.intent.settings and not node.pinned
        ]

    def prunes(self) -> list[Prune]:
        """Return which open nodes leave the search, with the reason."""
        nodes = self.own_open()
        outlooks = self._model.outlooks([self._tree.settings(node.id) for node in nodes])
        return [
            Prune(node=node.id, reason=f"{_words(dict([spent]))} lost {self._history(spent)}")
            for node, outlook in zip(nodes, outlooks, strict=True)
            for spent in self._spent(node.intent.settings, outlook)[:1]
        ]

    def updates(self, gone: set[str]) -> list[Update]:
        """Return the new priorities and predictions of the open nodes that stay, where they change enough to tell."""
        nodes = [node for node in self.own_open() if node.id not in gone]
        outlooks = self._model.outlooks([self._tree.settings(node.id) for node in nodes])
        log_gains = {item.node: item.log_gain for item in self.standings}
        updates = []
        for node, outlook in zip(nodes, outlooks, strict=True):
            update = Update(
                node=node.id,
                priority=self._priority(outlook),
                predicted_gain=_gain(outlook.mean - log_gains.get(node.parent, 0.0)),
                confidence=round(outlook.chance(log_gains.get(node.parent, 0.0)), 3),
            )
            if _tells(node.intent, update):
                updates.append(update)
        return updates[:100]

    def inserts(self, limit: int, together: int) -> list[Insert]:
        """Return up to `limit` new intents, the most promising first."""
        candidates = [item for item in self._candidates(together) if not self._spent(item.changes, item.outlook)]
        candidates.sort(key=lambda item: (-round(item.outlook.improvement(self.best.log_gain), 9), len(item.changes)))
        taken = {
            (node.parent, node.intent.title.casefold().strip())
            for node in self._view.model.nodes
            if node.status != "pruned"
        }
        inserts = []
        for candidate in candidates[: max(limit, 0)]:
            intent = self._intent(candidate)
            if (candidate.base.node, intent.title.casefold()) not in taken:
                taken.add((candidate.base.node, intent.title.casefold()))
                inserts.append(Insert(parent=candidate.base.node, intent=intent))
        return inserts

    def reason(self) -> str:
        """Return what the ended cycles brought, in words."""
        told = [f"{report.cycle.node}: {self._told(report.cycle.node)}" for report in self._view.reports]
        return "; ".join([*told, f"best is {self.best.node} at {_times(self.best.log_gain)} of the seed"])

    def summary(self) -> str:
        """Return what each value is expected to be worth on the best program."""
        lines = [f"Best: {self.best.node}, {_times(self.best.log_gain)} of the seed: {_words(self.best.settings)}."]
        for name, knob in self.knobs(self.best).items():
            others = [value for value in knob.values if value != self.best.settings.get(name)]
            outlooks = self._model.outlooks([{**self.best.settings, name: value} for value in others])
            expected = [
                f"{value}: {_times(outlook.mean - self.best.log_gain)}"
                + (f", passes with {outlook.works:.0%}" if outlook.works < 0.9 else "")
                for value, outlook in zip(others, outlooks, strict=True)
            ]
            lines.append(f"{name} = {self.best.settings.get(name)}; expected of {'; '.join(expected)}")
        return "\n".join(lines)[:20000]

    def _candidates(self, together: int) -> Iterator[_Candidate]:
        """Yield every new setting that is worth a look, with the program that it is nearest to."""
        bases = self._bases()
        centres = bases if not self._view.config.flat else self.standings[: self._tuning.bases]
        exists = self._tree.combinations()
        found: dict[frozenset[Change], Mapping[str, str]] = {}
        for centre in centres:
            for settings in _around(centre.settings, self.knobs(centre), together):
                found.setdefault(combination(settings), settings)
        if together > 1:
            for settings in self._climb():
                found.setdefault(combination(settings), settings)
        new = [settings for key, settings in found.items() if key not in exists]
        for settings, outlook in zip(new, self._model.outlooks(new), strict=True):
            base = min(bases, key=lambda item: len(_changes(item.settings, settings)))
            changes = _changes(base.settings, settings)
            if changes.keys() <= self.knobs(base).keys():
                yield _Candidate(base, changes, settings, outlook)

    def _bases(self) -> list[Standing]:
        """Return the programs that new intents may go under: the best of those that beat their parents."""
        root = [item for item in self.standings if item.node == ROOT]
        if self._view.config.flat:
            return root
        return [item for item in self.standings if item.improved or item is self.best][: self._tuning.bases]

    def _climb(self) -> Iterator[Mapping[str, str]]:
        """Yield the settings on a greedy climb of the expected improvement, one knob after another."""
        settings, value = dict(self.best.settings), 0.0
        for _ in range(2 * len(settings)):
            steps = list(_around(settings, self.knobs(self.best), 1))
            values = [outlook.improvement(self.best.log_gain) for outlook in self._model.outlooks(steps)]
            top = max(range(len(steps)), key=lambda index: round(values[index], 9), default=None)
            if top is None or values[top] <= value + 1e-9:
                return
            settings, value = dict(steps[top]), values[top]
            yield settings

    def _spent(self, changes: Mapping[str, str], outlook: Outlook) -> list[Change]:
        """Return the changes that have lost often enough, unless the whole still has a chance."""
        if outlook.chance(self.best.log_gain) > self._tuning.last_chance:
            return []
        return [change for change in changes.items() if self._lost_enough(change)]

    def _lost_enough(self, change: Change) -> bool:
        lost = {trial.parent for trial in self._trials.get(change, ()) if trial.lost}
        won = [trial for trial in self._trials.get(change, ()) if not trial.lost]
        return len(lost) >= self._tuning.losses and len(won) < len(lost)

    def _priority(self, outlook: Outlook) -> float:
        return round(1 - math.exp(-outlook.improvement(self.best.log_gain) / self._tuning.unit), 4)

    def _intent(self, candidate: _Candidate) -> Intent:
        knobs, changes, outlook = self.knobs(candidate.base), candidate.changes, candidate.outlook
        changes = {name: changes[name] for name in knobs if name in changes}
        ceiling = self._view.config.difficulty_ceiling or 5
        return Intent(
            title=_title(changes),
            description=" ".join(f"{name} = {value}: {knobs[name].intent}." for name, value in changes.items())[:8000],
            rationale=self._rationale(changes)[:8000],
            priority=self._priority(outlook),
            difficulty=min(len(changes), ceiling),
            predicted_gain=_gain(outlook.mean - candidate.base.log_gain),
            confidence=round(outlook.chance(candidate.base.log_gain), 3),
            settings=changes,
        )

    def _rationale(self, changes: Mapping[str, str]) -> str:
        told = [f"{name} = {value}: {self._history((name, value))}." for name, value in changes.items()]
        return " ".join(told)

    def _history(self, change: Change) -> str:
        trials = self._trials.get(change, ())
        if not trials:
            return "not tried alone yet"
        return ", ".join(
            f"{'failed' if trial.log_gain is None else _times(trial.log_gain)} on {trial.parent}" for trial in trials
        )

    def _told(self, node_id: str) -> str:
        node = self._view.model.node(node_id)
        best = node.best(self._view.model.goal)
        if best is None or best.gain is None:
            return f"{node.intent.title} on {node.parent} {node.status}"
        return f"{node.intent.title} on {node.parent} {_times(math.log(best.gain))}"


def _around(settings: Mapping[str, str], knobs: Mapping[str, Knob], together: int) -> Iterator[Mapping[str, str]]:
    """Yield the settings with one up to `together` knobs turned."""
    turns = [[(name, value) for value in knob.values if value != settings.get(name)] for name, knob in knobs.items()]
    for count in range(1, together + 1):
        for chosen in combinations(turns, count):
            for changes in product(*chosen):
                yield {**settings, **dict(changes)}


def _changes(base: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if base.get(name) != value}


def _title(changes: Mapping[str, str]) -> str:
    """Return the settings in at most 160 characters: long values are cut, then long lists are only counted."""
    title = _words(changes)
    if len(title) > 160:
        title = ", ".join(
            f"{name} = {value if len(value) <= 24 else value[:12] + '…' + value[-11:]}"
            for name, value in changes.items()
        )
    return title if len(title) <= 160 else f"{len(changes)} knobs: {', '.join(changes)}"[:160]


def _words(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items())


def _times(log_gain: float) -> str:
    return f"x{math.exp(log_gain):.3g}"


def _gain(log_gain: float) -> float:
    return round(math.exp(min(max(log_gain, -6.0), 6.0)), 4)


def _tells(intent: Intent, update: Update) -> bool:
    """Whether an update changes anything that matters: V by 0.001, or the prediction by 1 %."""
    assert update.priority is not None
    assert update.predicted_gain is not None
    if intent.predicted_gain is None or abs(update.priority - intent.priority) >= 0.001:
        return True
    return abs(math.log(update.predicted_gain / intent.predicted_gain)) >= 0.01
