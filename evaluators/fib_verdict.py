"""FlashInfer-Bench's protocol: its rule and its way of timing, each program and workload in a confined process."""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from evaluators.adapters.driver_source import driver_files
from evaluators.adapters.flashinfer.importing import folder_of
from evaluators.adapters.flashinfer.protocol import CALLED
from evaluators.answers import pairs_of
from evaluators.confined import RUNS, Confined, Question
from evaluators.errors import TaskError
from evaluators.evaluation import Comparison, Effort, Environment, Evaluation
from evaluators.fib_figures import REPEATS, TRIALS, Found, ratio, record, reject_task
from evaluators.isolation import Answer, IsolatedFailure
from evaluators.protocols import FIB
from evaluators.solution import Solution
from evaluators.task import Task, Tensor, Workload


class FibVerdicts:
    """Judges programs of tasks with verdict `fib`. Use it from one event loop.

    A program goes through the workloads until it fails on one. Certification judges it three times, in shuffled order,
    and checks it on the held-out workloads.
    """

    def __init__(self, environment: Callable[[], Awaitable[Environment]]) -> None:
        """Nothing starts until the first program. `environment` tells what figures depend on."""
        self._confined = Confined()
        self._environment = environment

    async def evaluate(
        self, task: Task, solution: Solution, effort: Effort, rival: Solution | None = None
    ) -> Evaluation:
        """See `Evaluator`. With `rival`, both are judged in turn on each workload."""
        programs = [solution] if rival is None else [solution, rival]
        found = await self._judged(task, programs, effort, held_out=1)
        verdict = record(task, solution, effort, found[0], await self._environment())
        if rival is None or found[1].failed is not None or verdict.objective is None:
            return verdict
        return verdict.model_copy(update={"versus_rival": ratio(task, found[0], found[1])})

    async def compare(self, task: Task, solutions: Sequence[Solution], effort: Effort) -> Comparison:
        """See `Evaluator`. The programs are judged in turn on each workload."""
        found = await self._judged(task, solutions, effort, held_out=len(solutions))
        environment = await self._environment()
        verdicts = tuple(
            record(task, solution, effort, said, environment) for solution, said in zip(solutions, found, strict=True)
        )
        pairs = pairs_of(verdicts, lambda a, b: ratio(task, found[a], found[b]))
        return Comparison(task=task.digest, protocol=FIB, evaluations=verdicts, pairs=pairs, environment=environment)

    def protocol(self, task: Task) -> str:
        """See `Evaluator`."""
        return FIB

    async def environment(self) -> Environment:
        """See `Evaluator`."""
        return await self._environment()

    async def close(self) -> None:
        """End the processes. It can be used again."""
        await self._confined.close()

    async def _judged(self, task: Task, programs: Sequence[Solution], effort: Effort, *, held_out: int) -> list[Found]:
        """Judge the programs on the search workloads, and the first `held_out` of them on the others."""
        _reject_unsupported(task, programs)
        found = [Found() for _ in programs]
        async with self._confined.busy:
            for _ in range(RUNS[effort]):
                for workload in _ordered(task.split("search"), effort):
                    await self._on(task, workload, programs, found, timed=workload.timed and effort != "check")
            for workload in task.split("held_out") if effort == "certify" else ():
                await self._on(task, workload, programs[:held_out], found[:held_out], timed=False)
        return found

    async def _on(
        self, task: Task, workload: Workload, programs: Sequence[Solution], found: Sequence[Found], *, timed: bool
    ) -> None:
        """Judge every program that has not failed on one workload, all on the same inputs."""
        seeds = [secrets.randbelow(2**62) for _ in range(TRIALS)]
        for program, said in zip(programs, found, strict=True):
            if said.failed is not None:
                continue
            try:
                await self._ask(task, workload, program, seeds, said, timed=timed)
            except IsolatedFailure as failure:
                said.fail(workload, failure)

    async def _ask(
        self, task: Task, workload: Workload, program: Solution, seeds: Sequence[int], said: Found, *, timed: bool
    ) -> None:
        """Judge a program on one workload. Raises TaskError, and IsolatedFailure when the program failed.

        A process in which a program ran is not believed when it blames the task; and one that did not come to its end
        may have been stopped by the reference or the baseline. Both are settled by a process without a program.
        """
        request = _request(task, workload, program, seeds, timed=timed)
        try:
            answer = await self._run(task, request, task.timeout_s, timed=timed)
        except IsolatedFailure:
            await self._ask_alone(task, workload, request, said, timed=timed)
            raise
        said.wall_s += answer.wall_s
        if isinstance(answer.value, dict) and "task" in answer.value:
            await self._ask_alone(task, workload, request, said, timed=timed)
        said.add(workload, answer.value, timed=timed)

    async def _ask_alone(
        self, task: Task, workload: Workload, request: Mapping[str, Any], said: Found, *, timed: bool
    ) -> None:
        """Raise TaskError unless reference and baseline work on the same inputs, within half of a program's limit."""
        limit_s = task.timeout_s / 2
        try:
            alone = await self._run(task, {**request, "program": None}, limit_s, timed=timed)
        except IsolatedFailure as failure:
            raise TaskError(
                f"task {task.named} on {workload.name}: its reference and baseline fail without a program, within half "
                f"of a program's limit: {failure.message}"
            ) from failure
        said.wall_s += alone.wall_s
        reject_task(task, workload, alone.value)

    async def _run(self, task: Task, request: Mapping[str, Any], timeout_s: float, *, timed: bool) -> Answer:
        folder = folder_of(task)
        question = Question("fib", request, driver_files(worker=("tolerance",)), () if folder is None else (folder,))
        return await self._confined.ask(task.device, question, timeout_s, "alone" if timed else "shared")


def _reject_unsupported(task: Task, programs: Sequence[Solution]) -> None:
    for program in programs:
        if program.language not in task.contracts or program.binding not in CALLED:
            raise TaskError(
                f"task {task.name}: {program.language} programs with binding {program.binding} are not called under "
                f"protocol=fib; possible are {', '.join(task.contracts)} with {' or '.join(CALLED)}"
            )


def _ordered(workloads: Sequence[Workload], effort: Effort) -> list[Workload]:
    ordered = list(workloads)
    if effort == "certify":
        secrets.SystemRandom().shuffle(ordered)
    return ordered


def _request(task: Task, workload: Workload, program: Solution, seeds: Sequence[int], *, timed: bool) -> dict[str, Any]:
    sizes, rule = task.sizes(workload), task.tolerance
    return {
        "reference": task.reference,
        "case": {"axes": dict(sizes), "params": dict(workload.params)},
        "inputs": list(task.inputs),
        "outputs": [_output(name, tensor, sizes) for name, tensor in task.outputs.items()],
        "rule": [rule.rtol, rule.atol, rule.rule, rule.matched, rule.normalised],
        "program": {
            "files": dict(program.files),
            "main": program.main_file,
            "entry_point": program.entry_point,
            "binding": program.binding,
        },
        "seeds": list(seeds),
        "device": task.device,
        "timed": timed,
        "repeats": REPEATS,
    }


def _output(name: str, tensor: Tensor, sizes: Mapping[str, int]) -> dict[str, Any]:
    return {"name": name, "dtype": tensor.dtype, "shape": [sizes[axis] for axis in tensor.shape]}
