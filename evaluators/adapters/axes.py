"""Names for sizes: from the shapes that were seen at several workloads to symbolic axes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Shape = Sequence[int]


@dataclass
class Axes:
    """What each size is called. Sizes that agree at every workload are one axis, so that few names suffice."""

    given: Sequence[Mapping[str, int]]
    """Per workload, the axes that have a name already."""
    names: dict[tuple[int, ...], str] = field(default_factory=dict)
    """Sizes over the workloads -> name."""

    def __post_init__(self) -> None:
        for name in self.given[0]:
            self.names.setdefault(tuple(sizes[name] for sizes in self.given), name)

    def shape(self, tensor: str, shapes: Sequence[Shape]) -> tuple[str, ...]:
        """Return a tensor's symbolic shape from its shapes, one per workload, of equal rank."""
        return tuple(
            self.names.setdefault(tuple(sizes), self._new(f"{tensor}_{place}"))
            for place, sizes in enumerate(zip(*shapes, strict=True))
        )

    @property
    def constants(self) -> dict[str, int]:
        """The named sizes that are equal at every workload (given ones are never constants)."""
        return {name: sizes[0] for sizes, name in self._own() if len(set(sizes)) == 1}

    def variable(self, workload: int) -> dict[str, int]:
        """Return the variable axes' sizes at one workload, given ones first."""
        own = {name: sizes[workload] for sizes, name in self._own() if len(set(sizes)) > 1}
        return {**self.given[workload], **own}

    def _own(self) -> list[tuple[tuple[int, ...], str]]:
        return [(sizes, name) for sizes, name in self.names.items() if name not in self.given[0]]

    def _new(self, name: str) -> str:
        taken = {*self.names.values(), *self.given[0]}
        while name in taken:
            name += "_"
        return name
