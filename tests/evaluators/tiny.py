"""Tiny tasks and programs for the evaluator's tests."""

from evaluators.solution import Binding, Solution
from evaluators.task import Contract, Task, Tensor, Tolerance, Workload

_CONTRACTS = {
    "cpp": Contract(entry_point="run", binding="plain_c", flags=("-O2",)),
    "python": Contract(entry_point="run", binding="dps"),
}
_MATRIX = Tensor(shape=("rows", "cols"), dtype="float32")

SOFTMAX_REFERENCE = """
import torch

def inputs(axes, params, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(axes["rows"], axes["cols"], generator=generator)}

def reference(x):
    return torch.softmax(x, dim=1)
"""

SOFTMAX_CPP = """
#include <cmath>
#include <cstdint>
extern "C" void run(const float* x, float* y, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) {
        const float* a = x + r * cols;
        float* b = y + r * cols;
        float top = a[0], sum = 0;
        for (int64_t c = 1; c < cols; ++c) top = a[c] > top ? a[c] : top;
        for (int64_t c = 0; c < cols; ++c) sum += b[c] = expf(a[c] - top);
        for (int64_t c = 0; c < cols; ++c) b[c] /= sum;
    }
}
"""


def softmax(timeout_s: float = 20.0, reference: str = SOFTMAX_REFERENCE, cols: int = 512) -> Task:
    """Row softmax, x: [rows, cols] float32 -> y; one held-out workload of an odd size."""
    return Task(
        name="tiny-softmax",
        description="Row softmax.",
        axes=("rows", "cols"),
        inputs={"x": _MATRIX},
        outputs={"y": _MATRIX},
        workloads=(
            Workload(name="small", axes={"rows": 64, "cols": cols}),
            Workload(name="wide", axes={"rows": 32, "cols": 2 * cols}),
            Workload(name="odd", split="held_out", axes={"rows": 7, "cols": 33}),
        ),
        tolerance=Tolerance(rtol=1e-4, atol=1e-6),
        contracts=_CONTRACTS,
        reference=reference,
        timeout_s=timeout_s,
    )


def cpp(text: str, flags: tuple[str, ...] = ()) -> Solution:
    """Return a C++ program."""
    return Solution(files={"kernel.cpp": text}, language="cpp", entry_point="run", binding="plain_c", flags=flags)


def python(text: str, binding: Binding = "dps") -> Solution:
    """Return a Python program."""
    return Solution(files={"kernel.py": text}, language="python", entry_point="run", binding=binding)


GOOD_CPP = cpp(SOFTMAX_CPP, ("-O3", "-march=native", "-ffast-math"))
GOOD_DPS = python("import torch\n\ndef run(x, y):\n    torch.softmax(x, 1, out=y)\n")
GOOD_VALUE = python("import torch\n\ndef run(x):\n    return torch.softmax(x, 1)\n", "value")
