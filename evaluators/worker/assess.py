"""One job: build and check every program, time those that pass together, put the verdicts together."""

import os
import shutil
import time

from evaluators.worker import rules
from evaluators.worker.arena import Arena
from evaluators.worker.build import Built, build
from evaluators.worker.check import check
from evaluators.worker.failure import CandidateFailure, TaskFault, integrity
from evaluators.worker.floor import is_below_floor
from evaluators.worker.job import Job, PairVerdict, Verdict
from evaluators.worker.judge import judge
from evaluators.worker.layout import lay_out
from evaluators.worker.oracle import Example, Oracle
from evaluators.worker.pool import Pool
from evaluators.worker.session import Session, Workshop
from evaluators.worker.timing import Effort, Entrant, EntrantFailure, Times, examples_wanted, measure, plan_cases
from evaluators.worker.timing_lock import held
from evaluators.worker.verdicts import State, objective, pairs, timed_cases, verdict

EFFORTS = {
    "search": Effort(estimates=5, most_estimates=8, wanted=0.03, seconds=2.0, windows=40),
    "certify": Effort(estimates=7, most_estimates=14, wanted=0.015, seconds=5.0, windows=60),
}
_POOL_BYTES = 512 << 20
_BASELINE = Built("", "", "", "baseline", 0.0)
_PROBES = 3


class Assessor:
    """Answers jobs; keeps secret timing examples and rough baseline times between them."""

    def __init__(self, shop: Workshop) -> None:
        """Use the supervisor's workshop."""
        self.shop, self.pool = shop, Pool()
        self.baseline_ns: dict[tuple[str, str], int] = {}

    def run(self, job: Job) -> Verdict:
        """Return the verdict on a job. Raises TaskFault, HarnessFault."""
        folder = self.shop.new_folder(f"job-{os.urandom(6).hex()}")
        try:
            return _Run(self, job, folder.name).verdict()
        finally:
            for path in (folder, *self.shop.folder.glob("run-*")):
                shutil.rmtree(path, ignore_errors=True)


class _Run:
    """One job under way."""

    def __init__(self, assessor: Assessor, job: Job, folder: str) -> None:
        self._assessor, self._shop, self._job, self._folder = assessor, assessor.shop, job, folder
        self._task, self._off = job.task, set(job.rules_off)
        self._oracle = Oracle(job.task)
        self._cases = [case for case in job.task.cases if not case.held_out]
        self._states = [State(program) for program in job.programs]

    def verdict(self) -> Verdict:
        """Build, check, time."""
        for number, state in enumerate(self._states):
            started = time.monotonic()
            try:
                with held(alone=False):
                    self._build_and_check(state, number)
            except CandidateFailure as failure:
                state.failure = failure
            state.wall_s = time.monotonic() - started
        found = () if self._job.effort == "check" else self._time()
        return Verdict(tuple(verdict(state, self._off) for state in self._states), found)

    def _build_and_check(self, state: State, number: int) -> None:
        place = self._shop.new_folder(f"{self._folder}/{number}")
        state.built = build(state.program, self._shop.forge, place)
        state.tier = "built"
        state.checked = check(self._shop, self._task, self._oracle, state.built, self._cases, self._off)
        state.cases = state.checked.verdicts
        if state.checked.failure is not None:
            raise state.checked.failure
        if self._job.effort == "certify":
            self._check_held_out(state.built)
        state.tier = "checked"

    def _check_held_out(self, built: Built) -> None:
        """Only pass or fail leaves this check: neither sizes nor values."""
        cases = [case for case in self._task.cases if case.held_out]
        if not cases:
            return
        failure = check(self._shop, self._task, self._oracle, built, cases, self._off).failure
        if failure is not None:
            raise CandidateFailure(failure.status, "failed on a held-out workload", rule=failure.rule)

    def _time(self) -> tuple[PairVerdict, ...]:
        """Time the passing programs in one interleaved run; when one fails in it, it drops out and they start over."""
        while True:
            running = [number for number, state in enumerate(self._states) if state.failure is None]
            if not running:
                return ()
            started = time.monotonic()
            try:
                times = self._measure([self._states[number] for number in running])
            except EntrantFailure as error:
                if error.entrant == 0:
                    raise TaskFault(f"task {self._task.name}: its baseline failed: {error}") from error
                failed = self._states[running[error.entrant - 1]]
                failed.failure = error.failure
                failed.wall_s += time.monotonic() - started
                continue
            for place, number in enumerate(running, start=1):
                self._states[number].wall_s += (time.monotonic() - started) / len(running)
                self._conclude(self._states[number], place, times, times.device_s / len(running))
            return pairs(self._task, self._states, running, times)

    def _measure(self, states: list[State]) -> Times:
        effort = EFFORTS[self._job.effort]
        entrants = [Entrant(_BASELINE, self._baseline_ns(), [])]
        for state in states:
            if state.built is not None and state.checked is not None:
                entrants.append(Entrant(state.built, state.checked.call_ns, []))
        examples = self._examples(entrants, effort)
        for entrant in entrants:
            entrant.examples = examples
        with held(alone=True):
            return measure(self._shop, self._task, self._cases, entrants, effort, self._off)

    def _examples(self, entrants: list[Entrant], effort: Effort) -> list[list[Example]]:
        plans = plan_cases(self._task, entrants, self._cases, effort)
        examples = []
        for case, plan in zip(self._cases, plans, strict=True):
            affordable = max(2, _POOL_BYTES // len(self._cases) // lay_out(self._task, case).stride)
            count = min(affordable, examples_wanted(plan))
            fresh = self._job.effort == "certify"
            examples.append(self._assessor.pool.examples(self._task, self._oracle, case, count, fresh=fresh))
        return examples

    def _baseline_ns(self) -> list[int]:
        """Return about what the baseline takes per call and case; used to size windows, never as a figure.

        A baseline that is not right is worth no comparison: it must pass the check that programs must pass.
        """
        known = self._assessor.baseline_ns
        keys = [(self._task.digest, case.name) for case in self._cases]
        if any(key not in known for key in keys):
            with held(alone=False):
                known.update(zip(keys, self._probe_baseline(), strict=True))
        return [known[key] for key in keys]

    def _probe_baseline(self) -> list[int]:
        arenas = [Arena(lay_out(self._task, case), 1) for case in self._cases]
        held_bytes = sum(arena.layout.stride for arena in arenas)
        session = Session(self._shop, self._task, _BASELINE, held_bytes)
        took = []
        try:
            session.load()
            for index, (case, arena) in enumerate(zip(self._cases, arenas, strict=True)):
                example = self._oracle.example(case)
                arena.fill(0, example)
                session.set_up(index, case, arena)
                took.append(min(session.call(index, [0]).cpu_ns for _ in range(_PROBES)))
                session.collect(copy=True)
                outputs = {output.name: arena.output_bytes(0, output) for output in arena.layout.outputs}
                judge(self._task, arena, outputs, example)
        except CandidateFailure as failure:
            raise TaskFault(f"task {self._task.name}: its baseline failed: {failure.message}") from failure
        finally:
            session.end()
            for arena in arenas:
                arena.close()
        return took

    def _conclude(self, state: State, place: int, times: Times, device_s: float) -> None:
        state.device_s = device_s
        try:
            self._check_floor(times, place)
            self._check_descriptors(times, place)
        except CandidateFailure as failure:
            state.failure = failure
            return
        state.tier = "timed"
        if self._job.effort == "certify":
            state.tier = "certified"
            state.notes.append("all-core: not measured (the protocol times one thread)")
        state.cases = timed_cases(state.cases, self._cases, times, place)
        state.objective = objective(self._task, times, place)

    def _check_floor(self, times: Times, place: int) -> None:
        for index, case in enumerate(self._cases):
            floor = self._oracle.floor(case)
            if floor is None or rules.FLOOR in self._off:
                continue
            took = min(estimate[place][index] for estimate in times.cpu_ns)
            least = is_below_floor(took, *floor)
            if least is not None:
                message = f"{case.name}: {took / 1e3:.1f} us is below the physical floor of {least / 1e3:.1f} us"
                raise integrity(rules.FLOOR, message)

    def _check_descriptors(self, times: Times, place: int) -> None:
        more = times.descriptors.get(place, 0)
        if self._job.effort == "certify" and more > 0 and rules.DESCRIPTORS not in self._off:
            raise integrity(rules.DESCRIPTORS, f"{more} more files were open at the end than after loading")
