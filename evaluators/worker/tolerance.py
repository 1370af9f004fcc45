"""Whether a tensor is right: a rule for each element, the share that must match, a limit on all of the error."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from evaluators.worker.status import Status

_WORST = 1e9
_ROUNDING = 1e-6
"""Of a share of so many elements as a tensor has."""
_TINY = 1e-8
"""Added to |expected| in a relative error of the rule `either`."""


@dataclass(frozen=True)
class Rule:
    """When a tensor is right; the fields are those of `evaluators.task.Tolerance`."""

    rtol: float
    atol: float
    kind: str = "sum"
    matched: float = 1.0
    normalised: float | None = None


@dataclass(frozen=True)
class Finding:
    """What a comparison found. `status` is PASSED, NON_FINITE or WRONG_VALUES."""

    status: Status
    worst: float
    """Largest error of the elements that match, as a share of what is allowed; of all where one is wrong."""
    matched: float
    """Share of the elements that match."""
    normalised: float
    """RMS of the error / standard deviation of the expected values; 0 where those are all alike or not finite."""
    message: str = ""


def compare(rule: Rule, got: torch.Tensor, expected: torch.Tensor) -> Finding:
    """Return what `rule` says of `got` against `expected`, both of one shape, dtype and device."""
    if expected.numel() == 0:
        return Finding(Status.PASSED, 0.0, 1.0, 0.0)
    wide = _widened(rule, got, expected)
    worst = _worst(rule, *wide)
    if worst > 1.0 or math.isnan(worst):
        return look_closer(rule, got, expected)
    return _together(rule, worst, 1.0, 0.0 if rule.normalised is None else _normalised(*wide))


def look_closer(rule: Rule, got: torch.Tensor, expected: torch.Tensor) -> Finding:
    """Return the same of any tensors with elements; takes several times as long where nothing is wrong."""
    total = expected.numel()
    broken = _broken(rule, got, expected)
    got, expected = _widened(rule, got, expected)
    wrong, error = _elements(rule, got, expected)
    count = int(wrong.sum())
    normalised = 0.0 if rule.normalised is None else _normalised(got, expected)
    matched = 1.0 - count / total
    if broken:
        message = f"{broken} of {total} elements are not finite"
        return Finding(Status.NON_FINITE, _WORST, matched, normalised, message)
    if count > (1.0 - rule.matched) * total + _ROUNDING:
        message = f"{count} of {total} elements are wrong; {_where(wrong, error, got, expected)}"
        return Finding(Status.WRONG_VALUES, min(float(error.max()), _WORST), matched, normalised, message)
    return _together(rule, min(float(error.masked_fill(wrong, 0.0).max()), _WORST), matched, normalised)


def _together(rule: Rule, worst: float, matched: float, normalised: float) -> Finding:
    """Return what is found where enough elements match: whether all of the error together is small enough, too."""
    if rule.normalised is None:
        return Finding(Status.PASSED, worst, matched, normalised)
    worst = max(worst, min(normalised / rule.normalised, _WORST))
    if normalised <= rule.normalised:
        return Finding(Status.PASSED, worst, matched, normalised)
    message = (
        f"each element is near enough, all together are not: the RMS of the error is {normalised:.3g} of the expected"
        f" values' standard deviation, {rule.normalised:g} is allowed"
    )
    return Finding(Status.WRONG_VALUES, worst, matched, normalised, message)


def _worst(rule: Rule, got: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest error of widened tensors as a share of what is allowed, in as few passes as possible.

    NaN or more than 1 means that something may be wrong: what is not finite, on either side, makes it so, and an
    error that is not allowed does, because a quotient is only rounded to 1 where it is no more than 1.
    """
    if not expected.is_floating_point():
        return 0.0 if torch.equal(got, expected) else math.inf
    return float((got - expected).abs_().div_(_allowed(rule, expected)).amax())


def _broken(rule: Rule, got: torch.Tensor, expected: torch.Tensor) -> int:
    """Return how many values are not finite and must be."""
    if not got.is_floating_point():
        return 0
    broken = ~torch.isfinite(got.to(torch.float32) if got.element_size() == 1 else got)
    if rule.kind == "sum":
        broken &= torch.isfinite(expected.to(torch.float32) if expected.element_size() == 1 else expected)
    return int(broken.sum())


def _widened(rule: Rule, got: torch.Tensor, expected: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both tensors as errors are computed in; whole numbers that must be equal stay what they are."""
    if expected.is_floating_point():
        wide = torch.float64 if expected.dtype == torch.float64 else torch.float32
        return got.to(wide), expected.to(wide)
    if rule.rtol == 0 and rule.atol == 0:
        return _whole(got), _whole(expected)
    return _whole(got).to(torch.float64), expected.to(torch.float64)


def _elements(rule: Rule, got: torch.Tensor, expected: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which elements of widened tensors are wrong, and their errors as a share of what is allowed."""
    if not expected.is_floating_point():
        different = got != expected
        return different, different.to(torch.float32).mul_(_WORST)
    error = (got - expected).abs_()
    allowed = _allowed(rule, expected)
    wrong = ~(error <= allowed)
    if rule.kind == "sum":
        # Where an infinity is expected the error is infinite, and so is what is allowed.
        wrong |= ~torch.isfinite(expected)
    if wrong.any():
        same = (got == expected) | (torch.isnan(got) & torch.isnan(expected))
        wrong &= ~same
        error = error.masked_fill(same, 0.0)
    share = error.div_(allowed)
    share = torch.where(allowed > 0, share, torch.where(wrong, _WORST, 0.0).to(share.dtype))
    return wrong, torch.nan_to_num(share, nan=_WORST, posinf=_WORST)


def _allowed(rule: Rule, expected: torch.Tensor) -> torch.Tensor:
    if rule.kind == "either":
        return expected.abs().add_(_TINY).mul_(rule.rtol).clamp_(min=rule.atol)
    return expected.abs().mul_(rule.rtol).add_(rule.atol)


def _normalised(got: torch.Tensor, expected: torch.Tensor) -> float:
    expected = expected.to(torch.float32)
    spread = expected.std(correction=0)
    if not bool(spread > 0):
        return 0.0
    error = (got.to(torch.float32) - expected).square_().mean().sqrt()
    return float(torch.nan_to_num(error / spread, nan=0.0, posinf=_WORST))


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor


def _where(wrong: torch.Tensor, error: torch.Tensor, got: torch.Tensor, expected: torch.Tensor) -> str:
    flat = int(error.masked_fill(~wrong, -1.0).argmax())
    # By numpy: torch's own loads a computer algebra system first, which takes two seconds, with a GPU held.
    place = [int(index) for index in np.unravel_index(flat, tuple(expected.shape))]
    values = f"got {float(got.reshape(-1)[flat]):.6g}, expected {float(expected.reshape(-1)[flat]):.6g}"
    return f"worst at {place}: {values}"
