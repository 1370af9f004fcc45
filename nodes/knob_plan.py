"""One revision's view of the knobs: what to prune, how to prioritise, what to insert."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, product

from evaluators.errors import UsageError
from evaluators.knobs import Knob, declared_knobs
from graph.edits import Insert, Prune, Update
from graph.world_model import ROOT, Intent, Node
from nodes.knob_model import KnobModel, Outlook, Prior
from nodes.knob_tree import Change, KnobTree, Standing, combination
from nodes.knob_words import description, expectation, history, paragraphs, rationale, times, title, words
from nodes.planner import PlannerView

Settings = Mapping[str, str]


@dataclass(frozen=True)
class Tuning:
    """Constants of the offline planner, chosen with benchmarks/offline_planner.py.

    Three choices matter there: the expected improvement finds better programs than an upper confidence bound or the
    chance of an improvement; turning two knobs at once beats one, which never passes a valley; and reckoning with
    surprises finds values that win only together. The rest is flat: halving or doubling a value changes the mean ratio
    to the best program by less than its standard error, about 0.01.
    """

    prior: Prior = field(default_factory=Prior)
    unit: float = 0.05
    """An expected improvement of the log objective by so much has priority 0.63; a hundredth of it, 0.1."""
    first: int = 24
    """Most inserts of initialize."""
    inserts: int = 6
    """Most inserts of a revision at width 1; 2 per place beyond width 3, `first` at most."""
    open_limit: int = 48
    """Most open nodes that the planner keeps."""
    bases: int = 3
    """How many programs new intents may go under, the best first."""
    together: int = 2
    """Most knobs that one intent turns. More at once would find good programs sooner, but such an intent could not be
    read, and its result would say nothing of any one change."""
    losses: int = 2
    """Parents under which a change must have lost before it may leave the search."""
    last_chance: float = 0.02
    """A change that lost so often stays in combinations whose chance to beat the best program is above this."""
    hopeless: float = 1e-5
    """Least expected improvement of the log objective: below it, nothing is inserted and open nodes are pruned."""


@dataclass(frozen=True)
class _Candidate:
    base: Standing
    changes: dict[str, str]
    outlook: Outlook


def read_knobs(view: PlannerView, solution: str) -> dict[str, Knob]:
    """Return the knobs that the program of a blob declares. Raises UsageError when they cannot be read."""
    program = view.program(solution)
    return declared_knobs(program.files[program.main_file])


class KnobPlan:
    """Plans on a tree whose seed passed and declares knobs."""

    def __init__(self, view: PlannerView, tuning: Tuning) -> None:
        self._view = view
        self._tuning = tuning
        self._tree = KnobTree(view.model)
        self._model = KnobModel(self._tree.observations(), tuning.prior)
        self._trials = self._tree.trials()
        self._knobs: dict[str, dict[str, Knob]] = {}
        self._standings = [item for item in self._tree.standings() if self.knobs(item)]
        self.best = self._standings[0]

    @property
    def seed(self) -> Standing:
        """The seed program."""
        return next(item for item in self._standings if item.node == ROOT)

    def knobs(self, standing: Standing) -> dict[str, Knob]:
        """Return the knobs that a standing's program declares; none when they cannot be read.

        Only the seed is known to be in order: other programs may be a model's or a person's.
        """
        if standing.solution not in self._knobs:
            try:
                self._knobs[standing.solution] = read_knobs(self._view, standing.solution)
            except UsageError:
                self._knobs[standing.solution] = {}
        return self._knobs[standing.solution]

    def prunes(self) -> list[Prune]:
        """Return which open nodes leave the search, with the reason."""
        judged = [(node, self._against(node.intent.settings, outlook)) for node, outlook in self._prospects(set())]
        return [Prune(node=node.id, reason=reason[:2000]) for node, reason in judged if reason]

    def updates(self, gone: set[str]) -> list[Update]:
        """Return new priorities and predictions of the open nodes that stay, where they change enough to tell."""
        log_gains = {item.node: item.log_gain for item in self._standings}
        updates = []
        for node, outlook in self._prospects(gone):
            standing = log_gains.get(node.parent, 0.0)
            update = Update(
                node=node.id,
                priority=self._priority(outlook),
                predicted_gain=_gain(outlook.mean - standing),
                confidence=round(outlook.chance(standing), 3),
            )
            if _tells(node.intent, update):
                updates.append(update)
        return updates

    def first(self) -> list[Insert]:
        """Return the intents to begin with: one knob turned each."""
        return self._inserts(self._tuning.first, together=1)

    def inserts(self, gone: int) -> list[Insert]:
        """Return the new intents of a revision that prunes `gone` nodes, the most promising first."""
        wanted = min(max(self._tuning.inserts, 2 * self._view.config.width), self._tuning.first)
        room = self._tuning.open_limit - len(self._own_open()) + gone
        return self._inserts(min(wanted, max(room, 0)), self._tuning.together)

    def reason(self) -> str:
        """Return what the ended cycles brought, in words."""
        told = [self._told(report.cycle.node) for report in self._view.reports]
        return "; ".join([*told, f"best: {self.best.node}, {times(self.best.log_gain)} of the seed"])[:8000]

    def summary(self) -> str:
        """Return what each value is expected to be worth on the best program."""
        lines = [f"Best: {self.best.node}, {times(self.best.log_gain)} of the seed, with {words(self.best.settings)}."]
        for name, knob in self.knobs(self.best).items():
            others = [value for value in knob.values if value != self.best.settings.get(name)]
            outlooks = self._model.outlooks([{**self.best.settings, name: value} for value in others])
            told = [
                expectation(value, outlook, self.best.log_gain) for value, outlook in zip(others, outlooks, strict=True)
            ]
            lines.append(f"{name} is {self.best.settings.get(name)}; expected of {', '.join(told)}.")
        return paragraphs(lines)

    def _own_open(self) -> list[Node]:
        """Return the open nodes that are the planner's to change: its own that nobody has pinned."""
        return [
            node
            for node in self._view.model.nodes
            if node.status == "open" and node.origin == "planner" and node.intent.settings and not node.pinned
        ]

    def _prospects(self, gone: set[str]) -> list[tuple[Node, Outlook]]:
        nodes = [node for node in self._own_open() if node.id not in gone]
        outlooks = self._model.outlooks([self._tree.settings(node.id) for node in nodes])
        return list(zip(nodes, outlooks, strict=True))

    def _inserts(self, limit: int, together: int) -> list[Insert]:
        candidates = [item for item in self._candidates(together) if not self._against(item.changes, item.outlook)]
        candidates.sort(key=lambda item: (-round(item.outlook.improvement(self.best.log_gain), 9), len(item.changes)))
        nodes = self._view.model.nodes
        taken = {(node.parent, node.intent.title.casefold().strip()) for node in nodes if node.status != "pruned"}
        inserts: list[Insert] = []
        for candidate in candidates:
            intent = self._intent(candidate)
            place = (candidate.base.node, intent.title.casefold())
            if len(inserts) < limit and place not in taken:
                taken.add(place)
                inserts.append(Insert(parent=candidate.base.node, intent=intent))
        return inserts

    def _candidates(self, together: int) -> Iterator[_Candidate]:
        """Yield every new combination that is worth a look, under the program that it is nearest to."""
        bases = self._bases()
        centres = self._standings[: self._tuning.bases] if self._view.config.flat else bases
        exists = self._tree.combinations()
        found: dict[frozenset[Change], Settings] = {}
        for centre in centres:
            for settings in _around(centre.settings, self.knobs(centre), together):
                found.setdefault(combination(settings), settings)
        new = [settings for key, settings in found.items() if key not in exists]
        for settings, outlook in zip(new, self._model.outlooks(new), strict=True):
            base = min(bases, key=lambda item: len(_changes(item.settings, settings)))
            changes = _changes(base.settings, settings)
            if all(
                name in self.knobs(base) and value in self.knobs(base)[name].values for name, value in changes.items()
            ):
                yield _Candidate(base, changes, outlook)

    def _bases(self) -> list[Standing]:
        """Return the programs that new intents may go under: the best of those that beat their parents."""
        if self._view.config.flat:
            return [self.seed]
        return [item for item in self._standings if item.improved or item is self.best][: self._tuning.bases]

    def _against(self, changes: Settings, outlook: Outlook) -> str:
        """Return what speaks against trying the changes at all, empty when nothing does."""
        if outlook.improvement(self.best.log_gain) < self._tuning.hopeless:
            return f"cannot win any more; of the best, {expectation('expected', outlook, self.best.log_gain)}"
        if outlook.chance(self.best.log_gain) <= self._tuning.last_chance:
            spent = next(filter(self._lost_too_often, changes.items()), None)
            return f"{words(dict([spent]))} has lost: {history(self._trials[spent])}" if spent else ""
        return ""

    def _lost_too_often(self, change: Change) -> bool:
        trials = self._trials.get(change, ())
        lost = {trial.parent for trial in trials if trial.lost}
        return len(lost) >= self._tuning.losses and sum(not trial.lost for trial in trials) < len(lost)

    def _priority(self, outlook: Outlook) -> float:
        return round(1 - math.exp(-math.sqrt(outlook.improvement(self.best.log_gain) / self._tuning.unit)), 4)

    def _intent(self, candidate: _Candidate) -> Intent:
        knobs, outlook, standing = self.knobs(candidate.base), candidate.outlook, candidate.base.log_gain
        changes = {name: candidate.changes[name] for name in knobs if name in candidate.changes}
        return Intent(
            title=title(changes),
            description=description(knobs, changes),
            rationale=rationale({words(dict([one])): history(self._trials.get(one, ())) for one in changes.items()}),
            priority=self._priority(outlook),
            difficulty=min(len(changes), self._view.config.difficulty_ceiling or 5),
            predicted_gain=_gain(outlook.mean - standing),
            confidence=round(outlook.chance(standing), 3),
            settings=changes,
        )

    def _told(self, node_id: str) -> str:
        node = self._view.model.node(node_id)
        best = node.best(self._view.model.goal)
        came = node.status if best is None or best.gain is None else times(math.log(best.gain))
        return f"{node_id}, {node.intent.title} on {node.parent}: {came}"


def _around(settings: Settings, knobs: Mapping[str, Knob], together: int) -> Iterator[Settings]:
    """Yield the settings with one up to `together` knobs turned."""
    turns = [[(name, value) for value in knob.values if value != settings.get(name)] for name, knob in knobs.items()]
    for count in range(1, together + 1):
        for chosen in combinations(turns, count):
            for changes in product(*chosen):
                yield {**settings, **dict(changes)}


def _changes(base: Settings, settings: Settings) -> dict[str, str]:
    return {name: value for name, value in settings.items() if base.get(name) != value}


def _gain(log_gain: float) -> float:
    return round(math.exp(min(max(log_gain, -6.0), 6.0)), 4)


def _tells(intent: Intent, update: Update) -> bool:
    """Whether an update changes anything that matters: V by 0.001, or the prediction by 1 %."""
    if intent.predicted_gain is None or update.predicted_gain is None or update.priority is None:
        return True
    if abs(update.priority - intent.priority) >= 0.001:
        return True
    return abs(math.log(update.predicted_gain / intent.predicted_gain)) >= 0.01
