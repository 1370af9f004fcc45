"""Certifying challengers: no program becomes the incumbent on a provisional figure."""

from dataclasses import dataclass
from typing import Any

from evaluators.evaluation import Evaluation
from evaluators.evaluator import Evaluator
from evaluators.objective import Goal, better
from evaluators.solution import Solution
from evaluators.task import Task
from graph.cycles import Result
from graph.state import Incumbent, searched
from nodes.incumbents import incumbent_of
from nodes.judged import judge
from nodes.services import Services
from nodes.telling import Tell


@dataclass(frozen=True)
class Certified:
    """What certification left: the incumbent, and results that it changed."""

    incumbent: Incumbent | None
    changed: dict[int, Result]
    """Position in the round's results -> the result as it stands now."""
    spent: list[dict[str, Any]]


def challengers(results: list[Result], incumbent: Incumbent | None, goal: Goal, margin: float) -> list[int]:
    """Return the positions of the results that may replace the incumbent, best first (then cycle, then sample)."""
    known = None if incumbent is None else searched(incumbent)["value"]
    values = {
        at: result.objective.value
        for at, result in enumerate(results)
        if result.outcome == "evaluated" and result.objective is not None
    }
    sign = -1.0 if goal == "max" else 1.0
    ahead = [at for at, value in values.items() if better(value, known, goal, margin)]
    return sorted(ahead, key=lambda at: (sign * values[at], results[at].cycle, results[at].sample))


@dataclass(frozen=True)
class Certifier:
    """Certifies the challengers of one round."""

    services: Services
    evaluator: Evaluator
    task: Task
    margin: float
    """Share by which the challenger's interval must clear the incumbent."""
    tell: Tell

    async def run(
        self, thread: str, round_: int, results: list[Result], incumbent: Incumbent | None, nodes: dict[int, str]
    ) -> Certified:
        """Certify until one is accepted or none is left. `nodes`: cycle -> node.

        One whose figure was in doubt ends nothing: what still beats it, as it was certified, has its turn.
        """
        changed: dict[int, Result] = {}
        spent: list[dict[str, Any]] = []
        best, settled = incumbent, False
        for at in challengers(results, incumbent, self.task.objective.goal, self.margin):
            result = results[at]
            doubted = await self._is_doubted(result)
            if result.solution is None or not self._has_turn(result, best, settled=settled and not doubted):
                continue
            rival = None if best is None else await self.services.solution(best["solution"])
            calls = self.services.calls(thread, round_, result.cycle, result.sample)
            solution: Solution = await self.services.solution(result.solution)
            verdict = await judge(calls, "certification", self.evaluator, self.task, solution, "certify", rival)
            spent += calls.spent
            blob = await self.services.keep(verdict)
            accepted = self._accepts(verdict, rival)
            self._told(result, verdict, accepted)
            if accepted:
                best = incumbent_of(result.solution, blob, verdict, nodes[result.cycle], round_)
                settled = settled or not doubted
            if not verdict.passed:
                changed[at] = _downgrade(result, verdict, blob)
            elif doubted:
                changed[at] = _corrected(result, verdict, blob)
        return Certified(best, changed, spent)

    def _has_turn(self, result: Result, best: Incumbent | None, *, settled: bool) -> bool:
        """Return whether a challenger is to be certified: nothing is settled yet, and it beats the best so far."""
        if settled or result.objective is None:
            return False
        known = None if best is None else searched(best)["value"]
        return better(result.objective.value, known, self.task.objective.goal, self.margin)

    async def _is_doubted(self, result: Result) -> bool:
        if result.evaluation is None:
            return False
        return (await self.services.evaluation(result.evaluation)).doubt != ""

    def _accepts(self, verdict: Evaluation, rival: Solution | None) -> bool:
        if not verdict.passed or verdict.objective is None:
            return False
        if rival is None:
            return True
        return verdict.versus_rival is not None and verdict.versus_rival.low > 1.0 + self.margin

    def _told(self, result: Result, verdict: Evaluation, accepted: bool) -> None:
        self.tell(
            "certified",
            cycle=result.cycle,
            sample=result.sample,
            status=verdict.status.value,
            accepted=accepted,
            message=verdict.message,
            objective=None if verdict.objective is None else verdict.objective.model_dump(),
            versus_rival=None if verdict.versus_rival is None else verdict.versus_rival.model_dump(),
        )


def _downgrade(result: Result, verdict: Evaluation, blob: str) -> Result:
    changes = {
        "status": verdict.status,
        "message": f"certification: {verdict.message}",
        "rule": verdict.rule,
        "evaluation": blob,
        "objective": None,
    }
    return Result.model_validate({**result.model_dump(), **changes})


def _corrected(result: Result, verdict: Evaluation, blob: str) -> Result:
    """Return a result whose figure was in doubt with the one that certification measured."""
    return Result.model_validate({**dict(result), "evaluation": blob, "objective": verdict.searched})
