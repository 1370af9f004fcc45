"""The correctness check of one program: two calls per case on one address, with new secret inputs each time."""

from dataclasses import dataclass, field

from evaluators.worker import descendants, rules
from evaluators.worker.arena import Arena, random_output_offsets
from evaluators.worker.build import Built
from evaluators.worker.failure import CandidateFailure, integrity
from evaluators.worker.job import Case, CaseVerdict, TaskSpec
from evaluators.worker.judge import judge
from evaluators.worker.layout import lay_out
from evaluators.worker.oracle import Bytes, Example, Oracle
from evaluators.worker.session import Session, Workshop
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


@dataclass
class _Taken:
    """One answered call: its outputs as they were at the answer."""

    case: Case
    arena: Arena
    example: Example
    outputs: dict[str, Bytes]
    problem: CandidateFailure | None
    offsets: list[int]
    sample: Bytes


def check(shop: Workshop, task: TaskSpec, oracle: Oracle, built: Built, cases: list[Case], off: set[str]) -> Checked:
    """Run the check of `built` on `cases`; the rules in `off` are not applied. Raises TaskFault."""
    layouts = [lay_out(task, case) for case in cases]
    session = Session(shop, task, built, sum(layout.stride for layout in layouts))
    checked, taken, arenas = Checked(), list[_Taken](), list[Arena]()
    running = ""
    try:
        session.load()
        for index, case in enumerate(cases):
            running = case.name
            arenas.append(Arena(layouts[index], 1))
            session.set_up(index, case, arenas[-1])
            checked.call_ns.append(_call_twice(session, oracle, index, case, arenas[-1], taken))
        running = ""
        _hygiene(session, off)
    except CandidateFailure as failure:
        checked.failure, checked.failed_case = failure, running
    finally:
        session.end()
    _judge_all(task, checked, taken, off)
    for arena in arenas:
        arena.close()
    return checked


def _call_twice(session: Session, oracle: Oracle, index: int, case: Case, arena: Arena, taken: list[_Taken]) -> int:
    fastest = 0
    for _ in range(2):
        example = oracle.example(case)
        arena.fill(0, example)
        session.prepare(index)
        window = session.call(index, [0])
        session.collect(copy=session.returns)
        taken.append(_take(case, arena, example))
        fastest = window.cpu_ns if fastest == 0 else min(fastest, window.cpu_ns)
    return fastest


def _take(case: Case, arena: Arena, example: Example) -> _Taken:
    offsets = random_output_offsets(arena.layout, _SAMPLES)
    outputs = {output.name: arena.output_bytes(0, output).copy() for output in arena.layout.outputs}
    return _Taken(case, arena, example, outputs, _trespass(arena, example), offsets, arena.sample([0], offsets))


def _trespass(arena: Arena, example: Example) -> CandidateFailure | None:
    changed = arena.changed_input(0, example)
    if changed is not None:
        return CandidateFailure(Status.MUTATED_INPUT, f"the program wrote to its input {changed}")
    overrun = arena.overrun()
    if overrun:
        return CandidateFailure(Status.ILLEGAL_ACCESS, f"{overrun} bytes outside the arguments were overwritten")
    return None


def _hygiene(session: Session, off: set[str]) -> None:
    patched = session.patched()
    if patched and rules.PATCHED not in off:
        message = f"the program replaced {', '.join(patched)}"
        raise integrity(rules.PATCHED, message)
    others = session.child.others(alone=True)
    if others and rules.CHILDREN not in off:
        message = f"{others} more processes were running after the last call"
        raise integrity(rules.CHILDREN, message)
    threads = descendants.threads(session.child.pid)
    if threads > 1 and rules.THREADS not in off:
        message = f"{threads - 1} more threads were running after the last call"
        raise integrity(rules.THREADS, message)


def _judge_all(task: TaskSpec, checked: Checked, taken: list[_Taken], off: set[str]) -> None:
    """Judge the answered calls in order; what they got wrong comes before what stopped the run later."""
    worst: dict[str, float] = {}
    for call in taken:
        try:
            if call.problem is not None:
                raise call.problem
            error = judge(task, call.arena, call.outputs, call.example)
            worst[call.case.name] = max(error, worst.get(call.case.name, 0.0))
        except CandidateFailure as failure:
            if checked.failure is None or checked.failure.status is not Status.INTEGRITY:
                checked.failure, checked.failed_case = failure, call.case.name
            break
    if checked.failure is None and taken and rules.DEFERRED not in off:
        last = taken[-1]
        if (last.arena.sample([0], last.offsets) != last.sample).any():
            message = "an output changed after its call had been answered"
            checked.failure = integrity(rules.DEFERRED, message)
            checked.failed_case = last.case.name
    for name, error in worst.items():
        if name != checked.failed_case:
            checked.verdicts.append(CaseVerdict(name, Status.PASSED, worst_error=error))
    end = checked.failure
    if end is not None and checked.failed_case:
        checked.verdicts.append(CaseVerdict(checked.failed_case, end.status, end.message))
