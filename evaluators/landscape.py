"""A landscape: which figure a program of given knob values reaches, by formula instead of by measurement.

speed-up = base * product over knobs of factor(knob, value) * product over pairs of values of interaction(a, b)

A value that a knob declares first has factor 1 and no interactions, so a seed program that holds the first values
reaches `base`. Everything else is listed, or drawn from `seed` by hashing: equal landscapes agree on every machine.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from statistics import NormalDist

from pydantic import Field

from evaluators.digest import digest_json
from evaluators.knobs import Knob
from evaluators.objective import Record
from evaluators.worker.status import Status

Setting = tuple[str, str]
"""A knob and the value it has."""


def draw(*parts: str | int) -> float:
    """Return a number in (0, 1), uniform over all `parts`, always the same for the same parts."""
    return (int(digest_json(list(parts))[:13], 16) + 0.5) / 16**13


def draw_normal(*parts: str | int) -> float:
    """Return a standard normal number, always the same for the same parts."""
    return NormalDist().inv_cdf(draw(*parts))


class Interaction(Record):
    """What two values do together, beyond the product of their factors."""

    settings: dict[str, str] = Field(min_length=2, max_length=2)
    """The two knobs and their values."""
    factor: float = Field(gt=0)


class Failing(Record):
    """Values that fail whenever they stand together."""

    settings: dict[str, str] = Field(min_length=1)
    status: Status = Status.RUNTIME_ERROR
    rule: str | None = None
    """The integrity rule that fires, for status `integrity`."""


class Landscape(Record):
    """A formula for programs with knobs."""

    seed: int = 0
    """Seed of everything that is drawn."""
    base: float = Field(default=1.0, gt=0)
    """Speed-up of the program that holds every knob's first value."""
    spread: float = Field(default=0.2, ge=0)
    """Standard deviation of the logarithm of a drawn factor."""
    interaction_spread: float = Field(default=0.0, ge=0)
    """Standard deviation of the logarithm of a drawn interaction; 0: the knobs do not interact."""
    failing_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the pairs of values (first values apart) that fail together."""
    factors: dict[str, dict[str, float]] = {}
    """Knob -> value -> factor, in place of a drawn one."""
    interactions: tuple[Interaction, ...] = ()
    """In place of drawn ones, for the pairs listed."""
    failing: tuple[Failing, ...] = ()
    """Beside the drawn ones."""

    def speedup(self, knobs: Mapping[str, Knob]) -> float:
        """Return the speed-up over the baseline of a program that has these knobs and values."""
        return math.exp(math.fsum([math.log(self.base), *self._factors(knobs), *self._interactions(knobs)]))

    def failure(self, knobs: Mapping[str, Knob]) -> Failing | None:
        """Return why a program with these knobs and values fails, None when it does not."""
        current = {name: knob.value for name, knob in knobs.items()}
        for failing in self.failing:
            if failing.settings.items() <= current.items():
                return failing
        return next(self._drawn_failures(knobs), None) if self.failing_share else None

    def _factors(self, knobs: Mapping[str, Knob]) -> Iterator[float]:
        for name, knob in knobs.items():
            yield self._log_factor(name, knob.value, knob.values[0])

    def _interactions(self, knobs: Mapping[str, Knob]) -> Iterator[float]:
        listed = {frozenset(item.settings.items()): item.factor for item in self.interactions}
        for pair in combinations(sorted((name, knob.value) for name, knob in knobs.items()), 2):
            if frozenset(pair) in listed:
                yield math.log(listed[frozenset(pair)])
            elif self.interaction_spread and not _holds_first(pair, knobs):
                yield self.interaction_spread * draw_normal(self.seed, "interaction", *pair[0], *pair[1])

    def _log_factor(self, name: str, value: str, first: str) -> float:
        listed = self.factors.get(name, {})
        if value in listed:
            return math.log(listed[value])
        return 0.0 if value == first else self.spread * draw_normal(self.seed, "factor", name, value)

    def _drawn_failures(self, knobs: Mapping[str, Knob]) -> Iterator[Failing]:
        for a, b in combinations(sorted((name, knob.value) for name, knob in knobs.items()), 2):
            if not _holds_first((a, b), knobs) and draw(self.seed, "failing", *a, *b) < self.failing_share:
                yield Failing(settings=dict([a, b]), status=_status(self.seed, a, b))


def _holds_first(pair: tuple[Setting, Setting], knobs: Mapping[str, Knob]) -> bool:
    return any(value == knobs[name].values[0] for name, value in pair)


def _status(seed: int, a: Setting, b: Setting) -> Status:
    statuses = (Status.BUILD_ERROR, Status.WRONG_VALUES, Status.TIMEOUT, Status.CRASHED)
    return statuses[int(draw(seed, "status", *a, *b) * len(statuses))]
