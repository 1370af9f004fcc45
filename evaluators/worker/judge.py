"""Whether an output is right: |got - expected| <= atol + rtol * |expected|, for the share of elements asked for."""

from dataclasses import dataclass

import torch

from evaluators.worker.arena import Arena
from evaluators.worker.failure import CandidateFailure
from evaluators.worker.job import TaskSpec
from evaluators.worker.layout import Field
from evaluators.worker.oracle import Bytes, Example
from evaluators.worker.status import Status

_WORST = 1e9


@dataclass(frozen=True)
class _Difference:
    wrong: torch.Tensor
    error: torch.Tensor


def judge(task: TaskSpec, arena: Arena, outputs: dict[str, Bytes], example: Example) -> float:
    """Return the worst error of `outputs` (name -> bytes), as a share of what the tolerance allows.

    Raises CandidateFailure: wrong_values (elements never written, or wrong) or non_finite.
    """
    worst = 0.0
    for field in arena.layout.outputs:
        got = _tensor(outputs[field.name], example.expected[field.name])
        worst = max(worst, _judge_one(task, arena, field, outputs[field.name], got, example.expected[field.name]))
    return worst


def _judge_one(
    task: TaskSpec, arena: Arena, field: Field, data: Bytes, got: torch.Tensor, expected: torch.Tensor
) -> float:
    difference = _compare(got, expected, task.rtol, task.atol)
    wrong = int(difference.wrong.sum())
    total = expected.numel()
    if wrong <= (1.0 - task.matched) * total:
        right = difference.error.masked_fill(difference.wrong, 0.0)
        return min(float(right.max()), _WORST) if total else 0.0
    unwritten = arena.unwritten(data, field)
    if unwritten:
        message = f"{field.name}: {unwritten} of {total} elements were never written"
        raise CandidateFailure(Status.WRONG_VALUES, message)
    if got.is_floating_point():
        broken = ~torch.isfinite(got) & torch.isfinite(expected)
        if broken.any():
            message = f"{field.name}: {int(broken.sum())} of {total} elements are not finite"
            raise CandidateFailure(Status.NON_FINITE, message)
    raise CandidateFailure(Status.WRONG_VALUES, _words(field, difference, got, expected, wrong))


def _compare(got: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> _Difference:
    if not expected.is_floating_point():
        if rtol == 0 and atol == 0:
            different = _whole(got) != _whole(expected)
            return _Difference(different, different.to(torch.float32).mul_(_WORST))
        got, expected = _whole(got).to(torch.float64), expected.to(torch.float64)
    elif expected.dtype != torch.float64:
        got, expected = got.to(torch.float32), expected.to(torch.float32)
    error = (got - expected).abs_()
    allowed = expected.abs().mul_(rtol).add_(atol)
    wrong = ~(error <= allowed)
    if wrong.any():
        same = (got == expected) | (torch.isnan(got) & torch.isnan(expected))
        wrong &= ~same
        error = error.masked_fill(same, 0.0)
    share = error.div_(allowed)
    share = torch.where(allowed > 0, share, torch.where(wrong, _WORST, 0.0).to(share.dtype))
    return _Difference(wrong, share)


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor


def _words(field: Field, difference: _Difference, got: torch.Tensor, expected: torch.Tensor, wrong: int) -> str:
    error = torch.nan_to_num(difference.error, nan=_WORST, posinf=_WORST).masked_fill(~difference.wrong, -1.0)
    flat = int(error.argmax())
    place = [int(index) for index in torch.unravel_index(torch.tensor(flat), expected.shape)]
    values = f"got {float(got.reshape(-1)[flat]):.6g}, expected {float(expected.reshape(-1)[flat]):.6g}"
    return f"{field.name}: {wrong} of {expected.numel()} elements are wrong; worst at {place}: {values}"


def _tensor(data: Bytes, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(data).view(like.dtype).view(like.shape)
