"""From states and times to verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from evaluators.worker.build import Built
from evaluators.worker.check import Checked
from evaluators.worker.failure import CandidateFailure
from evaluators.worker.figures import combined
from evaluators.worker.job import (
    Case,
    CaseVerdict,
    Figure,
    PairVerdict,
    Program,
    ProgramVerdict,
    TaskSpec,
    Timed,
)
from evaluators.worker.status import Status
from evaluators.worker.timing import Times

_NS_PER = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}


@dataclass
class State:
    """What is known of one program so far."""

    program: Program
    built: Built | None = None
    checked: Checked | None = None
    failure: CandidateFailure | None = None
    tier: str = "none"
    cases: list[CaseVerdict] = field(default_factory=list)
    objective: Figure | None = None
    doubt: str = ""
    """Why its figure is not believed before it is certified; empty: no doubt."""
    notes: list[str] = field(default_factory=list)
    device_s: float = 0.0
    wall_s: float = 0.0


def timed_cases(verdicts: Sequence[CaseVerdict], cases: Sequence[Case], times: Times, place: int) -> list[CaseVerdict]:
    """Return the verdicts on all cases, those on the timed `cases` with the times of the entrant at `place`."""
    records = {}
    for index, case in enumerate(cases):
        records[case.name] = Timed(
            baseline_ms=times.usual_ns(0, index) / 1e6,
            candidate_ms=times.usual_ns(place, index) / 1e6,
            ratio=times.case_ratio(0, place, index),
            estimates=len(times.call_ns),
            repeats=times.plans[index].windows,
        )
    return [replace(verdict, timed=records.get(verdict.case)) for verdict in verdicts]


def objective(task: TaskSpec, times: Times, place: int) -> Figure:
    """Return the task's objective for the entrant at `place`, over the estimates."""
    if task.objective == "ratio":
        return times.ratio(0, place, task.aggregate)
    per_case = [[ns / _NS_PER[task.unit] for ns in estimate[place]] for estimate in times.call_ns]
    values = [times.usual_ns(place, index) / _NS_PER[task.unit] for index in range(len(per_case[0]))]
    return combined(values, per_case, task.aggregate)


def pairs(task: TaskSpec, states: Sequence[State], running: Sequence[int], times: Times) -> tuple[PairVerdict, ...]:
    """Return every pair of the programs that passed (`running`: the states that were timed, in the entrants' order)."""
    found = []
    for place_a, a in enumerate(running, start=1):
        for place_b, b in enumerate(running[place_a:], start=place_a + 1):
            if states[a].failure is None and states[b].failure is None:
                found.append(PairVerdict(a, b, times.ratio(place_b, place_a, task.aggregate)))
    return tuple(found)


def verdict(state: State, off: set[str]) -> ProgramVerdict:
    """Return what became of a program."""
    failure = state.failure
    notes = [*state.notes, *(f"integrity rule {rule} was switched off" for rule in sorted(off))]
    return ProgramVerdict(
        status=Status.PASSED if failure is None else failure.status,
        tier=state.tier,
        message="" if failure is None else failure.message,
        log=(state.built.log if state.built else "") if failure is None else failure.log,
        rule=None if failure is None else failure.rule,
        objective=state.objective if failure is None else None,
        cases=tuple(state.cases),
        doubt=state.doubt if failure is None else "",
        notes=tuple(notes),
        build_s=state.built.seconds if state.built else 0.0,
        device_s=state.device_s,
        wall_s=state.wall_s,
    )
