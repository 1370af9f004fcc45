"""Records to the plain data of jobs, and plain verdicts back to records."""

from collections.abc import Sequence
from typing import Any, get_args

from evaluators.adapters.wrapping import wrapped
from evaluators.errors import TaskError
from evaluators.evaluation import (
    Comparison,
    Effort,
    Environment,
    Evaluation,
    Measurement,
    Pair,
    Tier,
    WorkloadResult,
)
from evaluators.objective import Value
from evaluators.protocols import PROTOCOLS
from evaluators.solution import Solution
from evaluators.task import Scalar, Task, Tensor
from evaluators.worker import flags
from evaluators.worker.job import (
    Argument,
    Case,
    CaseVerdict,
    Figure,
    Job,
    PairVerdict,
    Program,
    ProgramVerdict,
    TaskSpec,
    Verdict,
    decode,
    encode,
)
from evaluators.worker.status import Status

_PYTHON = {("python", "dps"), ("python", "value")}
_CALLED = {
    "cpu": {("cpp", "plain_c"), *_PYTHON},
    "cuda": {("cuda", "plain_c"), ("cuda", "torch"), ("triton", "dps"), ("triton", "value"), *_PYTHON},
}
"""Device -> languages with the bindings in which their programs are called there."""


def reject_unsupported(task: Task, programs: Sequence[Solution]) -> None:
    """Raise TaskError when the task or a program is not for this evaluator."""
    if task.objective.name != "ratio" and task.objective.unit not in ("s", "ms", "us", "ns"):
        raise TaskError(f"task {task.name}: objective.unit {task.objective.unit!r} is neither a time nor a ratio's")
    for program in programs:
        contract = task.contracts.get(program.language)
        if contract is not None and contract.wrapper:
            continue
        called = _CALLED[task.device]
        if (program.language, program.binding) not in called:
            device = {"cpu": "a CPU", "cuda": "a GPU"}[task.device]
            raise TaskError(
                f"task {task.name}: {program.language} programs with binding {program.binding} are not called on "
                f"{device}; possible are {', '.join(sorted(f'{language}/{how}' for language, how in called))}"
            )


def job_data(task: Task, programs: Sequence[Solution], effort: Effort, rules_off: Sequence[str]) -> dict[str, Any]:
    """Return the job for these programs as plain data."""
    return encode(Job(_spec(task), tuple(_program(task, program) for program in programs), effort, tuple(rules_off)))


def task_data(task: Task) -> dict[str, Any]:
    """Return a job's task as plain data."""
    return encode(_spec(task))


def _spec(task: Task) -> TaskSpec:
    return TaskSpec(
        name=task.named,
        digest=task.digest,
        axes=task.axes,
        inputs=tuple(_argument(name, tensor) for name, tensor in task.inputs.items()),
        outputs=tuple(_argument(name, tensor) for name, tensor in task.outputs.items()),
        cases=tuple(
            Case(
                workload.name,
                workload.split == "held_out",
                dict(task.sizes(workload)),
                dict(workload.params),
                workload.timed,
            )
            for workload in task.workloads
        ),
        rtol=task.tolerance.rtol,
        atol=task.tolerance.atol,
        matched=task.tolerance.matched,
        objective=task.objective.name,
        goal=task.objective.goal,
        unit=task.objective.unit,
        aggregate=task.objective.aggregate,
        reference=task.reference,
        timeout_s=task.timeout_s,
        device=task.device,
        workloads_at=task.workloads_at,
        rule=task.tolerance.rule,
        normalised=task.tolerance.normalised,
    )


def evaluation(task: Task, programs: Sequence[Solution], effort: Effort, answer: dict[str, Any]) -> Evaluation:
    """Return the first program's evaluation; a second one is its rival."""
    verdict = decode(Verdict, answer["verdict"])
    environment = Environment(**answer["environment"])
    record = _evaluation(task, programs[0], effort, verdict.programs[0], environment)
    if len(programs) == 1:
        return record
    pair = next(iter(verdict.pairs), None)
    if pair is not None:
        return record.model_copy(update={"versus_rival": _value(pair.ratio)})
    rival = verdict.programs[1]
    if rival.status is Status.PASSED:
        return record
    note = f"not compared: the rival was {rival.status.value} ({rival.message})"
    return record.model_copy(update={"notes": (*record.notes, note)})


def comparison(task: Task, programs: Sequence[Solution], effort: Effort, answer: dict[str, Any]) -> Comparison:
    """Return what became of several programs."""
    verdict = decode(Verdict, answer["verdict"])
    environment = Environment(**answer["environment"])
    return Comparison(
        task=task.digest,
        protocol=PROTOCOLS[task.device],
        evaluations=tuple(
            _evaluation(task, program, effort, result, environment)
            for program, result in zip(programs, verdict.programs, strict=True)
        ),
        pairs=tuple(_pair(programs, pair) for pair in verdict.pairs),
        environment=environment,
    )


def _argument(name: str, argument: Tensor | Scalar) -> Argument:
    if isinstance(argument, Scalar):
        return Argument(name, argument.scalar, None)
    return Argument(name, argument.dtype, argument.shape)


def _program(task: Task, solution: Solution) -> Program:
    declared = solution.flags
    contract = task.contracts.get(solution.language)
    if contract is not None and contract.wrapper:
        return _wrapped(task, solution, contract.wrapper)
    if not declared and solution.language in flags.DEFAULTS:
        declared = contract.flags if contract is not None and contract.flags else flags.DEFAULTS[solution.language]
    return Program(
        digest=solution.digest,
        files=dict(solution.files),
        main_file=solution.main_file,
        language=solution.language,
        entry_point=solution.entry_point,
        binding=solution.binding,
        flags=declared,
    )


def _wrapped(task: Task, solution: Solution, wrapper: str) -> Program:
    files, main_file, entry_point = wrapped(solution, wrapper)
    return Program(
        digest=solution.digest,
        files={**task.files, **files},
        main_file=main_file,
        language=solution.language,
        entry_point=entry_point,
        binding="value",
        flags=(),
    )


def _evaluation(
    task: Task, solution: Solution, effort: Effort, verdict: ProgramVerdict, environment: Environment
) -> Evaluation:
    tier: Tier = next(tier for tier in get_args(Tier) if tier == verdict.tier)
    return Evaluation(
        status=verdict.status,
        tier=tier,
        solution=solution.digest,
        task=task.digest,
        effort=effort,
        protocol=PROTOCOLS[task.device],
        message=verdict.message,
        log=verdict.log,
        rule=verdict.rule,
        objective=None if verdict.objective is None else _value(verdict.objective),
        workloads=tuple(_workload(case) for case in verdict.cases),
        doubt=verdict.doubt,
        environment=environment,
        notes=(*verdict.notes, *task.notes),
        build_s=verdict.build_s,
        device_s=verdict.device_s,
        wall_s=verdict.wall_s,
    )


def _workload(case: CaseVerdict) -> WorkloadResult:
    timed = case.timed
    measurement = None
    if timed is not None:
        measurement = Measurement(
            baseline_ms=timed.baseline_ms,
            candidate_ms=timed.candidate_ms,
            ratio=_value(timed.ratio),
            estimates=timed.estimates,
            repeats=timed.repeats,
        )
    return WorkloadResult(
        workload=case.case,
        status=case.status,
        message=case.message,
        worst_error=case.worst_error,
        measurement=measurement,
    )


def _pair(programs: Sequence[Solution], pair: PairVerdict) -> Pair:
    return Pair(a=programs[pair.a].digest, b=programs[pair.b].digest, ratio=_value(pair.ratio))


def _value(figure: Figure) -> Value:
    return Value(value=figure.value, low=figure.low, high=figure.high)
