"""What every planner, coder and evaluator must keep to: subclass, give the fixtures, and the tests run.

    class TestMyCoder(CoderContract):
        @pytest.fixture
        def coder(self) -> Coder:
            return MyCoder()

The fixtures that describe the search (task, request, view, ...) have defaults that a subclass may replace.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from checkpoints.home import Home, open_home
from evaluators.evaluation import Effort, Evaluation
from evaluators.evaluator import Evaluator
from evaluators.knobs import settings, turn_solution
from evaluators.objective import Value
from evaluators.scripted_tasks import scripted_task
from evaluators.solution import Language, Solution
from evaluators.task import Task
from evaluators.worker.status import Status
from graph.calibration import calibrate
from graph.config import SearchConfig
from graph.cycles import Cycle, Result, evidence_of, fold
from graph.edits import EditBatch, Insert, apply_batch
from graph.transitions import activate, plant, settle
from graph.world_model import ROOT, Evidence, Intent, Node, Origin, WorldModel
from nodes.coder import Coder, CodeRequest
from nodes.paid import PaidCalls
from nodes.planner import CycleReport, Planner, PlannerView


class Paying:
    """Gives `calls`: a ledger and blobs on disk."""

    @pytest.fixture
    async def home(self, tmp_path: Path) -> AsyncIterator[Home]:
        async with open_home(tmp_path / "home") as opened:
            yield opened

    @pytest.fixture
    def calls(self, home: Home) -> PaidCalls:
        return PaidCalls(home.ledger, home.blobs, "contract", round=0)

    @pytest.fixture
    def config(self) -> SearchConfig:
        return SearchConfig(task="scripted")

    @pytest.fixture
    def language(self) -> Language:
        return "cpp"

    @pytest.fixture
    def task(self) -> Task:
        """A task with a seed program that declares knobs."""
        return scripted_task(4, 3)


def value(objective: float) -> Value:
    return Value(value=objective, low=objective * 0.995, high=objective * 1.005)


@dataclass
class Told:
    """A small search told by hand: a seed of 1.0, and what the tests let happen to nodes."""

    task: Task
    config: SearchConfig
    language: Language
    model: WorldModel
    programs: dict[str, Solution]

    @staticmethod
    def begin(task: Task, config: SearchConfig, language: Language, *, seed: float | None = 1.0) -> "Told":
        """The search before initialize; `seed`: the seed program's objective, None for a search without one."""
        model, program = WorldModel(goal=task.objective.goal), task.seed(language)
        if program is None or seed is None:
            return Told(task, config, language, model, {})
        evidence = Evidence(
            cycle=0,
            first_round=0,
            last_round=0,
            attempts=(),
            outcomes={"passed": 1},
            solution=program.digest,
            objective=value(seed),
            settings=settings(program.files[program.main_file]),
        )
        return Told(task, config, language, plant(model, evidence), {program.digest: program})

    def view(self, round_: int = 0, reports: tuple[CycleReport, ...] = ()) -> PlannerView:
        return PlannerView(
            task=self.task,
            language=self.language,
            config=self.config,
            model=self.model,
            calibration=calibrate(self.model),
            round=round_,
            evaluations_left=10,
            reports=reports,
            program=self.programs.__getitem__,
            evaluation=dict[str, Evaluation]().__getitem__,
        )

    def insert(self, intent: Intent, parent: str = ROOT) -> str:
        """Insert one intent of the planner's; returns its node."""
        return self.commit(Insert(parent=parent, intent=intent))

    def commit(self, *inserts: Insert, origin: Origin = "planner") -> str:
        verdict = apply_batch(self.model, EditBatch(origin=origin, edits=inserts))
        assert verdict.model is not None, verdict.reasons
        self.model = verdict.model
        return self.model.nodes[-1].id

    def start(self, node_id: str, number: int) -> Cycle:
        """A cycle on a frontier node, which becomes active."""
        self.model = activate(self.model, node_id)
        node = self.model.node(node_id)
        standing = self.model.standing(node.parent)
        return Cycle(
            id=number,
            node=node_id,
            parent=None if standing is None else standing.solution,
            parent_objective=None if standing is None or standing.objective is None else standing.objective.value,
            predicted_gain=node.intent.predicted_gain,
            first_round=number,
        )

    def settle(self, node_id: str, number: int, outcome: float | Status | None) -> CycleReport:
        """One whole cycle of one sample: an objective, a failing status, or None for a draft without a program."""
        cycle = self.start(node_id, number)
        result = self._result(self.model.node(node_id), cycle, outcome)
        cycle = fold(cycle, {number: result}, self.config, self.model.goal, 0.03)
        self.model = settle(self.model, node_id, evidence_of(cycle, number, self.model.goal))
        return CycleReport(cycle, (result,))

    def _result(self, node: Node, cycle: Cycle, outcome: float | Status | None) -> Result:
        common = {"cycle": cycle.id, "sample": 1, "final": True}
        if outcome is None:
            return Result(**common, outcome="unusable", message="no program in the reply")
        program = self._program(node, cycle)
        done = {**common, "outcome": "evaluated", "solution": program.digest, "evaluation": "0" * 64}
        if isinstance(outcome, Status):
            return Result(**done, status=outcome, message="scripted to fail")
        known = settings(program.files[program.main_file])
        return Result(**done, status=Status.PASSED, objective=value(outcome), settings=known)

    def _program(self, node: Node, cycle: Cycle) -> Solution:
        if cycle.parent is None:
            contract = self.task.contracts[self.language]
            program = Solution(
                files={"a.cpp": f"// cycle {cycle.id}\n"},
                language=self.language,
                entry_point=contract.entry_point,
                binding=contract.binding,
            )
        else:
            program = turn_solution(self.programs[cycle.parent], node.intent.settings)
        self.programs[program.digest] = program
        return program


class PlannerContract(Paying):
    """Every planner."""

    @pytest.fixture
    def planner(self) -> Planner:
        raise NotImplementedError("a subclass gives the planner")

    @pytest.fixture
    def told(self, task: Task, config: SearchConfig, language: Language) -> Told:
        return Told.begin(task, config, language)

    async def test_first_intents_go_under_the_root(self, planner: Planner, told: Told, calls: PaidCalls) -> None:
        proposal = await planner.initialize(told.view(), calls)
        assert proposal.batch.origin in ("planner", "fallback")
        assert proposal.batch.edits
        for edit in proposal.batch.edits:
            assert isinstance(edit, Insert)
            assert edit.parent == ROOT
        assert apply_batch(told.model, proposal.batch).accepted

    async def test_the_view_is_not_changed(self, planner: Planner, told: Told, calls: PaidCalls) -> None:
        before = told.model.model_dump_json()
        await planner.initialize(told.view(), calls)
        assert told.model.model_dump_json() == before

    async def test_what_was_paid_for_is_not_paid_for_again(
        self, planner: Planner, told: Told, calls: PaidCalls, home: Home
    ) -> None:
        first = await planner.initialize(told.view(), calls)
        paid = await home.ledger.entries("contract")
        second = await planner.initialize(told.view(), calls)
        assert second == first
        assert await home.ledger.entries("contract") == paid
        assert all(entry.finished_at is not None for entry in paid)

    @pytest.mark.parametrize("outcome", [1.3, 0.7, Status.WRONG_VALUES, None])
    async def test_revisions_are_accepted_whatever_came_of_the_cycle(
        self, planner: Planner, told: Told, calls: PaidCalls, outcome: float | Status | None
    ) -> None:
        first = apply_batch(told.model, (await planner.initialize(told.view(), calls)).batch).model
        assert first is not None
        told.model = first
        report = told.settle(first.frontier()[0].id, 1, outcome)
        proposal = await planner.revise(told.view(1, (report,)), replace(calls, round=1))
        assert set(proposal.batch.cycles) <= {1}
        assert apply_batch(told.model, proposal.batch).accepted, apply_batch(told.model, proposal.batch).reasons

    async def test_flat_searches_get_all_intents_under_the_root(
        self, planner: Planner, told: Told, calls: PaidCalls
    ) -> None:
        told.config = told.config.with_options({"flat": True})
        first = apply_batch(told.model, (await planner.initialize(told.view(), calls)).batch).model
        assert first is not None
        told.model = first
        report = told.settle(first.frontier()[0].id, 1, 1.3)
        proposal = await planner.revise(told.view(1, (report,)), replace(calls, round=1))
        assert all(edit.parent == ROOT for edit in proposal.batch.edits if isinstance(edit, Insert))


class CoderContract(Paying):
    """Every coder."""

    @pytest.fixture
    def coder(self) -> Coder:
        raise NotImplementedError("a subclass gives the coder")

    @pytest.fixture
    def request_(self, task: Task, config: SearchConfig, language: Language) -> CodeRequest:
        """The first sample of a cycle on an intent that turns one knob of the seed."""
        told = Told.begin(task, config, language)
        seed = task.seed(language)
        assert seed is not None
        knob = next(iter(settings(seed.files[seed.main_file])))
        intent = Intent(title=f"{knob} = 2", priority=0.5, settings={knob: "2"})
        cycle = told.start(told.insert(intent), 1)
        return CodeRequest(
            task=task,
            language=language,
            config=config,
            model=told.model,
            node=told.model.node(cycle.node),
            cycle=cycle,
            round=1,
            sample=1,
            parent=seed,
            best=None,
            last=None,
        )

    async def test_a_draft_is_a_program_as_the_contract_wants_it_or_says_why_there_is_none(
        self, coder: Coder, request_: CodeRequest, calls: PaidCalls
    ) -> None:
        for sample in range(1, 5):
            request = replace(request_, sample=sample)
            draft = await coder.write(request, replace(calls, round=1, cycle=1, sample=sample))
            if draft.solution is None:
                assert draft.message
                assert "\n" not in draft.message
                continue
            contract = request.task.contracts[request.language]
            assert draft.solution.language == request.language
            assert draft.solution.binding == contract.binding
            assert draft.solution.entry_point == contract.entry_point

    async def test_what_was_paid_for_is_not_paid_for_again(
        self, coder: Coder, request_: CodeRequest, calls: PaidCalls, home: Home
    ) -> None:
        first = await coder.write(request_, calls)
        paid = await home.ledger.entries("contract")
        assert await coder.write(request_, calls) == first
        assert await home.ledger.entries("contract") == paid
        assert all(entry.finished_at is not None for entry in paid)

    async def test_nothing_to_start_from_is_no_error(
        self, coder: Coder, request_: CodeRequest, calls: PaidCalls
    ) -> None:
        draft = await coder.write(replace(request_, parent=None), calls)
        assert draft.solution is not None or draft.message


class EvaluatorContract:
    """Every evaluator."""

    @pytest.fixture
    def evaluator(self) -> Evaluator:
        raise NotImplementedError("a subclass gives the evaluator")

    @pytest.fixture
    def task(self) -> Task:
        raise NotImplementedError("a subclass gives a task that this evaluator can run")

    @pytest.fixture
    def good(self) -> Solution:
        raise NotImplementedError("a subclass gives a right program for the task")

    @pytest.fixture
    def other(self) -> Solution:
        raise NotImplementedError("a subclass gives another right program for the task")

    @pytest.fixture
    def bad(self) -> Solution:
        raise NotImplementedError("a subclass gives a program that does not build or is wrong")

    async def test_a_check_finds_a_right_program_right_and_does_not_time_it(
        self, evaluator: Evaluator, task: Task, good: Solution
    ) -> None:
        verdict = await evaluator.evaluate(task, good, "check")
        assert (verdict.status, verdict.tier, verdict.objective) == (Status.PASSED, "checked", None)
        assert (verdict.task, verdict.solution, verdict.effort) == (task.digest, good.digest, "check")

    async def test_a_search_times_every_search_workload(self, evaluator: Evaluator, task: Task, good: Solution) -> None:
        verdict = await evaluator.evaluate(task, good, "search")
        assert (verdict.status, verdict.tier) == (Status.PASSED, "timed")
        assert verdict.objective is not None
        assert verdict.objective.low <= verdict.objective.value <= verdict.objective.high
        timed = {result.workload for result in verdict.workloads if result.measurement is not None}
        assert timed == {workload.name for workload in task.split("search")}

    async def test_certification_checks_every_workload_and_compares_with_the_rival(
        self, evaluator: Evaluator, task: Task, good: Solution, other: Solution
    ) -> None:
        verdict = await evaluator.evaluate(task, good, "certify", rival=other)
        assert (verdict.status, verdict.tier) == (Status.PASSED, "certified")
        assert verdict.versus_rival is not None
        assert {result.workload for result in verdict.workloads} == {workload.name for workload in task.workloads}

    @pytest.mark.parametrize("effort", ["check", "search", "certify"])
    async def test_a_bad_program_is_a_verdict_and_no_error(
        self, evaluator: Evaluator, task: Task, bad: Solution, effort: Effort
    ) -> None:
        verdict = await evaluator.evaluate(task, bad, effort)
        assert verdict.status not in (Status.PASSED, Status.INFRASTRUCTURE)
        assert verdict.objective is None
        assert verdict.message

    async def test_a_comparison_keeps_the_order_and_pairs_what_passed(
        self, evaluator: Evaluator, task: Task, good: Solution, bad: Solution, other: Solution
    ) -> None:
        comparison = await evaluator.compare(task, [good, bad, other], "search")
        assert [verdict.solution for verdict in comparison.evaluations] == [good.digest, bad.digest, other.digest]
        assert [(pair.a, pair.b) for pair in comparison.pairs] == [(good.digest, other.digest)]
        assert comparison.task == task.digest

    async def test_verdicts_name_the_environment_and_the_protocol(
        self, evaluator: Evaluator, task: Task, good: Solution
    ) -> None:
        verdict = await evaluator.evaluate(task, good, "search")
        assert verdict.protocol == evaluator.protocol(task)
        assert verdict.environment is not None
        assert verdict.environment.fingerprint == (await evaluator.environment()).fingerprint

    async def test_closing_twice_is_fine(self, evaluator: Evaluator) -> None:
        await evaluator.close()
        await evaluator.close()
