"""A cycle: the samples spent on one intent, and when it ends. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from evaluators.objective import Goal, Record, Value, better, gain
from evaluators.worker.status import Status
from graph.config import SearchConfig
from graph.wording import counted
from graph.world_model import Evidence

Outcome = Literal["evaluated", "unusable", "repeated"]
"""`unusable`: no program came of the reply. `repeated`: an equal program was evaluated before."""


class Result(Record):
    """What became of one sample."""

    cycle: int
    sample: int = Field(ge=1)
    """Number of the sample within its cycle, in Send order."""
    outcome: Outcome
    status: Status | None = None
    """Status of the evaluation; None when there was none."""
    message: str = ""
    rule: str | None = None
    solution: str | None = None
    """Blob of the program; None when there is none."""
    evaluation: str | None = None
    """Blob of the evaluation (for a repeat: of the earlier one)."""
    objective: Value | None = None
    settings: dict[str, str] = {}
    """Knob values of the program."""
    final: bool = False
    """The coder has nothing further to try for this intent."""
    repair: bool = False
    """A repair turn: it counts neither for K nor for the budget."""

    @property
    def label(self) -> str:
        """The evaluation's status, or what happened instead of one."""
        return self.status.value if self.outcome == "evaluated" and self.status is not None else self.outcome


class Best(Record):
    """A cycle's best program so far."""

    solution: str
    evaluation: str
    objective: Value
    settings: dict[str, str] = {}


class Cycle(Record):
    """The running account of one intent's samples."""

    id: int = Field(ge=1)
    node: str
    parent: str | None
    """Blob of the parent program; None when the intent starts from nothing."""
    parent_objective: float | None = None
    predicted_gain: float | None = None
    first_round: int
    attempts: tuple[int, ...] = ()
    """Numbers of the attempts so far."""
    outcomes: dict[str, int] = {}
    samples: int = 0
    """Samples drawn so far, counted or not."""
    counted: int = 0
    """Samples that count for K: neither repeats nor repair turns."""
    streak: int = 0
    """Counted samples in a row without improvement."""
    repeats: int = 0
    repairs: int = 0
    """Repair turns taken, of the `repair_turns` allowed."""
    best: Best | None = None
    last: Result | None = None
    rule: str | None = None
    ended: str = ""
    """Why the cycle ended; empty while it goes on."""


def fold(cycle: Cycle, results: Mapping[int, Result], config: SearchConfig, goal: Goal, margin: float) -> Cycle:
    """Return the cycle after one round's results (attempt number -> result, in Send order).

    An improvement is a passing sample that beats the cycle's own best by more than `margin`; the first pass counts.
    A repair turn can improve, but is none of the samples that count.
    Samples are counted one by one, but a cycle ends only between rounds: what a round has paid for is taken in whole.
    """
    for number, result in results.items():
        cycle = _fold_one(cycle, number, result, goal, margin)
    return _replaced(cycle, ended=_end(cycle, config, final=any(result.final for result in results.values())))


def _fold_one(cycle: Cycle, number: int, result: Result, goal: Goal, margin: float) -> Cycle:
    changes: dict[str, Any] = {
        "attempts": (*cycle.attempts, number),
        "outcomes": {**cycle.outcomes, result.label: cycle.outcomes.get(result.label, 0) + 1},
        "samples": max(cycle.samples, result.sample),
        "last": result,
        "rule": result.rule or cycle.rule,
    }
    if result.repair:
        changes["repairs"] = cycle.repairs + 1
    if result.outcome == "repeated":
        return _replaced(cycle, **changes, repeats=cycle.repeats + 1)
    counts = 0 if result.repair else 1
    changes["counted"] = cycle.counted + counts
    known = None if cycle.best is None else cycle.best.objective.value
    value = None if result.objective is None else result.objective.value
    changes["streak"] = 0 if better(value, known, goal, margin) else cycle.streak + counts
    if better(value, known, goal) and result.objective and result.solution and result.evaluation:
        changes["best"] = Best(
            solution=result.solution,
            evaluation=result.evaluation,
            objective=result.objective,
            settings=result.settings,
        )
    return _replaced(cycle, **changes)


def _end(cycle: Cycle, config: SearchConfig, *, final: bool) -> str:
    if cycle.rule is not None:
        return f"integrity rule {cycle.rule} fired"
    if final:
        return "the coder has nothing further to try"
    if cycle.streak >= config.stagnation:
        return f"{counted(cycle.streak, 'sample')} in a row brought no improvement"
    if config.sample_cap is not None and cycle.counted >= config.sample_cap:
        return f"the cap of {counted(config.sample_cap, 'sample')} is reached"
    if cycle.repeats >= config.repeat_cap:
        return f"{counted(cycle.repeats, 'sample')} repeated evaluated programs"
    return ""


def evidence_of(cycle: Cycle, last_round: int, goal: Goal) -> Evidence:
    """Return what the cycle found out, as the world model keeps it."""
    best, parent = cycle.best, cycle.parent_objective
    relative = None if best is None or parent is None else gain(best.objective.value, parent, goal)
    return Evidence(
        cycle=cycle.id,
        first_round=cycle.first_round,
        last_round=last_round,
        attempts=cycle.attempts,
        outcomes=cycle.outcomes,
        solution=None if best is None else best.solution,
        objective=None if best is None else best.objective,
        gain=relative,
        predicted_gain=cycle.predicted_gain,
        settings={} if best is None else best.settings,
        cut_short=not cycle.ended,
        cause="" if best is not None else _cause(cycle),
        rule=cycle.rule,
    )


def _cause(cycle: Cycle) -> str:
    outcomes = ", ".join(f"{count} {label}" for label, count in sorted(cycle.outcomes.items()))
    message = "" if cycle.last is None else cycle.last.message.split("\n")[0][:300]
    return f"no program passed ({outcomes})" + (f"; last: {message}" if message else "")


def _replaced(cycle: Cycle, **changes: Any) -> Cycle:
    return Cycle.model_validate({**dict(cycle), **changes})
