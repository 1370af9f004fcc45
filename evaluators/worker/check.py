"""The correctness check of one program: two calls per case on one address, with new secret inputs each time."""

from dataclasses import dataclass, field, replace
from typing import Any

from evaluators.worker import rules
from evaluators.worker.arena import random_output_offsets
from evaluators.worker.bench import Bench
from evaluators.worker.build import Built
from evaluators.worker.failure import CandidateFailure, integrity
from evaluators.worker.job import Case, CaseVerdict, TaskSpec
from evaluators.worker.judge import judge
from evaluators.worker.layout import lay_out
from evaluators.worker.oracle import Example, Oracle
from evaluators.worker.session import Session, Workshop
from evaluators.worker.slots import Bytes, Slots
from evaluators.worker.status import Status

_SAMPLES = 64


@dataclass
class Checked:
    """What a check found: a verdict per case, stopping at the first failure, and how long calls took."""

    verdicts: list[CaseVerdict] = field(default_factory=list)
    call_ns: list[int] = field(default_factory=list)
    """Shortest processor time of one call, per case that was called."""
    failure: CandidateFailure | None = None
    failed_case: str = ""
    threads: list[str] = field(default_factory=list)
    """Further threads that were seen right after the last call: when it has been judged they may be gone."""
    started_s: float = 0.0
    """How long the device's context took to start."""


@dataclass
class _Taken:
    """One answered call: its outputs as they were at the answer."""

    case: Case
    arena: Slots
    example: Example
    outputs: dict[str, Bytes]
    problem: CandidateFailure | None
    place: Any
    sample: Bytes


@dataclass(frozen=True)
class Checks:
    """What every check of one task needs."""

    shop: Workshop
    bench: Bench
    task: TaskSpec
    oracle: Oracle
    off: set[str]
    """Rules that are not applied."""


def check(checks: Checks, built: Built, cases: list[Case]) -> Checked:
    """Run the check of `built` on `cases`. Raises TaskFault.

    Each case is judged when it has been called, from copies of its outputs; the first that is wrong ends the check.
    """
    layouts = [lay_out(checks.task, case) for case in cases]
    held_bytes = sum(layout.stride for layout in layouts)
    session = Session(checks.shop, checks.task, built, held_bytes, results=built.binding == "value")
    checked, arenas, answered = Checked(), list[Slots](), list[_Taken]()
    running = ""
    try:
        session.load()
        checked.started_s = session.started_s
        for index, case in enumerate(cases):
            running = case.name
            arenas.append(checks.bench.slots(layouts[index], 1))
            session.set_up(index, case, arenas[-1])
            _check_case(session, checks, index, case, arenas[-1], checked, answered)
        running = ""
        _hygiene(session, checks.bench, checks.off, checked.threads)
    except _Wrong as wrong:
        failure = _integrity_first(session, checks, wrong.failure, checked.threads)
        checked.failure, checked.failed_case = failure, running
    except CandidateFailure as failure:
        checked.failure, checked.failed_case = failure, running
    finally:
        session.end()
    if checked.failure is None:
        _still_the_same(checked, answered, checks.off)
    if checked.failure is not None and checked.failed_case:
        end = checked.failure
        checked.verdicts = [verdict for verdict in checked.verdicts if verdict.case != checked.failed_case]
        checked.verdicts.append(CaseVerdict(checked.failed_case, end.status, end.message))
    for arena in arenas:
        arena.close()
    return checked


class _Wrong(Exception):
    """An answered call was wrong."""

    def __init__(self, failure: CandidateFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _check_case(
    session: Session,
    checks: Checks,
    index: int,
    case: Case,
    arena: Slots,
    checked: Checked,
    answered: list[_Taken],
) -> None:
    """Call twice, then judge both; what was answered wrongly comes before what stopped a later call."""
    taken: list[_Taken] = []
    try:
        checked.call_ns.append(_call_twice(session, checks, index, case, arena, taken))
        checked.threads = checks.bench.further_threads(session)
    except CandidateFailure as failure:
        if failure.status is not Status.INTEGRITY:
            _judge(checks, taken)
        raise
    worst = _judge(checks, taken)
    checked.verdicts.append(CaseVerdict(case.name, Status.PASSED, worst_error=worst))
    answered[:] = [replace(taken[-1], outputs={})]


def _judge(checks: Checks, taken: list[_Taken]) -> float:
    """Return the worst error of answered calls. Raises _Wrong."""
    worst = 0.0
    for call in taken:
        try:
            if call.problem is not None:
                raise call.problem
            worst = max(worst, judge(checks.task, call.arena, call.outputs, call.example))
        except CandidateFailure as failure:
            raise _Wrong(failure) from failure
    return worst


def _integrity_first(session: Session, checks: Checks, failure: CandidateFailure, seen: list[str]) -> CandidateFailure:
    """Return the rule that a program with wrong outputs has broken besides, if it has, else what it got wrong."""
    try:
        _hygiene(session, checks.bench, checks.off, seen)
    except CandidateFailure as broken:
        return broken if broken.status is Status.INTEGRITY else failure
    return failure


def _call_twice(session: Session, checks: Checks, index: int, case: Case, arena: Slots, taken: list[_Taken]) -> int:
    fastest = 0
    for _ in range(2):
        example = checks.oracle.example(case)
        took = call_once(session, checks.bench, index, arena, example)
        answer = _take(case, arena, example)
        session.collect(check=True)
        taken.append(answer)
        if fastest == 0:
            # What the first call on a case starts may be a compiler's, which then sleeps.
            session.know_threads()
        fastest = took if fastest == 0 else min(fastest, took)
    return fastest


def call_once(session: Session, bench: Bench, index: int, arena: Slots, example: Example) -> int:
    """Fill the only slot of a case and call on it; return what that took, nanoseconds.

    What it answered must be taken from the slot before anything is collected.
    """
    bench.filling(arena, [example])()
    session.prepare(index)
    empty = session.empty_ns(index, 1) if bench.by_wall_clock else 0
    window = session.call(index, [0])
    bench.rest()
    return max(1, window.cpu_ns - empty)


def _take(case: Case, arena: Slots, example: Example) -> _Taken:
    place = arena.locate([0], random_output_offsets(arena.layout, _SAMPLES))
    outputs = arena.snapshot(0)
    return _Taken(case, arena, example, outputs, _trespass(arena, example), place, arena.sample(place))


def _trespass(arena: Slots, example: Example) -> CandidateFailure | None:
    changed = arena.changed_input(0, example)
    if changed is not None:
        return CandidateFailure(Status.MUTATED_INPUT, f"the program wrote to its input {changed}")
    overrun = arena.overrun()
    if overrun:
        return CandidateFailure(Status.ILLEGAL_ACCESS, f"{overrun} bytes outside the arguments were overwritten")
    return None


def _hygiene(session: Session, bench: Bench, off: set[str], seen: list[str]) -> None:
    patched = session.patched()
    if patched and rules.PATCHED not in off:
        message = f"the program replaced {', '.join(patched)}"
        raise integrity(rules.PATCHED, message)
    others = session.child.others(alone=True)
    if others and rules.CHILDREN not in off:
        message = f"{others} more processes were running after the last call"
        raise integrity(rules.CHILDREN, message)
    threads = bench.further_threads(session) or seen
    if threads and rules.THREADS not in off:
        message = f"{len(threads)} more threads ({', '.join(threads)}) were running after the last call"
        raise integrity(rules.THREADS, message)


def _still_the_same(checked: Checked, answered: list[_Taken], off: set[str]) -> None:
    """See whether the outputs of the last call are still what they were when it was answered."""
    if not answered or rules.DEFERRED in off:
        return
    last = answered[-1]
    if (last.arena.sample(last.place) != last.sample).any():
        checked.failure = integrity(rules.DEFERRED, "an output changed after its call had been answered")
        checked.failed_case = last.case.name
