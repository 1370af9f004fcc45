"""Tasks for the scripted evaluator: a copy of a vector, with seed programs full of knobs that change nothing real."""

from collections.abc import Mapping
from types import MappingProxyType

from evaluators.objective import Objective
from evaluators.solution import SUFFIX, Language
from evaluators.task import Contract, Task, Tensor, Tolerance, Workload

_REFERENCE = '''"""Copy a vector."""

import torch


def inputs(axes, params, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(axes["n"], generator=generator)}


def reference(x):
    return {"y": x.clone()}
'''
_CPP = """// Copy a vector. The constants below change nothing in the machine: the scripted evaluator reads them.
{knobs}
#include <cstdint>

extern "C" void scripted(const float* x, float* y, int64_t n) {{
    for (int64_t i = 0; i < n; ++i) y[i] = x[i];
}}
"""
_PYTHON = '''"""Copy a vector. The constants below change nothing in the machine: the scripted evaluator reads them."""
{knobs}

def scripted(x, y):
    y.copy_(x)
'''


def scripted_task(
    knobs: int | Mapping[str, tuple[str, ...]] = 6,
    values: int = 3,
    *,
    name: str = "scripted",
    objective: Objective | None = None,
) -> Task:
    """Return a task whose seed programs declare `knobs`: names with their values, or how many with how many `values`.

    The seed holds every knob's first value.
    """
    if isinstance(knobs, int):
        knobs = {f"KNOB_{chr(ord('A') + i)}": tuple(str(2**j) for j in range(values)) for i in range(knobs)}
    return Task(
        name=name,
        title="Scripted",
        description="Copy `x` to `y`. Judged by formula: the figure depends on the knobs' values only.",
        axes=("n",),
        inputs={"x": Tensor(shape=("n",), dtype="float32")},
        outputs={"y": Tensor(shape=("n",), dtype="float32")},
        workloads=(
            Workload(name="small", axes={"n": 256}),
            Workload(name="large", axes={"n": 65536}),
            Workload(name="odd", split="held_out", axes={"n": 1001}),
        ),
        tolerance=Tolerance(rtol=0.0, atol=0.0),
        objective=objective or Objective(),
        contracts={
            "cpp": Contract(entry_point="scripted", binding="plain_c", seed=_seed("cpp", knobs)),
            "python": Contract(entry_point="scripted", binding="dps", seed=_seed("python", knobs)),
        },
        reference=_REFERENCE,
    )


def _seed(language: Language, knobs: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    mark, template, line = {
        "cpp": ("//", _CPP, "#define {name} {value}"),
        "python": ("#", _PYTHON, "{name} = {value}"),
    }[language]
    lines = [
        f"{mark} ksearch: knob {name} = {' | '.join(values)} ; Turn {name}\n" + line.format(name=name, value=values[0])
        for name, values in knobs.items()
    ]
    return {f"seed{SUFFIX[language]}": template.format(knobs="\n".join(lines))}


SCRIPTED_TASKS: Mapping[str, Task] = MappingProxyType({"scripted": scripted_task()})
"""Tasks that can be named like built-in ones, for use with the scripted evaluator."""
