"""One job: build and check every program, time those that pass together, put the verdicts together."""

import os
import statistics
import time
from dataclasses import replace
from pathlib import Path

from evaluators.worker import rules
from evaluators.worker.ahead import compile_ahead
from evaluators.worker.alone import least_ns, single_calls_ns
from evaluators.worker.bench import Bench
from evaluators.worker.build import Built, build
from evaluators.worker.build_cuda import architecture, baseline_for_gpu, build_for_gpu
from evaluators.worker.caches import kept
from evaluators.worker.check import Checked, Checks, check
from evaluators.worker.failure import CandidateFailure, TaskFault, integrity
from evaluators.worker.job import Case, Job, PairVerdict, Verdict
from evaluators.worker.layout import lay_out
from evaluators.worker.oracle import Oracle
from evaluators.worker.plans import shortened
from evaluators.worker.removal import remove
from evaluators.worker.session import Workshop
from evaluators.worker.supply import Supply
from evaluators.worker.timing import Times, measure, plan_cases
from evaluators.worker.verdicts import State, objective, pairs, timed_cases, verdict
from evaluators.worker.visit import Entrant, EntrantFailure, Run, hand

_BASELINE = Built("", "", "", "baseline", 0.0)
_PROBES = 3
_ALONE, _WARM = 12, 5
"""Single calls of a program whose windows seem too quick, and how many of these do not count: it may tune itself."""


class Assessor:
    """Answers jobs; keeps rough baseline times between them."""

    def __init__(self, shop: Workshop, bench: Bench, capability: tuple[int, int] = (0, 0)) -> None:
        """Use the supervisor's workshop and its device; `capability` is a GPU's."""
        self.shop, self.bench = shop, bench
        self.capability, self.arch = capability, architecture(capability)
        self.baseline = _BASELINE
        if bench.device == "cuda":
            self.baseline = baseline_for_gpu(shop.new_folder("baseline"), self.arch)
        self.baseline_ns: dict[tuple[str, str], int] = {}

    def run(self, job: Job) -> Verdict:
        """Return the verdict on a job. Raises TaskFault, HarnessFault."""
        folder = self.shop.new_folder(f"job-{os.urandom(6).hex()}")
        try:
            return _Run(self, job, folder.name).verdict()
        finally:
            self.bench.tidy()
            remove(folder, *self.shop.folder.glob("run-*"))


class _Run:
    """One job under way."""

    def __init__(self, assessor: Assessor, job: Job, folder: str) -> None:
        self._assessor, self._shop, self._job, self._folder = assessor, assessor.shop, job, folder
        self._task, self._off, self._bench = job.task, set(job.rules_off), assessor.bench
        self._oracle = Oracle(job.task)
        self._checks = Checks(self._shop, self._bench, self._task, self._oracle, self._off)
        self._checked_cases = [case for case in job.task.cases if not case.held_out]
        self._cases = [case for case in self._checked_cases if case.timed]
        self._states = [State(program) for program in job.programs]

    def verdict(self) -> Verdict:
        """Build, check, time."""
        for number, state in enumerate(self._states):
            started = time.monotonic()
            try:
                with self._bench.building():
                    self._build(state, number)
                with self._bench.checking():
                    self._check(state)
            except CandidateFailure as failure:
                state.failure = failure
            state.wall_s = time.monotonic() - started
        found = () if self._job.effort == "check" else self._time()
        return Verdict(tuple(verdict(state, self._off) for state in self._states), found)

    def _build(self, state: State, number: int) -> None:
        place = self._shop.new_folder(f"{self._folder}/{number}")
        if self._bench.device == "cuda":
            state.built = build_for_gpu(state.program, self._shop.forge, place, self._assessor.arch)
            if state.program.language == "triton":
                self._compile_ahead(state, state.built, place)
        else:
            state.built = build(state.program, self._shop.forge, place)
        state.tier = "built"

    def _compile_ahead(self, state: State, built: Built, place: Path) -> None:
        started = time.monotonic()
        cases = self._checked_cases
        note = compile_ahead(self._shop.forge, self._task, built, cases, self._assessor.capability, place)
        state.notes.append(note)
        state.built = replace(built, seconds=built.seconds + time.monotonic() - started)

    def _check(self, state: State) -> None:
        if state.built is None:
            return
        state.checked = self._checked(state, state.built, self._checked_cases)
        state.cases = state.checked.verdicts
        if state.checked.failure is not None:
            raise state.checked.failure
        if self._job.effort == "certify":
            self._check_held_out(state, state.built)
        # Inputs of the check are used nowhere else; those of timing are given to one process after the other.
        state.built = kept(state.built)
        if self._bench.device == "cuda":
            state.notes.append(f"GPU-seconds of the check: {state.device_s:.2f}")
        state.tier = "checked"

    def _checked(self, state: State, built: Built, cases: list[Case]) -> Checked:
        """Return what the check of `cases` found; what it took of a GPU is counted."""
        started = time.monotonic()
        checked = check(self._checks, built, cases)
        if self._bench.device == "cuda":
            state.device_s += time.monotonic() - started - checked.started_s
        return checked

    def _check_held_out(self, state: State, built: Built) -> None:
        """Only pass or fail leaves this check: neither sizes nor values."""
        cases = [case for case in self._task.cases if case.held_out]
        if not cases:
            return
        failure = self._checked(state, built, cases).failure
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
                # Its frames would hold the examples, of which there is no room for two sets.
                failed.failure = error.failure.with_traceback(None)
                failed.failure.__cause__ = failed.failure.__context__ = None
                failed.wall_s += time.monotonic() - started
                continue
            for place, number in enumerate(running, start=1):
                self._states[number].wall_s += (time.monotonic() - started) / len(running)
                self._conclude(self._states[number], place, times, times.device_s / len(running))
            return pairs(self._task, self._states, running, times)

    def _measure(self, states: list[State]) -> Times:
        effort = self._bench.efforts[self._job.effort]
        entrants = [Entrant(self._assessor.baseline, self._baseline_ns(), [])]
        for state in states:
            if state.built is not None and state.checked is not None:
                took = zip(self._checked_cases, state.checked.call_ns, strict=True)
                entrants.append(Entrant(state.built, [ns for case, ns in took if case.timed], []))
        with self._bench.checking():
            started = time.monotonic()
            supply = Supply(self._oracle, self._task, self._cases, self._bench.limits)
            plans = plan_cases(self._task, entrants, self._cases, self._bench, effort)
            hand(entrants, supply.first(plans))
            made_s = time.monotonic() - started if self._bench.device == "cuda" else 0.0
        with self._bench.timing():
            run = Run(
                shop=self._shop,
                bench=self._bench,
                task=self._task,
                cases=self._cases,
                entrants=entrants,
                effort=effort,
                off=self._off,
                supply=supply,
                planned=self._oracle.plans,
            )
            times = measure(run)
        if self._bench.device == "cuda":
            note = f"GPU-seconds of timing {len(states)}: {made_s:.2f} first inputs, {times.device_s:.2f} afterwards"
            notes = [note, *shortened([case.name for case in self._cases], plans, times.plans)]
            for state in states:
                state.notes += notes
        times.device_s += made_s
        return times

    def _baseline_ns(self) -> list[int]:
        """Return about what the baseline takes per call and case; used to size windows, never as a figure.

        A baseline that is not right is worth no comparison: it must pass the check that programs must pass.
        """
        known = self._assessor.baseline_ns
        keys = [(self._task.digest, case.name) for case in self._cases]
        if any(key not in known for key in keys):
            with self._bench.checking():
                known.update(zip(keys, self._probe_baseline(), strict=True))
        return [known[key] for key in keys]

    def _probe_baseline(self) -> list[int]:
        try:
            took, _ = single_calls_ns(self._checks, self._assessor.baseline, self._cases, _PROBES, fresh=False)
            return [min(times) for times in took]
        except CandidateFailure as failure:
            raise TaskFault(f"task {self._task.name}: its baseline failed: {failure.message}") from failure

    def _conclude(self, state: State, place: int, times: Times, device_s: float) -> None:
        state.device_s += device_s
        try:
            self._check_floor(times, place)
            self._check_descriptors(times, place)
            self._check_alone(state, times, place)
        except CandidateFailure as failure:
            state.failure = failure
            return
        state.tier = "timed"
        faster = self._below_practical_floor(times, place)
        if self._job.effort == "certify":
            state.tier = "certified"
            state.notes += [*self._bench.remarks(), *(f"certified although {words}" for words in faster)]
        else:
            state.doubt = "; ".join(faster)
        state.cases = timed_cases(state.cases, self._cases, times, place)
        state.objective = objective(self._task, times, place)

    def _check_floor(self, times: Times, place: int) -> None:
        for index, case in enumerate(self._cases):
            floor = self._oracle.floor(case)
            if floor is None or rules.FLOOR in self._off:
                continue
            took = min(estimate[place][index] for estimate in times.call_ns)
            least = self._bench.impossible(took, *floor)
            if least is not None:
                message = f"{case.name}: {took / 1e3:.1f} us is below the physical floor of {least / 1e3:.1f} us"
                raise integrity(rules.FLOOR, message)

    def _check_alone(self, state: State, times: Times, place: int) -> None:
        """See whether calls took far less in a window than alone; only where the check suggests it is that measured."""
        if state.built is None or state.checked is None or rules.BATCHED in self._off:
            return
        rough_ns = zip(self._checked_cases, state.checked.call_ns, strict=True)
        rough_ns_of, limits = {case.name: ns for case, ns in rough_ns}, self._bench.limits
        took = {case.name: min(one[place][index] for one in times.call_ns) for index, case in enumerate(self._cases)}
        quick = [case for case in self._cases if took[case.name] < least_ns(rough_ns_of[case.name], limits)]
        if not quick:
            return
        with self._bench.timing():
            started = time.monotonic()
            alone_ns, starting_s = single_calls_ns(self._checks, state.built, quick, _ALONE, fresh=True)
            state.device_s += time.monotonic() - started - starting_s if self._bench.device == "cuda" else 0.0
        for case, singles in zip(quick, alone_ns, strict=True):
            # In the middle: the shortest may be far too short, as what an empty window takes varies and is subtracted.
            whole = statistics.median(singles[_WARM:])
            # A value is copied into its slot, alone as among others, where that was subtracted.
            copying = self._bench.hand_over_ns(lay_out(self._task, case)) if state.built.binding == "value" else 0.0
            alone = whole - copying
            if took[case.name] < least_ns(alone, limits):
                words = f"a call took {took[case.name] / 1e3:.1f} us among others and {alone / 1e3:.1f} us alone"
                raise integrity(rules.BATCHED, f"{case.name}: {words}: they were not made one by one")

    def _below_practical_floor(self, times: Times, place: int) -> list[str]:
        """Return in words on which cases the program is faster than the task's author thinks anything is."""
        found = []
        for index, case in enumerate(self._cases):
            floor_ns = self._oracle.practical_ns(case)
            took_ns = times.usual_ns(place, index)
            if floor_ns is not None and took_ns < floor_ns:
                found.append(
                    f"{case.name}: {took_ns / 1e3:.1f} us is below the practical floor of {floor_ns / 1e3:.1f} us"
                )
        return found

    def _check_descriptors(self, times: Times, place: int) -> None:
        more = times.descriptors.get(place, 0)
        if self._job.effort == "certify" and more > 0 and rules.DESCRIPTORS not in self._off:
            raise integrity(rules.DESCRIPTORS, f"{more} more files were open at the end than after loading")
