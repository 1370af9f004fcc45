"""Whether a program's outputs are right, by the task's tolerance."""

import torch

from evaluators.worker.failure import CandidateFailure
from evaluators.worker.job import TaskSpec
from evaluators.worker.oracle import Example
from evaluators.worker.slots import Bytes, Slots
from evaluators.worker.status import Status
from evaluators.worker.tolerance import Rule, compare


def judge(task: TaskSpec, arena: Slots, outputs: dict[str, Bytes], example: Example) -> float:
    """Return the worst error of `outputs` (name -> bytes), as a share of what the tolerance allows.

    Raises CandidateFailure: wrong_values (elements never written, or wrong) or non_finite.
    """
    rule = tolerance_rule(task)
    worst = 0.0
    for field in arena.layout.outputs:
        data, expected = outputs[field.name], example.expected[field.name]
        found = compare(rule, _tensor(data, expected), expected)
        if found.status is not Status.PASSED:
            unwritten = arena.unwritten(data, field)
            if unwritten:
                message = f"{field.name}: {unwritten} of {expected.numel()} elements were never written"
                raise CandidateFailure(Status.WRONG_VALUES, message)
            raise CandidateFailure(found.status, f"{field.name}: {found.message}")
        worst = max(worst, found.worst)
    return worst


def tolerance_rule(task: TaskSpec) -> Rule:
    """Return the task's tolerance."""
    return Rule(task.rtol, task.atol, task.rule, task.matched, task.normalised)


def _tensor(data: Bytes, like: torch.Tensor) -> torch.Tensor:
    raw = data if isinstance(data, torch.Tensor) else torch.from_numpy(data)
    return raw.view(like.dtype).view(like.shape)
