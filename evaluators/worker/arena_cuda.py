"""Device memory with the slots of one case, owned by the supervisor: filled, poisoned and read only by it."""

import os
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import torch

from evaluators.worker import cuda
from evaluators.worker.arena import gaps, poison, same_bytes
from evaluators.worker.device_view import view
from evaluators.worker.failure import HarnessFault
from evaluators.worker.layout import Field, Layout
from evaluators.worker.slots import Content

_WIDEST = ((8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))
_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_torch: Any = torch


class CudaArena:
    """`slots` slots in one raw allocation. Outputs hold secret poison until written."""

    def __init__(self, layout: Layout, slots: int) -> None:
        """Allocate it, guards filled. Raises HarnessFault when the device has no room."""
        self.layout, self.slots = layout, slots
        try:
            self._mapping, self.fd = _allocate(slots * layout.stride)
        except cuda.CudaError as error:
            raise HarnessFault(f"no device memory for {slots} slots of {layout.stride} bytes: {error}") from error
        self.nbytes = self._mapping.nbytes
        self._bytes = view(self._mapping.address, (slots, layout.stride), torch.uint8)
        self._poison = {field.name: _signed(poison(field)) for field in layout.outputs}
        self._guard = {
            gap: torch.frombuffer(bytearray(secrets.token_bytes(gap[1] - gap[0])), dtype=torch.uint8).cuda()
            for gap in gaps(layout)
        }
        self.reset_guards()

    def reset_guards(self) -> None:
        """Write the guards anew."""
        for (start, end), pattern in self._guard.items():
            self._bytes[:, start:end] = pattern

    def wipe(self) -> None:
        """Write zeros into all of it, what the device rounded up to included, and the guards anew."""
        view(self._mapping.address, (self.nbytes,), torch.uint8).zero_()
        self.reset_guards()

    def fill_scalars(self, slot: int, example: Content) -> None:
        """Write an example's scalars alone; returns before the device has done so."""
        for field in self.layout.inputs:
            if field.shape is None:
                self._field(slot, field).copy_(example.inputs[field.name])

    def lend(self) -> int:
        """Return a new descriptor of the memory."""
        return os.dup(self.fd)

    def filling(self, examples: Sequence[Content]) -> Callable[[], None]:
        """Return what poisons all outputs, then writes one example's inputs into each slot, in order.

        That returns before the device has done so. All inputs of a type are copied by as few kernels as can be, which
        keep the device busy: copies one by one would leave it idle between them.
        """
        poisoned = []
        for field in self.layout.outputs:
            pattern, kind = self._poison[field.name]
            poisoned.append((self._bytes[:, field.offset : field.offset + field.nbytes].view(kind), pattern))
        pairs: dict[torch.dtype, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
        for field in self.layout.inputs:
            kind = next(kind for size, kind in _WIDEST if field.nbytes % size == 0)
            targets, sources = pairs.setdefault(kind, ([], []))
            targets += [self._field(slot, field).view(kind) for slot in range(len(examples))]
            sources += [example.inputs[field.name].view(kind) for example in examples]

        def write() -> None:
            for outputs, pattern in poisoned:
                outputs.fill_(pattern)
            for targets, sources in pairs.values():
                _torch._foreach_copy_(targets, sources)

        return write

    def output_bytes(self, slot: int, field: Field) -> torch.Tensor:
        """Return an output's bytes, shared."""
        return self._field(slot, field)

    def snapshot(self, slot: int) -> dict[str, Any]:
        """Return a copy of every output's bytes by name."""
        return {field.name: self._field(slot, field).clone() for field in self.layout.outputs}

    def locate(self, slots: list[int], offsets: list[int]) -> Any:
        """Return what `sample` takes to read the bytes at `offsets` of each of `slots`."""
        return torch.tensor(slots, device="cuda")[:, None], torch.tensor(offsets, device="cuda")[None, :]

    def sample(self, place: Any) -> torch.Tensor:
        """Return a copy of the bytes at a place: [slots, offsets]."""
        return self._bytes[place].cpu()

    def unwritten(self, data: torch.Tensor, field: Field) -> int:
        """Return how many elements of an output's bytes are still poison."""
        pattern, kind = self._poison[field.name]
        return int((data.view(kind) == pattern).sum())

    def changed_input(self, slot: int, example: Content) -> str | None:
        """Return the name of an input that no longer holds what was written there."""
        for field in self.layout.inputs:
            if not same_bytes(self._field(slot, field), example.inputs[field.name]):
                return field.name
        return None

    def overrun(self) -> int:
        """Return how many guard bytes have been overwritten."""
        changed = [(self._bytes[:, start:end] != pattern).sum() for (start, end), pattern in self._guard.items()]
        return int(torch.stack(changed).sum())

    def close(self) -> None:
        """Give the memory up."""
        torch.cuda.synchronize()
        os.close(self.fd)
        self._mapping.close()

    def _field(self, slot: int, field: Field) -> torch.Tensor:
        return self._bytes[slot, field.offset : field.offset + field.nbytes]


def _allocate(nbytes: int) -> tuple[cuda.Mapping, int]:
    try:
        return cuda.allocate(nbytes)
    except cuda.CudaError as error:
        if not error.is_out_of_memory:
            raise
    torch.cuda.empty_cache()
    return cuda.allocate(nbytes)


def _signed(pattern: Any) -> tuple[int, torch.dtype]:
    """Return numpy's unsigned integer as torch's signed one of the same bits, with its type."""
    size = pattern.dtype.itemsize
    value = int(pattern)
    return value - (1 << 8 * size) if value >> (8 * size - 1) else value, _SIGNED[size]
