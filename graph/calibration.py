"""Calibration: how the gains that the world model predicted compare with those that were measured. Pure."""

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from evaluators.objective import Record
from graph.world_model import WorldModel

PRIOR_POINTS = 4
"""How many points without any error the correction starts from: with as many real ones it goes half of the way."""


Gain = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class CalibrationPoint:
    """One settled cycle whose intent predicted a gain. A dataclass, since thousands are made anew in every round."""

    node: str
    predicted: Gain
    """Predicted objective / parent's objective, in the goal's direction."""
    measured: Gain | None
    """Measured objective / parent's objective; None when no program of the cycle passed."""

    @property
    def log_error(self) -> float | None:
        """ln(predicted / measured): above 0, the prediction was too high; None when no program passed."""
        return None if self.measured is None else math.log(self.predicted) - math.log(self.measured)


class Calibration(Record):
    """Predicted against measured gain of every settled cycle that had a prediction, in the tree's order."""

    points: tuple[CalibrationPoint, ...] = ()

    @property
    def log_errors(self) -> tuple[float, ...]:
        """The log error of every point whose cycle found a passing program."""
        return tuple(error for point in self.points if (error := point.log_error) is not None)

    @property
    def count(self) -> int:
        """How many predictions have been put to the test, those of failed cycles included."""
        return len(self.points)

    @property
    def bias(self) -> float | None:
        """Mean of ln(predicted / measured): 0.1 means predictions are 10 % too high; None without a measured gain."""
        errors = self.log_errors
        return math.fsum(errors) / len(errors) if errors else None

    @property
    def error(self) -> float | None:
        """Mean of |ln(predicted / measured)|; None without a measured gain."""
        errors = self.log_errors
        return math.fsum(map(abs, errors)) / len(errors) if errors else None

    @property
    def failed_share(self) -> float | None:
        """Share of the predictions whose cycle found no passing program; None without points."""
        return (self.count - len(self.log_errors)) / self.count if self.points else None

    @property
    def log_correction(self) -> float | None:
        """What to add to ln(predicted) to correct it (see `corrected`); None without a measured gain."""
        errors = self.log_errors
        return -math.fsum(errors) / (len(errors) + PRIOR_POINTS) if errors else None

    def corrected(self, predicted: float) -> float:
        """Return `predicted` freed of the mean bias, as far as the number of points supports it.

        corrected = predicted * exp(-bias * n / (n + PRIOR_POINTS)), with n measured gains. This is the posterior mean
        of a constant log bias under a normal prior around 0 that weighs as much as PRIOR_POINTS points: no points, no
        correction. Failures are not in it; `failed_share` tells of them.
        """
        return predicted * math.exp(self.log_correction or 0.0)


def calibrate(model: WorldModel) -> Calibration:
    """Return the calibration that the tree's evidence amounts to.

    Left out: cycles without a prediction, cycles that the budget cut short, and passing ones whose parent was not
    measured (there is no gain to compare with).
    """
    points = []
    for node in model.nodes:
        for evidence in node.evidence:
            if evidence.predicted_gain is None or evidence.cut_short:
                continue
            if evidence.gain is None and evidence.objective is not None:
                continue
            points.append(CalibrationPoint(node=node.id, predicted=evidence.predicted_gain, measured=evidence.gain))
    return Calibration(points=tuple(points))
