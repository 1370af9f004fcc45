"""What the measured programs say about the unmeasured ones: a Gaussian process over knob values.

The logarithm of the gain is modelled as a sum over knobs of an effect per value, plus an effect per pair of values.
All effects are normal with mean 0, which shrinks what little is known towards "no change". With k knobs, of which
m(s, t) have the same value in the settings s and t, the covariance of two programs is

    c + a m + b m (m - 1) / 2        with a = (1 - r) / 2 and b = r / (2 (k - 1))

so that turning one knob changes the logarithm by a standard deviation of 1 unit, and pairs account for the share r of
that variance. The unit is learnt: its prior `spread` weighs as much as `spread_weight` measurements.
Source: additive (ANOVA) kernels, Duvenaud et al. 2011, cut after pairs. Beside the normal effects, every pair of values
that no passing program has holds a large surprise with a small probability: values that gain only together exist.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import erf, exp, hypot, pi, sqrt

import numpy as np
from numpy.typing import NDArray

Settings = Mapping[str, str]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Prior:
    """What is assumed before anything is measured. benchmarks/offline_planner.py chose the values."""

    spread: float = 0.15
    """Standard deviation of the logarithm of what turning one knob gains."""
    spread_weight: float = 4.0
    """How many measurements the prior spread counts for."""
    interactions: float = 0.2
    """Share of the variance that pairs of values account for (r above)."""
    nugget: float = 1e-3
    """Variance, in squared units, of what neither effects nor pairs explain."""
    single_failure: float = 10.0
    """How much likelier a failure is due to one value than to one pair of values."""
    repeated_failure: float = 10.0
    """How much likelier a suspect gets with every further failure that has it."""
    surprise_share: float = 0.01
    """Probability that a pair of values that no passing program has holds a surprise, beyond the normal effects."""
    surprise: float = 0.5
    """Standard deviation of the logarithm of what a surprise changes."""


@dataclass(frozen=True)
class Observation:
    """What became of one program."""

    settings: Settings
    log_gain: float | None
    """Natural logarithm of the gain on the seed; None when the program failed."""
    noise: float = 0.0
    """Standard deviation of `log_gain`'s measurement."""


@dataclass(frozen=True)
class Outlook:
    """What to expect of one program."""

    mean: float
    """Of the logarithm of its gain on the seed."""
    deviation: float
    """Standard deviation of the same."""
    works: float
    """Probability that it passes."""
    surprised: float = 0.0
    """Probability that it holds a surprise."""
    surprise: float = 0.0
    """Standard deviation of the logarithm of what a surprise changes."""

    def improvement(self, best: float) -> float:
        """Return the expected improvement of the log gain on `best`, failures counted as none."""
        usual = _improvement(self.mean - best, self.deviation)
        odd = _improvement(self.mean - best, hypot(self.deviation, self.surprise))
        return self.works * ((1 - self.surprised) * usual + self.surprised * odd)

    def chance(self, best: float) -> float:
        """Return the probability that it passes and beats `best`."""
        return self.works * _cumulative((self.mean - best) / self.deviation)


class KnobModel:
    """Predicts from observations, of which at least one must have passed."""

    def __init__(self, observations: Sequence[Observation], prior: Prior) -> None:
        self._prior = prior
        self._names = sorted({name for item in observations for name in item.settings})
        self._passed = [item for item in observations if item.log_gain is not None]
        self._failed = [item for item in observations if item.log_gain is None]
        self._codes: dict[tuple[str, str], int] = {}

    def outlooks(self, candidates: Sequence[Settings]) -> list[Outlook]:
        """Return what to expect of each candidate."""
        if not candidates:
            return []
        codes = self._encode(candidates)
        cross = self._covariance(codes, self._known)
        own = self._kernel(np.full(len(candidates), len(self._names)))
        left = own - np.sum((cross @ self._precision) * cross, axis=1)
        deviation = np.sqrt(self._scale * np.maximum(left, self._prior.nugget))
        rows = zip(cross @ self._weights, deviation, self._works(codes), self._surprised(codes), strict=True)
        return [
            Outlook(float(mean), float(spread), float(works), float(surprised), self._prior.surprise)
            for mean, spread, works, surprised in rows
        ]

    @cached_property
    def _known(self) -> NDArray[np.int64]:
        return self._encode([item.settings for item in self._passed])

    @cached_property
    def _failures(self) -> NDArray[np.int64]:
        return self._encode([item.settings for item in self._failed])

    @cached_property
    def _measured(self) -> Floats:
        return np.array([item.log_gain for item in self._passed], dtype=np.float64)

    @cached_property
    def _precision(self) -> Floats:
        noise = np.array([item.noise for item in self._passed]) / self._prior.spread
        covariance = self._covariance(self._known, self._known) + np.diag(self._prior.nugget + noise**2)
        return np.linalg.inv(covariance).astype(np.float64)

    @cached_property
    def _weights(self) -> Floats:
        weights: Floats = self._precision @ self._measured
        return weights

    @cached_property
    def _scale(self) -> float:
        """The squared unit: the posterior mean under a scaled inverse chi-squared prior."""
        weight, fit = self._prior.spread_weight, float(self._measured @ self._weights)
        return (weight * self._prior.spread**2 + fit) / (weight + len(self._passed))

    def _covariance(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> Floats:
        return self._kernel(np.sum(left[:, None, :] == right[None, :, :], axis=2))

    def _kernel(self, matches: NDArray[np.int64]) -> Floats:
        share = self._prior.interactions if len(self._names) > 1 else 0.0
        pairs = share / (2 * max(len(self._names) - 1, 1))
        kernel: Floats = 1.0 + (1 - share) / 2 * matches + pairs * matches * (matches - 1) / 2
        return kernel

    def _encode(self, programs: Sequence[Settings]) -> NDArray[np.int64]:
        rows = [[self._code(name, settings.get(name, "")) for name in self._names] for settings in programs]
        return np.array(rows, dtype=np.int64).reshape(len(programs), len(self._names))

    def _code(self, name: str, value: str) -> int:
        return self._codes.setdefault((name, value), len(self._codes))

    def _surprised(self, codes: NDArray[np.int64]) -> Floats:
        """Probability that each program has at least one pair of values that surprises."""
        unseen = ~np.isin(_pairs(codes, len(self._codes)), _pairs(self._known, len(self._codes)))
        surprised: Floats = 1 - (1 - self._prior.surprise_share) ** unseen.sum(axis=1)
        return surprised

    def _works(self, codes: NDArray[np.int64]) -> Floats:
        """Probability that each program passes.

        A failure is blamed on one value or one pair of values that no passing program has; each candidate shares the
        blame as far as it has those values.
        """
        works = np.ones(len(codes))
        for failed in self._failures:
            blame = self._blame(failed)
            total = blame.sum()
            if total > 0:
                same = (codes == failed).astype(np.float64)
                works *= 1 - np.einsum("ni,ij,nj->n", same, blame, same) / total
        return works

    def _blame(self, failed: NDArray[np.int64]) -> Floats:
        """Weights of a failure's suspects: values on the diagonal, pairs above it.

        What is in several failures explains them all at once, which makes it so much likelier for each.
        """
        knobs = len(failed)
        weights = np.triu(np.ones((knobs, knobs)), 1) + (self._prior.single_failure - 1) * np.eye(knobs)
        failures = np.minimum(_together(self._failures, failed), 7)
        explained = self._prior.repeated_failure ** (failures - 1.0)
        return np.where(_together(self._known, failed) > 0, 0.0, weights * explained)


def _together(programs: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many programs have each pair of `values` (on the diagonal: each value): [knobs, knobs]."""
    same = (programs == values).astype(np.int64)
    counts: NDArray[np.int64] = same.T @ same
    return counts


def _pairs(codes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return a number for every pair of values of each program: [programs, pairs of knobs]."""
    first, second = np.triu_indices(codes.shape[1], 1)
    return codes[:, first] * count + codes[:, second]


def _improvement(ahead: float, deviation: float) -> float:
    z = ahead / deviation
    # Far behind, the two terms cancel to rounding errors, which may be negative.
    return deviation * max(z * _cumulative(z) + exp(-z * z / 2) / sqrt(2 * pi), 0.0)


def _cumulative(z: float) -> float:
    return (1 + erf(z / sqrt(2))) / 2
