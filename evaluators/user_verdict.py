"""The evaluator of tasks that bring their own: isolated and limited like any program, but its figures are its word."""

import json
import math
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluators.adapters.gpumode.official import META
from evaluators.adapters.own_evaluator import COMBINED, takes_text
from evaluators.adapters.source_file import SourceFile
from evaluators.answers import LONGEST, failure_in, pairs_of, unusable, value_of
from evaluators.confined import RUNS, Confined, Question
from evaluators.evaluation import TIER_OF, Comparison, Effort, Environment, Evaluation, WorkloadResult
from evaluators.isolation import IsolatedFailure, Lock
from evaluators.objective import Objective, Value, gain
from evaluators.protocols import protocol_of
from evaluators.solution import Solution
from evaluators.task import Task
from evaluators.worker.status import Status

NOTE = "user's own verdict: the task's evaluator said so, nothing was checked or timed by ksearch"
GPUMODE_NOTE = "GPU MODE's own verdict: the problem's eval.py checked and timed the program in the program's process"
_EVALUATOR = "the_evaluator.py"
_MODES: Mapping[Effort, str] = {"check": "test", "search": "benchmark", "certify": "leaderboard"}
"""Under GPU MODE's protocol: which of its modes stands for an effort."""
TESTS = "tests"
"""What its driver counts where nothing is timed."""


def _own(task: Task, program: Solution) -> Question:
    function = task.workloads[0].name
    request = {
        "evaluator": _EVALUATOR,
        "function": function,
        "text": takes_text(SourceFile(Path(_EVALUATOR), task.reference), function),
        "files": dict(program.files),
        "main": program.main_file,
    }
    return Question("user_evaluator", request, {**task.files, _EVALUATOR: task.reference})


def _official(task: Task, program: Solution, effort: Effort) -> Question:
    meta = json.loads(task.files[META])
    files = {name: text for name, text in task.files.items() if name != META}
    others = {name: text for name, text in program.files.items() if name != program.main_file}
    program_files = {**others, **files, meta["submission"]: program.files[program.main_file]}
    secret = secrets.randbelow(2**16) if effort == "certify" else None
    request = {**meta, "files": program_files, "mode": _MODES[effort], "secret": secret}
    return Question("gpumode_official", request, {})


@dataclass
class _Verdicts:
    """What the evaluator said of one program."""

    figures: list[float]
    searched: list[float] = field(default_factory=list)
    """Of a certification by another protocol than the search's: figures by the search's."""
    status: Status = Status.PASSED
    message: str = ""
    log: str = ""
    wall_s: float = 0.0


class UserVerdicts:
    """Has a task's own evaluator judge programs, in confined processes. Use it from one event loop."""

    def __init__(self, environment: Callable[[], Awaitable[Environment]]) -> None:
        """Nothing starts until the first program. `environment` tells what figures depend on."""
        self._confined = Confined()
        self._environment = environment

    async def evaluate(
        self, task: Task, solution: Solution, effort: Effort, rival: Solution | None = None
    ) -> Evaluation:
        """Judge `solution`; with `rival`, both in turn, and fill versus_rival. Raises InfrastructureError."""
        programs = [solution] if rival is None else [solution, rival]
        found = await self._judged(task, programs, effort)
        record = self._record(task, solution, effort, found[0], await self._environment())
        if rival is None or len(found[0].figures) != len(found[1].figures) or not record.passed:
            return record
        ratio = _ratio(task.objective, found[0].figures, found[1].figures)
        return record.model_copy(update={"versus_rival": ratio})

    async def compare(self, task: Task, solutions: Sequence[Solution], effort: Effort) -> Comparison:
        """Judge every program, in turn. Raises InfrastructureError."""
        found, environment = await self._judged(task, solutions, effort), await self._environment()
        records = tuple(
            self._record(task, solution, effort, said, environment)
            for solution, said in zip(solutions, found, strict=True)
        )
        pairs = pairs_of(records, lambda a, b: _ratio(task.objective, found[a].figures, found[b].figures))
        return Comparison(
            task=task.digest,
            protocol=protocol_of(task.device, task.verdict, effort),
            evaluations=records,
            pairs=pairs,
            environment=environment,
        )

    def protocol(self, task: Task) -> str:
        """See `Evaluator`."""
        return protocol_of(task.device, task.verdict, "search")

    async def environment(self) -> Environment:
        """See `Evaluator`."""
        return await self._environment()

    async def close(self) -> None:
        """End the processes. It can be used again."""
        await self._confined.close()

    async def _judged(self, task: Task, programs: Sequence[Solution], effort: Effort) -> list[_Verdicts]:
        found = [_Verdicts([]) for _ in programs]
        async with self._confined.busy:
            for _ in range(RUNS[effort]):
                for program, said in zip(programs, found, strict=True):
                    if said.status is Status.PASSED:
                        await self._judge(task, program, effort, said)
        return found

    async def _judge(self, task: Task, program: Solution, effort: Effort, said: _Verdicts) -> None:
        """Add one judgement."""
        question = _official(task, program, effort) if task.verdict == "gpumode" else _own(task, program)
        lock: Lock = "shared" if effort == "check" else "alone"
        try:
            answer = await self._confined.ask(task.device, question, task.timeout_s, lock)
            said.wall_s += answer.wall_s
            value, feedback = _understood(task.objective, answer.value, effort)
            said.log = feedback or answer.output[-2000:]
            said.figures.append(value)
            if task.verdict == "gpumode" and effort == "certify":
                said.searched.append(_searched(task.objective, answer.value, feedback))
        except IsolatedFailure as failure:
            said.status, said.message, said.log = failure.status, failure.message, failure.log

    def _record(
        self, task: Task, solution: Solution, effort: Effort, said: _Verdicts, environment: Environment
    ) -> Evaluation:
        passed = said.status is Status.PASSED
        objective = value_of(said.figures) if passed and effort != "check" else None
        return Evaluation(
            status=said.status,
            tier=TIER_OF[effort] if passed else "built",
            solution=solution.digest,
            task=task.digest,
            effort=effort,
            protocol=protocol_of(task.device, task.verdict, effort),
            message=said.message,
            log=said.log,
            objective=objective,
            provisional=value_of(said.searched) if passed and said.searched else None,
            workloads=(WorkloadResult(workload=task.workloads[0].name, status=said.status, message=said.message),),
            environment=environment,
            notes=(GPUMODE_NOTE if task.verdict == "gpumode" else NOTE,),
            device_s=said.wall_s,
            wall_s=said.wall_s,
        )


def _understood(objective: Objective, answer: Any, effort: Effort) -> tuple[float, str]:
    """Return the figure that counts and what the evaluator had to say. Raises IsolatedFailure when there is none."""
    if isinstance(answer, dict) and isinstance(answer.get("failed"), dict):
        raise failure_in(answer["failed"])
    if not isinstance(answer, dict) or not isinstance(answer.get("metrics"), dict):
        problem = answer.get("problem") if isinstance(answer, dict) else None
        raise IsolatedFailure(Status.RUNTIME_ERROR, f"the evaluator {problem or 'gave no metrics'}"[:500], "")
    metrics, feedback = answer["metrics"], str(answer.get("feedback", ""))[:LONGEST]
    name = objective.name
    if effort == "check" and list(metrics) == [TESTS]:
        name = TESTS
    if name == COMBINED and name not in metrics:
        name = next(iter(metrics)) if len(metrics) == 1 else "score"
    return _figure_in(name, metrics, feedback), feedback


def _searched(objective: Objective, answer: Mapping[str, Any], feedback: str) -> float:
    """Return the figure by the search's protocol. Raises IsolatedFailure when there is none."""
    searched = answer.get("searched")
    if not isinstance(searched, dict):
        raise unusable("no figures of the benchmark stage")
    return _figure_in(objective.name, searched, feedback)


def _figure_in(name: str, metrics: Mapping[str, Any], feedback: str) -> float:
    """Return the metric `name`. Raises IsolatedFailure when it is missing or not above 0."""
    if not isinstance(metrics.get(name), int | float):
        words = ", ".join(sorted(map(str, metrics)))[:300]
        raise IsolatedFailure(Status.RUNTIME_ERROR, f"the evaluator gave no metric {name!r}; it gave {words}", feedback)
    try:
        value = float(metrics[name])
    except OverflowError:
        value = math.inf
    if not math.isfinite(value) or value <= 0:
        raise IsolatedFailure(Status.WRONG_VALUES, f"the evaluator's {name} is {value:g}, not above 0", feedback)
    return value


def _ratio(objective: Objective, figures: Sequence[float], others: Sequence[float]) -> Value:
    return value_of([gain(a, b, objective.goal) for a, b in zip(figures, others, strict=True)])
