"""Algorithm 1 in memory, one sample a cycle; no graph, ledger or store. For measuring and testing planners in bulk."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from evaluators.evaluation import Evaluation
from evaluators.evaluator import Evaluator
from evaluators.knobs import settings, turn_solution
from evaluators.objective import log_gain
from evaluators.solution import Language, Solution
from evaluators.task import Task
from graph.calibration import calibrate
from graph.config import SearchConfig
from graph.cycles import Cycle, Result, evidence_of, fold
from graph.edits import apply_batch
from graph.policies import POLICIES
from graph.transitions import activate, plant, settle
from graph.world_model import Evidence, WorldModel
from nodes.planner import CycleReport, PlannerView, Proposal

Plan = Callable[[PlannerView], Proposal]


@dataclass
class SerialSearch:
    """One search: `run` yields the tree after each evaluation."""

    task: Task
    evaluator: Evaluator
    first: Plan
    """As Planner.initialize."""
    revise: Plan
    config: SearchConfig = field(default_factory=SearchConfig)
    language: Language = "cpp"
    programs: dict[str, Solution] = field(default_factory=dict)
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What the planner noted, in order."""

    def run(self) -> Iterator[WorldModel]:
        """Yield the tree with the seed and the first intents, then the tree after each round and its revision.

        A round has as many evaluations as there are places (`width`) and frontier nodes for them. Ends when nothing is
        left to select or the budget is spent. Raises AssertionError for a rejected batch.
        """
        model = self._commit(self._planted(), self.first, 0, ())
        yield model
        spent = 0
        for round_ in count(1):
            places = min(self.config.width, self.config.max_evaluations - spent)
            picked = POLICIES[self.config.policy].select(model, self.config, round_, places, None)
            if not picked:
                return
            for node in picked:
                model = activate(model, node)
            reports = []
            for node in picked:
                spent += 1
                model, report = self._cycle(model, node, spent, round_)
                reports.append(report)
            model = self._commit(model, self.revise, round_, tuple(reports))
            yield model

    def best(self, model: WorldModel) -> float:
        """Return the logarithm of the best program's gain on the seed."""
        assert model.seed is not None
        assert model.seed.objective is not None
        values = [best.objective.value for node in model.nodes if (best := node.best(model.goal)) and best.objective]
        return max((log_gain(value, model.seed.objective.value, model.goal) for value in values), default=0.0)

    def _planted(self) -> WorldModel:
        seed = self.task.seed(self.language)
        model = WorldModel(goal=self.task.objective.goal)
        if seed is None:
            return model
        result = self._judged(seed, 1, 1)
        evidence = Evidence(
            cycle=0,
            first_round=0,
            last_round=0,
            attempts=(),
            outcomes={result.label: 1},
            solution=result.solution if result.objective else None,
            objective=result.objective,
            settings=result.settings,
        )
        return plant(model, evidence)

    def _cycle(self, model: WorldModel, node_id: str, number: int, round_: int) -> tuple[WorldModel, CycleReport]:
        node = model.node(node_id)
        standing = model.standing(node.parent)
        assert standing is not None
        assert standing.solution is not None
        cycle = Cycle(
            id=number,
            node=node_id,
            parent=standing.solution,
            parent_objective=None if standing.objective is None else standing.objective.value,
            predicted_gain=node.intent.predicted_gain,
            first_round=round_,
        )
        turned = turn_solution(self.programs[standing.solution], node.intent.settings)
        result = self._judged(turned, number, 1)
        cycle = fold(cycle, {number: result}, self.config, model.goal, 0.03)
        model = settle(model, node_id, evidence_of(cycle, round_, model.goal))
        return model, CycleReport(cycle, (result,))

    def _judged(self, solution: Solution, cycle: int, sample: int) -> Result:
        evaluation = asyncio.run(self.evaluator.evaluate(self.task, solution, "search"))
        self.programs[solution.digest] = solution
        self.evaluations[solution.digest] = evaluation
        return Result(
            cycle=cycle,
            sample=sample,
            outcome="evaluated",
            status=evaluation.status,
            message=evaluation.message,
            rule=evaluation.rule,
            solution=solution.digest,
            evaluation=solution.digest,
            objective=evaluation.objective,
            settings=settings(solution.files[solution.main_file]),
            final=True,
        )

    def _commit(self, model: WorldModel, plan: Plan, round_: int, reports: tuple[CycleReport, ...]) -> WorldModel:
        view = PlannerView(
            task=self.task,
            language=self.language,
            config=self.config,
            model=model,
            calibration=calibrate(model),
            round=round_,
            evaluations_left=self.config.max_evaluations - len(self.evaluations) + 1,
            reports=reports,
            program=self.programs.__getitem__,
            evaluation=self.evaluations.__getitem__,
        )
        proposal = plan(view)
        self.notes += [proposal.note] if proposal.note else []
        verdict = apply_batch(model, proposal.batch)
        if verdict.model is None:
            raise AssertionError("; ".join(verdict.reasons))
        return verdict.model
