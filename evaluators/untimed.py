"""`untimed`: GPU programs judged where there is no GPU, as far as that goes. It never measures a time."""

import re
from collections.abc import Sequence
from pathlib import Path

from evaluators.errors import TaskError, UsageError
from evaluators.evaluation import Comparison, Effort, Environment, Evaluation
from evaluators.jobs import evaluation, job_data
from evaluators.local import LocalEvaluator
from evaluators.solution import Solution
from evaluators.task import Task

PROTOCOL = "untimed-1"
ARCH = "sm_90a"
"""Hopper."""
_LANGUAGES = ("triton", "cuda", "python")


class UntimedEvaluator(LocalEvaluator):
    """Builds programs of GPU tasks for a named architecture and checks them on the CPU where that is possible.

    A program that builds, and is right wherever it could be run, is `not_timed`; the message says what was done, the
    notes what each kernel uses. Any effort brings the same.
    """

    def __init__(self, arch: str = ARCH, scratch: Path | None = None) -> None:
        """Nothing starts until the first job. Raises UsageError when `arch` is not of the form sm_90a."""
        if not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
            raise UsageError(f"architecture {arch!r}: write it as nvcc does, such as sm_80 or sm_90a")
        super().__init__(scratch)
        self.arch = arch

    async def evaluate(
        self, task: Task, solution: Solution, effort: Effort, rival: Solution | None = None
    ) -> Evaluation:
        """Build and check `solution`; a rival is left out, since nothing is timed.

        Raises InfrastructureError when a compiler is missing, TaskError when the task is not for a GPU.
        """
        if task.device != "cuda" or solution.language not in _LANGUAGES:
            raise TaskError(
                f"task {task.name}: `untimed` is for programs in {', '.join(_LANGUAGES)} of GPU tasks; this one is "
                f"{solution.language} for {task.device}"
            )
        job = job_data(task, [solution], effort, ())
        answer = await self._ask({"op": "untimed", "job": job, "arch": self.arch})
        record = evaluation(task, [solution], effort, answer)
        return record.model_copy(update={"protocol": PROTOCOL, "environment": self._named(record.environment)})

    async def compare(self, task: Task, solutions: Sequence[Solution], effort: Effort) -> Comparison:
        """Build and check every program; there are no pairs, since nothing is timed. Raises as `evaluate`."""
        evaluations = tuple([await self.evaluate(task, solution, effort) for solution in solutions])
        return Comparison(
            task=task.digest,
            protocol=PROTOCOL,
            evaluations=evaluations,
            pairs=(),
            environment=evaluations[0].environment if evaluations else None,
        )

    def protocol(self, task: Task) -> str:
        """Return that no time is measured."""
        return PROTOCOL

    async def environment(self) -> Environment:
        """Return the architecture that is built for, and what builds. Raises InfrastructureError."""
        named = self._named(await super().environment())
        assert named is not None
        return named

    def _named(self, environment: Environment | None) -> Environment | None:
        if environment is None:
            return None
        return environment.model_copy(update={"device": f"none, built for {self.arch}"})
