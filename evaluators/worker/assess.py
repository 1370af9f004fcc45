"""One job: build and check every program, time those that pass together, put the verdicts together."""

import os
import shutil
import time
from dataclasses import dataclass, field, replace

from evaluators.worker import rules
from evaluators.worker.build import Built, build
from evaluators.worker.check import Checked, check
from evaluators.worker.failure import CandidateFailure, TaskFault
from evaluators.worker.figures import aggregate, figure
from evaluators.worker.floor import floor_ns
from evaluators.worker.job import (
    Case,
    CaseVerdict,
    Figure,
    Job,
    PairVerdict,
    Program,
    ProgramVerdict,
    TaskSpec,
    Timed,
    Verdict,
)
from evaluators.worker.layout import lay_out
from evaluators.worker.oracle import Example, Oracle
from evaluators.worker.pool import Pool
from evaluators.worker.session import Session, Workshop
from evaluators.worker.status import Status
from evaluators.worker.timing import (
    Effort,
    Entrant,
    EntrantFailure,
    Times,
    measure,
    plan_cases,
    slots_wanted,
)
from evaluators.worker.timing_lock import held

EFFORTS = {"search": Effort(5, 1.2, 10), "certify": Effort(7, 4.0, 16)}
_POOL_BYTES = 768 << 20
_BASELINE = Built("", "", "", "baseline", 0.0)


@dataclass
class _State:
    """What is known of one program so far."""

    program: Program
    built: Built | None = None
    checked: Checked | None = None
    failure: CandidateFailure | None = None
    tier: str = "none"
    cases: list[CaseVerdict] = field(default_factory=list)
    objective: Figure | None = None
    notes: list[str] = field(default_factory=list)
    device_s: float = 0.0
    wall_s: float = 0.0


class Assessor:
    """Answers jobs; keeps secret timing examples between them."""

    def __init__(self, shop: Workshop) -> None:
        """Use the supervisor's workshop."""
        self._shop, self._pool = shop, Pool()
        self._baseline_ns: dict[tuple[str, str], int] = {}

    def run(self, job: Job) -> Verdict:
        """Return the verdict on a job. Raises TaskFault, HarnessFault."""
        oracle = Oracle(job.task)
        states = [_State(program) for program in job.programs]
        off = set(job.rules_off)
        folder = self._shop.new_folder(f"job-{os.urandom(6).hex()}")
        try:
            for number, state in enumerate(states):
                started = time.monotonic()
                self._build_and_check(job, oracle, state, folder.name, number, off)
                state.wall_s = time.monotonic() - started
            pairs = () if job.effort == "check" else self._time(job, oracle, states, off)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            for run in self._shop.folder.glob("run-*"):
                shutil.rmtree(run, ignore_errors=True)
        return Verdict(tuple(_verdict(state, off) for state in states), pairs)

    def _build_and_check(
        self, job: Job, oracle: Oracle, state: _State, folder: str, number: int, off: set[str]
    ) -> None:
        with held(alone=False):
            try:
                place = self._shop.new_folder(f"{folder}/{number}")
                state.built = build(state.program, self._shop.forge, place, self._shop.drop_user)
                state.tier = "built"
                search = [case for case in job.task.cases if not case.held_out]
                state.checked = check(self._shop, job.task, oracle, state.built, search, off)
                state.cases = state.checked.verdicts
                if state.checked.failure is not None:
                    raise state.checked.failure
                if job.effort == "certify":
                    self._check_held_out(job.task, oracle, state.built, off)
                state.tier = "checked"
            except CandidateFailure as failure:
                state.failure = failure

    def _check_held_out(self, task: TaskSpec, oracle: Oracle, built: Built, off: set[str]) -> None:
        """Only pass or fail leaves this check: neither sizes nor values."""
        cases = [case for case in task.cases if case.held_out]
        checked = check(self._shop, task, oracle, built, cases, off) if cases else Checked()
        if checked.failure is not None:
            failure = checked.failure
            message = "failed on a held-out workload"
            raise CandidateFailure(failure.status, message, rule=failure.rule)

    def _time(self, job: Job, oracle: Oracle, states: list[_State], off: set[str]) -> tuple[PairVerdict, ...]:
        """Time the passing programs in one interleaved run; a program that fails in it drops out and it starts over."""
        cases = [case for case in job.task.cases if not case.held_out]
        while True:
            running = [number for number, state in enumerate(states) if state.failure is None]
            if not running:
                return ()
            started = time.monotonic()
            try:
                times, effort = self._measure(job, oracle, cases, [states[number] for number in running], off)
            except EntrantFailure as error:
                if error.entrant == 0:
                    raise TaskFault(f"task {job.task.name}: its baseline failed: {error}") from error
                failed = states[running[error.entrant - 1]]
                failed.failure = error.failure
                failed.wall_s += time.monotonic() - started
                continue
            return self._conclude(job, oracle, cases, states, running, times, effort, off, started)

    def _measure(
        self, job: Job, oracle: Oracle, cases: list[Case], states: list[_State], off: set[str]
    ) -> tuple[Times, Effort]:
        effort = EFFORTS[job.effort]
        baseline = Entrant(_BASELINE, self._probe_baseline(job.task, oracle, cases), [])
        entrants = [baseline]
        for state in states:
            if state.built is not None and state.checked is not None:
                entrants.append(Entrant(state.built, state.checked.call_ns, []))
        examples = self._examples(job, oracle, cases, entrants, effort)
        for entrant in entrants:
            entrant.examples = examples
        with held(alone=True):
            return measure(self._shop, job.task, cases, entrants, effort, off), effort

    def _examples(
        self, job: Job, oracle: Oracle, cases: list[Case], entrants: list[Entrant], effort: Effort
    ) -> list[list[Example]]:
        plans = plan_cases(entrants, cases, effort)
        examples = []
        for case, plan in zip(cases, plans, strict=True):
            affordable = max(2, _POOL_BYTES // len(cases) // lay_out(job.task, case).stride)
            wanted = max(slots_wanted(plan, place) for place in range(len(entrants)))
            fresh = job.effort == "certify"
            examples.append(self._pool.examples(job.task, oracle, case, min(wanted, affordable), fresh=fresh))
        return examples

    def _probe_baseline(self, task: TaskSpec, oracle: Oracle, cases: list[Case]) -> list[int]:
        """Return about what the baseline takes per call and case; used to size windows, never as a figure."""
        if any((task.digest, case.name) not in self._baseline_ns for case in cases):
            with held(alone=False):
                checked = probe(self._shop, task, oracle, cases)
            self._baseline_ns.update({(task.digest, case.name): ns for case, ns in zip(cases, checked, strict=True)})
        return [self._baseline_ns[task.digest, case.name] for case in cases]

    def _conclude(
        self,
        job: Job,
        oracle: Oracle,
        cases: list[Case],
        states: list[_State],
        running: list[int],
        times: Times,
        effort: Effort,
        off: set[str],
        started: float,
    ) -> tuple[PairVerdict, ...]:
        for place, number in enumerate(running, start=1):
            state = states[number]
            state.device_s = times.device_s / len(running)
            state.wall_s += (time.monotonic() - started) / len(running)
            try:
                _check_floor(oracle, cases, times, place, off)
                _check_descriptors(job, times, place, off)
            except CandidateFailure as failure:
                state.failure = failure
                continue
            state.tier = "certified" if job.effort == "certify" else "timed"
            state.cases = _timed_cases(state.cases, cases, times, place, effort)
            state.objective = _objective(job.task, times, place)
        return _pairs(job.task, states, running, times)


def probe(shop: Workshop, task: TaskSpec, oracle: Oracle, cases: list[Case]) -> list[int]:
    """Return the shortest of a few calls of the baseline per case, processor nanoseconds. Raises TaskFault."""
    from evaluators.worker.arena import Arena

    arenas = [Arena(lay_out(task, case), 1) for case in cases]
    session = Session(shop, task, _BASELINE, sum(arena.layout.stride for arena in arenas), task.timeout_s)
    try:
        session.load()
        took = []
        for index, (case, arena) in enumerate(zip(cases, arenas, strict=True)):
            arena.fill(0, oracle.example(case))
            session.set_up(index, case, arena)
            took.append(min(session.call(index, [0]).cpu_ns for _ in range(3)))
    except CandidateFailure as failure:
        raise TaskFault(f"task {task.name}: its baseline failed: {failure.message}") from failure
    finally:
        session.end()
        for arena in arenas:
            arena.close()
    return took


def _check_floor(oracle: Oracle, cases: list[Case], times: Times, place: int, off: set[str]) -> None:
    for index, case in enumerate(cases):
        floor = oracle.floor(case)
        if floor is None or rules.FLOOR in off:
            continue
        least = floor_ns(*floor)
        took = min(estimate[place][index] for estimate in times.cpu_ns)
        if took < least:
            message = f"{case.name}: {took / 1e3:.1f} us is below the physical floor of {least / 1e3:.1f} us"
            raise CandidateFailure(Status.INTEGRITY, message, rule=rules.FLOOR)


def _check_descriptors(job: Job, times: Times, place: int, off: set[str]) -> None:
    more = times.descriptors.get(place, 0)
    if job.effort == "certify" and more > 0 and rules.DESCRIPTORS not in off:
        message = f"{more} more files were open at the end than after loading"
        raise CandidateFailure(Status.INTEGRITY, message, rule=rules.DESCRIPTORS)


def _timed_cases(
    verdicts: list[CaseVerdict], cases: list[Case], times: Times, place: int, effort: Effort
) -> list[CaseVerdict]:
    by_name = {verdict.case: verdict for verdict in verdicts}
    timed = []
    for index, case in enumerate(cases):
        baseline = [estimate[0][index] / 1e6 for estimate in times.cpu_ns]
        candidate = [estimate[place][index] / 1e6 for estimate in times.cpu_ns]
        ratio = figure([b / c for b, c in zip(baseline, candidate, strict=True)])
        windows = times.plans[index].windows
        record = Timed(figure(baseline).value, figure(candidate).value, ratio, effort.estimates, windows)
        timed.append(replace(by_name[case.name], timed=record))
    return timed


def _objective(task: TaskSpec, times: Times, place: int) -> Figure:
    estimates = []
    for estimate in times.cpu_ns:
        if task.objective == "ratio":
            values = [b / c for b, c in zip(estimate[0], estimate[place], strict=True)]
        else:
            values = [ns / {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}[task.unit] for ns in estimate[place]]
        estimates.append(aggregate(values, task.aggregate))
    return figure(estimates)


def _pairs(task: TaskSpec, states: list[_State], running: list[int], times: Times) -> tuple[PairVerdict, ...]:
    pairs = []
    for place_a, a in enumerate(running, start=1):
        for place_b, b in enumerate(running[place_a:], start=place_a + 1):
            if states[a].failure is None and states[b].failure is None:
                ratios = [
                    aggregate([y / x for x, y in zip(estimate[place_a], estimate[place_b], strict=True)], task.aggregate)
                    for estimate in times.cpu_ns
                ]
                pairs.append(PairVerdict(a, b, figure(ratios)))
    return tuple(pairs)


def _verdict(state: _State, off: set[str]) -> ProgramVerdict:
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
        notes=tuple(notes),
        build_s=state.built.seconds if state.built else 0.0,
        device_s=state.device_s,
        wall_s=state.wall_s,
    )
