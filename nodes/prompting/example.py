"""A made-up situation in the midst of a search, to look at prompts without one. Its figures are nobody's results."""

from dataclasses import replace
from typing import Any

from evaluators.digest import digest_json
from evaluators.errors import UsageError
from evaluators.evaluation import Environment, Evaluation, Measurement, WorkloadResult
from evaluators.objective import Value
from evaluators.solution import Language, Solution
from evaluators.task import Task, contract_solution
from evaluators.worker.status import Status
from graph.calibration import calibrate
from graph.config import SearchConfig
from graph.cycles import Cycle, Result, evidence_of, fold
from graph.edits import EditBatch, Insert, Prune, apply_batch
from graph.state import Incumbent
from graph.transitions import activate, plant, settle
from graph.world_model import ROOT, Evidence, Intent, WorldModel
from nodes.coder import CodeRequest, Known
from nodes.planner import CycleReport, PlannerView
from nodes.prompting.coder_prompt import Kind
from nodes.prompting.specification import main_file

_COMMENT = {"cpp": "//", "cuda": "//", "python": "#", "triton": "#"}
_ENVIRONMENT = Environment(device="an example processor", torch="2.11.0", compiler="g++ 12.2.0")
_INTENTS = (
    Intent(title="Read each input once", description="Fuse the passes over the input.", priority=0.9,
           predicted_gain=1.5, confidence=0.7),
    Intent(title="Keep partial sums in registers", description="Unroll with independent accumulators.", priority=0.6,
           predicted_gain=1.2, confidence=0.5),
    Intent(title="Approximate the exponential", description="A polynomial within the tolerance.", priority=0.5,
           predicted_gain=1.4, confidence=0.4),
    Intent(title="Prefetch by hand", description="Prefetch the next row.", priority=0.1, predicted_gain=1.02,
           confidence=0.3),
)  # fmt: skip


class Example:
    """One situation: a tree in which one cycle passed and one failed, with the programs behind it."""

    def __init__(self, task: Task, config: SearchConfig) -> None:
        """Make up programs, evaluations and a tree for `task`, in the configuration's language or its first.

        Raises UsageError when the task has no contract for the language.
        """
        language = config.language or next(iter(task.contracts))
        if language not in task.contracts:
            raise UsageError(f"task {task.name} has no contract for {language}; it has {', '.join(task.contracts)}")
        self.task, self.config = task, config
        self.language: Language = language
        self.blobs: dict[str, Any] = {}
        seed = task.seed(language) if config.use_seed else None
        self.seed = seed
        self.programs = [self._program(seed, f"attempt {number}") for number in range(1, 4)]

    def first_view(self) -> PlannerView:
        """Return what a planner sees at the start of a search."""
        view = self._view(self._start(), (), 0)
        if self.seed is None:
            return view
        verdict = self._evaluation(self.seed, Status.PASSED, "", "", _measurement(1.0))
        incumbent = Incumbent(
            solution=self._keep(self.seed), evaluation=self._keep(verdict), objective=_value(1.0).model_dump(),
            node=ROOT, round=0,
        )  # fmt: skip
        return replace(view, incumbent=incumbent)

    def later_view(self) -> PlannerView:
        """Return what a planner sees after two cycles."""
        model, reports = self._after_two_cycles()
        return self._view(model, reports, 5)

    def request(self, kind: Kind) -> CodeRequest:
        """Return what a coder sees for a first, a debug, an improve or a repair prompt."""
        model = activate(self._planned(), "n1")
        results = {"first": [], "debug": [self._wrong(1)], "repair": [self._broken(1)]}.get(kind)
        if results is None:
            results = [self._passed(1, 1.3), self._passed(2, 1.21)]
        cycle = self._cycle(1, "n1", results)
        last = None if not results else self._known(results[-1])
        best = None if cycle.best is None else self._known(results[0])
        return CodeRequest(
            task=self.task, language=self.language, config=self.config, model=model, node=model.node("n1"),
            cycle=cycle, round=len(results) + 1, sample=len(results) + 1, parent=self.seed,
            best=best, last=last,
        )  # fmt: skip

    def _program(self, seed: Solution | None, mark: str) -> Solution:
        contract = self.task.contracts[self.language]
        files = {main_file(contract, self.language): ""} if seed is None else dict(seed.files)
        main = next(iter(files)) if seed is None else seed.main_file
        files[main] = f"{files[main]}{_COMMENT[self.language]} Example: {mark}.\n"
        return contract_solution(contract, self.language, files)

    def _start(self) -> WorldModel:
        model = WorldModel(goal=self.task.objective.goal)
        if self.seed is None:
            return model
        evidence = Evidence(
            cycle=0, first_round=0, last_round=0, attempts=(), outcomes={"passed": 1},
            solution=self._keep(self.seed), objective=_value(1.0),
        )  # fmt: skip
        return plant(model, evidence)

    def _planned(self) -> WorldModel:
        edits = tuple(Insert(parent=ROOT, intent=intent) for intent in _INTENTS)
        return _edited(self._start(), *edits, Prune(node="n4", reason="the hardware prefetcher does it"))

    def _after_two_cycles(self) -> tuple[WorldModel, tuple[CycleReport, ...]]:
        passing = [self._passed(1, 1.3), self._passed(2, 1.21)]
        failing = [self._wrong(1)]
        model, reports = self._planned(), []
        for number, node, results in ((1, "n1", passing), (2, "n2", failing)):
            cycle = Cycle.model_validate(
                {**dict(self._cycle(number, node, results)), "ended": "made up for the example"}
            )
            model = settle(activate(model, node), node, evidence_of(cycle, number, model.goal))
            reports.append(CycleReport(cycle, tuple(results)))
        return model, tuple(reports)

    def _cycle(self, number: int, node: str, results: list[Result]) -> Cycle:
        start = self._start().seed
        cycle = Cycle(
            id=number, node=node, first_round=1, predicted_gain=1.5,
            parent=None if start is None else start.solution,
            parent_objective=None if start is None else 1.0,
        )  # fmt: skip
        numbered = {result.sample: result for result in results}
        return fold(cycle, numbered, self.config, self.task.objective.goal, 0.03)

    def _passed(self, sample: int, ratio: float) -> Result:
        return self._result(sample, Status.PASSED, "", measurement=_measurement(ratio))

    def _wrong(self, sample: int) -> Result:
        output = next(iter(self.task.outputs), "the result")
        return self._result(sample, Status.WRONG_VALUES, f"{output}: 12 of 4096 elements are wrong (made up)")

    def _broken(self, sample: int) -> Result:
        message = "error: expected ';' before '}' token (made up)"
        return self._result(sample, Status.BUILD_ERROR, message, log=f"line 3: {message}")

    def _result(
        self, sample: int, status: Status, message: str, *, log: str = "", measurement: Measurement | None = None
    ) -> Result:
        program = self.programs[sample - 1]
        evaluation = self._evaluation(program, status, message, log, measurement)
        return Result(
            cycle=1, sample=sample, outcome="evaluated", status=status, message=message,
            solution=self._keep(program), evaluation=self._keep(evaluation), objective=evaluation.objective,
        )  # fmt: skip

    def _evaluation(
        self, program: Solution, status: Status, message: str, log: str, measurement: Measurement | None
    ) -> Evaluation:
        return Evaluation(
            status=status, tier="none" if status is Status.BUILD_ERROR else "timed", solution=program.digest,
            task=self.task.digest, effort="search", protocol="example", message=message, log=log,
            objective=None if measurement is None else measurement.ratio,
            workloads=tuple(
                WorkloadResult(workload=workload.name, status=status, message=message, measurement=measurement)
                for workload in self.task.split("search")[: None if measurement else 1]
            ),
            environment=_ENVIRONMENT,
        )  # fmt: skip

    def _view(self, model: WorldModel, reports: tuple[CycleReport, ...], round_: int) -> PlannerView:
        best = next((report.cycle.best for report in reports if report.cycle.best is not None), None)
        incumbent = None
        if best is not None:
            incumbent = Incumbent(
                solution=best.solution, evaluation=best.evaluation, objective=best.objective.model_dump(), node="n1",
                round=1,
            )  # fmt: skip
        return PlannerView(
            task=self.task, language=self.language, config=self.config, model=model, calibration=calibrate(model),
            round=round_, evaluations_left=self.config.max_evaluations - round_, reports=reports,
            program=self.blobs.__getitem__, evaluation=self.blobs.__getitem__, incumbent=incumbent,
        )  # fmt: skip

    def _known(self, result: Result) -> Known:
        if result.solution is None or result.evaluation is None:
            raise ValueError("an example's result has a program and an evaluation")
        return Known(self.blobs[result.solution], self.blobs[result.evaluation], result.message)

    def _keep(self, record: Solution | Evaluation) -> str:
        blob = digest_json(record.model_dump(mode="json"))
        self.blobs[blob] = record
        return blob


def _value(value: float) -> Value:
    return Value(value=value, low=value * 0.99, high=value * 1.01)


def _measurement(ratio: float) -> Measurement:
    return Measurement(baseline_ms=2.0, candidate_ms=2.0 / ratio, ratio=_value(ratio), estimates=5, repeats=8)


def _edited(model: WorldModel, *edits: Insert | Prune) -> WorldModel:
    verdict = apply_batch(model, EditBatch(origin="planner", edits=edits))
    if verdict.model is None:
        raise ValueError(f"the example's edits are refused: {'; '.join(verdict.reasons)}")
    return verdict.model
