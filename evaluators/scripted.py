"""An evaluator that computes its verdicts: no build, no run, no clock. For tests, benchmarks and trying the search out.

A program says what becomes of it in comment lines (any language's comment marks):

    // scripted: objective = 1.7       the figure, in the task's objective
    // scripted: status = timeout      fails with this status; `message = ...` and `rule = ...` go with it
    // scripted: held_out = wrong_values   right on the search split, fails so at effort `certify`
    // scripted: certified = 1.2       the figure at effort `certify`, where it is another
    // scripted: doubt = too fast      the figure at effort `search` is not to be believed before it is certified
    // scripted: infrastructure = 2    the first two evaluations raise InfrastructureError (`always`: each does)

A program without an objective or a status line is judged by its knobs (evaluators.knobs) on the landscape.
"""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from evaluators.errors import InfrastructureError, TaskError, UsageError
from evaluators.evaluation import (
    TIER_OF,
    Comparison,
    Effort,
    Environment,
    Evaluation,
    Measurement,
    Pair,
    Tier,
    WorkloadResult,
)
from evaluators.knobs import declared_knobs
from evaluators.landscape import Landscape, draw_normal
from evaluators.objective import Goal, Value, gain
from evaluators.solution import Solution
from evaluators.task import Task
from evaluators.worker.status import Status

PROTOCOL = "scripted-1"
BASELINE_MS = 10.0
"""What every workload's baseline takes, milliseconds."""
HALF_WIDTH = 0.005
"""Half of every interval, as a share of the value."""
_MARKER = re.compile(r"^\W*scripted:\s*(?P<key>\w+)\s*=\s*(?P<value>.*?)\s*(\*/)?$", re.MULTILINE)
_KEYS = {"objective", "status", "message", "rule", "held_out", "certified", "doubt", "infrastructure"}
_TIERS: dict[Status, Tier] = {Status.BUILD_ERROR: "none", Status.NOT_TIMED: "checked"}


@dataclass(frozen=True)
class _Outcome:
    """What the formula says of one program."""

    status: Status
    objective: float = 1.0
    """Meaningful when the status is passed."""
    message: str = ""
    rule: str | None = None
    tier: Tier = "built"
    """How far a failing program comes."""
    held_out: Status | None = None
    certified: float | None = None
    doubt: str = ""

    def figure(self, effort: Effort) -> float:
        """Return the objective at an effort."""
        return self.certified if effort == "certify" and self.certified is not None else self.objective


@dataclass
class ScriptedEvaluator:
    """Implements evaluators.evaluator.Evaluator by formula, for any task."""

    landscape: Landscape = field(default_factory=Landscape)
    delay_s: float = 0.0
    """How long each evaluation waits, seconds."""
    noise: float = 0.0
    """Standard deviation of the logarithm of a measured objective; drawn by program and effort, so it repeats."""
    device: str = "scripted"
    """Name of the device, hence part of the fingerprint."""
    device_s: float = 0.0
    """Seconds of device time that each evaluation reports."""
    visits: Counter[tuple[str, Effort]] = field(default_factory=Counter)
    """How often each program (by digest) was evaluated with each effort."""

    async def evaluate(
        self, task: Task, solution: Solution, effort: Effort, rival: Solution | None = None
    ) -> Evaluation:
        """Return the program's verdict; the ratio to `rival` is exact, without noise.

        Raises InfrastructureError when the program's marker asks for it, TaskError for a task without a reference.
        """
        if not task.reference.strip():
            raise TaskError(f"task {task.name}: reference: is empty")
        self.visits[solution.digest, effort] += 1
        await asyncio.sleep(self.delay_s)
        _raise_infrastructure(solution, self.visits[solution.digest, effort])
        outcome = self._outcome(task, solution)
        if outcome.status is not Status.PASSED:
            return self._failed(task, solution, effort, outcome)
        if effort == "certify" and outcome.held_out is not None:
            return self._failed(task, solution, effort, _on_held_out(outcome.held_out))
        return self._passed(task, solution, effort, outcome, self._versus(task, outcome, rival))

    async def compare(self, task: Task, solutions: Sequence[Solution], effort: Effort) -> Comparison:
        """Return every program's verdict and the exact ratio of every pair that passed and was timed."""
        evaluations = [await self.evaluate(task, solution, effort) for solution in solutions]
        timed = [item for item, verdict in zip(solutions, evaluations, strict=True) if verdict.objective is not None]
        known = [(item.digest, self._outcome(task, item).objective) for item in timed]
        return Comparison(
            task=task.digest,
            protocol=PROTOCOL,
            evaluations=tuple(evaluations),
            pairs=tuple(
                Pair(a=a, b=b, ratio=_interval(gain(first, second, task.objective.goal)))
                for (a, first), (b, second) in combinations(known, 2)
            ),
            environment=await self.environment(),
        )

    def protocol(self, task: Task) -> str:
        """Return the name of the formula."""
        return PROTOCOL

    async def environment(self) -> Environment:
        """Return a fixed environment."""
        return self._environment()

    async def close(self) -> None:
        """Do nothing: there are no processes."""

    def _environment(self) -> Environment:
        return Environment(device=self.device, torch="none", compiler=PROTOCOL)

    def _outcome(self, task: Task, solution: Solution) -> _Outcome:
        markers = _markers(solution)
        unknown = sorted(set(markers) - _KEYS)
        if unknown:
            return _broken(f"there is no marker 'scripted: {unknown[0]}'; markers are {', '.join(sorted(_KEYS))}")
        try:
            held_out = Status(markers["held_out"]) if "held_out" in markers else None
            if "status" in markers and markers["status"] != Status.PASSED:
                return _by_marker(markers)
            if "objective" in markers:
                certified = _positive(markers["certified"]) if "certified" in markers else None
                doubt = markers.get("doubt", "")
                return _Outcome(
                    Status.PASSED, _positive(markers["objective"]), held_out=held_out, certified=certified, doubt=doubt
                )
            knobs = declared_knobs(solution.files[solution.main_file])
        except (ValueError, UsageError) as error:
            return _broken(str(error))
        failing = self.landscape.failure(knobs)
        if failing is not None:
            words = ", ".join(f"{name} = {value}" for name, value in failing.settings.items())
            return _failure(failing.status, f"{words} does not work", failing.rule)
        return _Outcome(Status.PASSED, _figure(self.landscape.speedup(knobs), task.objective.goal), held_out=held_out)

    def _versus(self, task: Task, outcome: _Outcome, rival: Solution | None) -> Value | None:
        if rival is None:
            return None
        other = self._outcome(task, rival)
        if other.status is not Status.PASSED:
            return None
        return _interval(gain(outcome.figure("certify"), other.figure("certify"), task.objective.goal))

    def _passed(
        self, task: Task, solution: Solution, effort: Effort, outcome: _Outcome, versus: Value | None
    ) -> Evaluation:
        timed = effort != "check"
        measured = outcome.figure(effort) * math.exp(self.noise * draw_normal(solution.digest, "noise", effort))
        ratio = _interval(measured if task.objective.goal == "max" else BASELINE_MS / measured)
        measurement = Measurement(
            baseline_ms=BASELINE_MS, candidate_ms=BASELINE_MS / ratio.value, ratio=ratio, estimates=5, repeats=1
        )
        workloads = task.workloads if effort == "certify" else task.split("search")
        return Evaluation(
            status=Status.PASSED,
            tier=TIER_OF[effort],
            solution=solution.digest,
            task=task.digest,
            effort=effort,
            protocol=PROTOCOL,
            objective=_interval(measured) if timed else None,
            doubt=outcome.doubt if effort == "search" else "",
            workloads=tuple(
                WorkloadResult(
                    workload=workload.name,
                    status=Status.PASSED,
                    worst_error=0.0,
                    measurement=measurement if timed and workload.split == "search" else None,
                )
                for workload in workloads
            ),
            versus_rival=versus if timed else None,
            environment=self._environment(),
            device_s=self.device_s,
            wall_s=self.delay_s,
        )

    def _failed(self, task: Task, solution: Solution, effort: Effort, outcome: _Outcome) -> Evaluation:
        return Evaluation(
            status=outcome.status,
            tier=outcome.tier,
            solution=solution.digest,
            task=task.digest,
            effort=effort,
            protocol=PROTOCOL,
            message=outcome.message,
            rule=outcome.rule,
            environment=self._environment(),
            device_s=self.device_s,
            wall_s=self.delay_s,
        )


def _markers(solution: Solution) -> dict[str, str]:
    return {match["key"]: match["value"] for match in _MARKER.finditer(solution.files[solution.main_file])}


def _raise_infrastructure(solution: Solution, visit: int) -> None:
    wanted = _markers(solution).get("infrastructure", "0")
    if wanted == "always" or (wanted.isdecimal() and visit <= int(wanted)):
        raise InfrastructureError("the scripted device failed, as the program's marker asks; run it again")


def _interval(value: float) -> Value:
    return Value(value=value, low=value * (1 - HALF_WIDTH), high=value * (1 + HALF_WIDTH))


def _figure(speedup: float, goal: Goal) -> float:
    return speedup if goal == "max" else BASELINE_MS / speedup


def _positive(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"the objective must be above 0 and finite, not {text}")
    return value


def _broken(message: str) -> _Outcome:
    return _failure(Status.BUILD_ERROR, message, None)


def _failure(status: Status, message: str, rule: str | None) -> _Outcome:
    if status is Status.INFRASTRUCTURE:
        raise InfrastructureError(f"the scripted device failed: {message}")
    rule = (rule or "scripted") if status is Status.INTEGRITY else None
    return _Outcome(status, message=message, rule=rule, tier=_TIERS.get(status, "built"))


def _by_marker(markers: dict[str, str]) -> _Outcome:
    status = Status(markers["status"])
    return _failure(status, markers.get("message", f"scripted to end as {status}"), markers.get("rule"))


def _on_held_out(status: Status) -> _Outcome:
    rule = "scripted" if status is Status.INTEGRITY else None
    return _Outcome(status, message="fails on the held-out workloads", rule=rule, tier="checked")
