"""Families of landscapes on which planners are compared, each with its best program known exactly."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from evaluators.knobs import Knob
from evaluators.landscape import Interaction, Landscape, draw, draw_normal
from evaluators.scripted_tasks import scripted_task
from evaluators.task import Task


@dataclass(frozen=True)
class Instance:
    """One landscape over some knobs."""

    landscape: Landscape
    knobs: Mapping[str, tuple[str, ...]]

    @property
    def task(self) -> Task:
        """The scripted task whose seed program has these knobs."""
        return scripted_task(self.knobs)

    @cached_property
    def table(self) -> NDArray[np.float64]:
        """Log gain of every combination on the seed, one axis per knob; minus infinity where the program fails."""
        sizes = [len(values) for values in self.knobs.values()]
        table = np.zeros(sizes)
        seed = self._log(self._at({}))
        for axis, single in enumerate(self._singles()):
            table += np.reshape(
                [self._log(self._at({name: value})) - seed for name, value in single], _along(axis, sizes)
            )
        for (first, a), (second, b) in combinations(enumerate(self._singles()), 2):
            both = [[self._pair(left, right) - seed for right in b] for left in a]
            shape = np.array(_along(first, sizes)) * np.array(_along(second, sizes))
            table += np.reshape(both, shape)
        return table

    @cached_property
    def best(self) -> float:
        """Log gain of the best combination on the seed."""
        return float(self.table.max())

    def _pair(self, left: tuple[str, str], right: tuple[str, str]) -> float:
        """Log gain of two values beyond the sum of each one's, plus the seed's; minus infinity when they fail."""
        together = self._at(dict([left, right]))
        if self.landscape.failure(together):
            return -math.inf
        alone = [self._log(self._at(dict([one]))) for one in (left, right)]
        return self._log(together) - sum(alone) + 2 * self._log(self._at({}))

    def _log(self, knobs: Mapping[str, Knob]) -> float:
        return math.log(self.landscape.speedup(knobs))

    def _at(self, changes: Mapping[str, str]) -> dict[str, Knob]:
        return {
            name: Knob(name=name, values=values, intent="-", value=changes.get(name, values[0]))
            for name, values in self.knobs.items()
        }

    def _singles(self) -> list[list[tuple[str, str]]]:
        return [[(name, value) for value in values] for name, values in self.knobs.items()]


def _along(axis: int, sizes: list[int]) -> list[int]:
    return [size if index == axis else 1 for index, size in enumerate(sizes)]


def knobs_for(seed: int) -> dict[str, tuple[str, ...]]:
    """Return 5 to 8 knobs of 2 to 4 values each."""
    count = 5 + int(4 * draw(seed, "knobs"))
    sizes = [2 + int(3 * draw(seed, "values", index)) for index in range(count)]
    return {f"KNOB_{chr(65 + index)}": tuple(str(2**j) for j in range(size)) for index, size in enumerate(sizes)}


def additive(seed: int) -> Landscape:
    """No interactions: the logarithms of the knobs' gains add up."""
    return Landscape(seed=seed, spread=0.15)


def interacting(seed: int) -> Landscape:
    """Every pair of values adds or takes something."""
    return Landscape(seed=seed, spread=0.15, interaction_spread=0.07)


def rugged(seed: int) -> Landscape:
    """Pairs matter more than single values."""
    return Landscape(seed=seed, spread=0.1, interaction_spread=0.12)


def failing(seed: int) -> Landscape:
    """A tenth of the pairs of values fails."""
    return Landscape(seed=seed, spread=0.15, interaction_spread=0.05, failing_share=0.1)


def gated(seed: int) -> Landscape:
    """Half of the knobs gain nothing until the first knob has its last value, which alone is a loss."""
    knobs = knobs_for(seed)
    gate, *rest = knobs
    opened = [(name, value) for name in rest[::2] for value in knobs[name][1:]]
    key = knobs[gate][-1]
    return Landscape(
        seed=seed,
        spread=0.1,
        factors={gate: {key: 0.93}, **{name: dict.fromkeys(knobs[name], 1.0) for name in rest[::2]}},
        interactions=tuple(
            Interaction(
                settings={gate: key, name: value}, factor=math.exp(0.25 * draw_normal(seed, "gate", name, value))
            )
            for name, value in opened
        ),
    )


def sparse(seed: int) -> Landscape:
    """Two or three values gain much, the others next to nothing."""
    knobs = knobs_for(seed)
    factors: dict[str, dict[str, float]] = {}
    for name, value in _values(knobs):
        large = draw(seed, "large", name, value) < 0.2
        factors.setdefault(name, {})[value] = math.exp(
            (0.6 if large else 0.02) * draw_normal(seed, "sparse", name, value)
        )
    return Landscape(seed=seed, factors=factors)


def _values(knobs: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    for name, values in knobs.items():
        for value in values[1:]:
            yield name, value


FAMILIES: Mapping[str, Callable[[int], Landscape]] = {
    "additive": additive,
    "interacting": interacting,
    "rugged": rugged,
    "failing": failing,
    "gated": gated,
    "sparse": sparse,
}


def instance(family: str, seed: int) -> Instance:
    """Return the landscape of a family and a seed."""
    return Instance(FAMILIES[family](seed), knobs_for(seed))
