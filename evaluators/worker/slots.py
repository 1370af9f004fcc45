"""What the supervisor does with the slots of one case, wherever their memory is."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from evaluators.worker.layout import Field, Layout

Bytes = npt.NDArray[np.uint8] | torch.Tensor
"""Raw bytes of an argument: [nbytes] uint8, a numpy array on the processor, a tensor on a GPU."""


class Content(Protocol):
    """An example: what is written into a slot."""

    @property
    def inputs(self) -> dict[str, Any]:
        """Input name -> its bytes."""
        ...


class Slots(Protocol):
    """Slots that are filled, poisoned and read only by the supervisor; a program maps them."""

    layout: Layout
    slots: int
    nbytes: int
    """Of all slots, rounded up as the device allocates."""
    fd: int
    """Hands the memory to another process."""

    def reset_guards(self) -> None:
        """Write the guards anew."""
        ...

    def wipe(self) -> None:
        """Leave nothing of what was there, guards apart: a process that maps it next learns nothing from it."""
        ...

    def fill_scalars(self, slot: int, example: Content) -> None:
        """Write an example's scalars alone."""
        ...

    def lend(self) -> int:
        """Return a new descriptor of the memory, for one process; whoever asks closes it."""
        ...

    def filling(self, examples: Sequence[Content]) -> Callable[[], None]:
        """Return what poisons all outputs and writes one example's inputs into each slot, in order.

        On a GPU that is as fast as its memory allows, so that whoever else uses it meanwhile shows.
        """
        ...

    def output_bytes(self, slot: int, field: Field) -> Bytes:
        """Return an output's bytes, shared."""
        ...

    def snapshot(self, slot: int) -> dict[str, Any]:
        """Return a copy of every output's bytes by name."""
        ...

    def locate(self, slots: list[int], offsets: list[int]) -> Any:
        """Return what `sample` takes to read the bytes at `offsets` of each of `slots`."""
        ...

    def sample(self, place: Any) -> Any:
        """Return a copy of the bytes at a place: [slots, offsets]."""
        ...

    def unwritten(self, data: Any, field: Field) -> int:
        """Return how many elements of an output's bytes are still poison."""
        ...

    def changed_input(self, slot: int, example: Content) -> str | None:
        """Return the name of an input that no longer holds what was written there."""
        ...

    def overrun(self) -> int:
        """Return how many guard bytes have been overwritten."""
        ...

    def close(self) -> None:
        """Give the memory up."""
        ...
