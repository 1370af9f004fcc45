"""`cassette:FILE`: an evaluator that measures nothing and returns what a recorded run measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluators.evaluation import Comparison, Effort, Environment, Evaluation
from evaluators.recording import Cassette, CassetteMiss, Place, evaluation_digest, load_cassette
from evaluators.solution import Solution
from evaluators.task import Task


@dataclass(frozen=True)
class CassetteEvaluator:
    """Implements evaluators.evaluator.Evaluator by a recording, found by task, program, effort and rival.

    A program that was measured twice has two figures in the recording: `at` tells which is meant.

    Raises (every method but `close`): CassetteMiss, naming the request.
    """

    cassette: Cassette
    place: Place | None = None
    """Where in the search it is asked; None: unknown, the first figure of the program holds."""

    @staticmethod
    def load(file: Path) -> "CassetteEvaluator":
        """Return the evaluator of a recording. Raises UsageError when the file is none."""
        return CassetteEvaluator(load_cassette(file))

    def at(self, place: Place) -> "CassetteEvaluator":
        """Return the same evaluator as it is asked at one place in the search."""
        return CassetteEvaluator(self.cassette, place)

    async def evaluate(
        self, task: Task, solution: Solution, effort: Effort, rival: Solution | None = None
    ) -> Evaluation:
        """Return the recorded verdict on exactly this program."""
        digest = evaluation_digest(task, solution, effort, rival)
        entry = None if self.place is None else self.cassette.find("evaluation", self.place, digest)
        entry = entry or self.cassette.anywhere("evaluation", digest)
        if entry is None:
            against = "" if rival is None else f" against {rival.digest[:12]}"
            where = "" if self.place is None else f" ({self.place})"
            raise CassetteMiss(
                f"{self.cassette.file} holds no evaluation of program {solution.digest[:12]}{against} for task "
                f"{task.name} {task.digest[:12]} with effort {effort}{where}"
            )
        return Evaluation.model_validate(entry.result)

    async def compare(self, task: Task, solutions: Sequence[Solution], effort: Effort) -> Comparison:
        """Raise CassetteMiss: comparisons are no part of a search, and none are recorded."""
        raise CassetteMiss(f"{self.cassette.file} holds no comparisons: compare programs with a real evaluator")

    def protocol(self, task: Task) -> str:
        """Return the protocol of the first recorded evaluation."""
        return self._first().protocol

    async def environment(self) -> Environment:
        """Return the environment of the first recorded evaluation."""
        return self._first().environment or Environment(device="", torch="")

    async def close(self) -> None:
        """Do nothing: there are no processes."""

    def _first(self) -> Evaluation:
        for entry in self.cassette.entries:
            if entry.kind == "evaluation":
                evaluation = Evaluation.model_validate(entry.result)
                if evaluation.environment is not None:
                    return evaluation
        raise CassetteMiss(f"{self.cassette.file} holds no evaluation, so no environment either")
