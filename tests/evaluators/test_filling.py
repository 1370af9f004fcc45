"""Slots are filled with the examples' inputs, in order, and their outputs poisoned, on a processor and on a GPU."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from evaluators.jobs import task_data
from evaluators.worker.arena import Arena
from evaluators.worker.arena_cuda import CudaArena
from evaluators.worker.job import Argument, Case, TaskSpec, decode
from evaluators.worker.layout import Layout, lay_out
from evaluators.worker.slots import Slots
from tests.evaluators import tiny

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU and a build of torch for it")
SHAPE = ("rows", "cols")
COUNT = 5


@dataclass
class Given:
    """Random bytes for every input."""

    inputs: dict[str, Any]


def layout_of(device: str, rows: int, cols: int) -> Layout:
    kinds = ("float32", "bfloat16", "float8_e4m3fn", "bool", "int64", "uint8")
    task = replace(
        decode(TaskSpec, task_data(tiny.softmax())),
        device=device,
        axes=SHAPE,
        inputs=(*(Argument(kind, kind, SHAPE) for kind in kinds), Argument("scale", "float32", None)),
        outputs=(Argument("y", "float32", SHAPE), Argument("z", "int64", ("cols",))),
    )
    return lay_out(task, Case("one", held_out=False, axes={"rows": rows, "cols": cols}, params={}))


@pytest.mark.parametrize(("rows", "cols"), [(7, 33), (3, 1), (64, 128)])
@pytest.mark.parametrize(
    ("device", "kind"),
    [("cpu", Arena), pytest.param("cuda", CudaArena, marks=needs_gpu)],
)
def test_every_slot_holds_its_example_and_poison(
    device: str, kind: Callable[[Layout, int], Slots], rows: int, cols: int
) -> None:
    layout = layout_of(device, rows, cols)
    slots = kind(layout, COUNT)
    try:
        made = [
            {field.name: torch.randint(0, 256, (field.nbytes,), dtype=torch.uint8) for field in layout.inputs}
            for _ in range(COUNT)
        ]
        place: Callable[[torch.Tensor], Any] = torch.Tensor.numpy if device == "cpu" else torch.Tensor.cuda
        examples = [Given({name: place(data) for name, data in inputs.items()}) for inputs in made]
        slots.filling(examples)()
        for slot, example in enumerate(examples):
            assert slots.changed_input(slot, example) is None
            for other in examples[:slot]:
                assert slots.changed_input(slot, other) is not None
            for field in layout.outputs:
                written = slots.output_bytes(slot, field)
                assert slots.unwritten(written, field) == field.nbytes // {"float32": 4, "int64": 8}[field.dtype]
        assert slots.overrun() == 0
    finally:
        slots.close()
