"""Tiny tasks and programs for the evaluator's tests on a GPU."""

from evaluators.solution import Binding, Solution
from evaluators.task import Contract, Task, Tensor, Tolerance, Workload

_MATRIX = Tensor(shape=("rows", "cols"), dtype="float32")

SOFTMAX_REFERENCE = """
import torch

def inputs(axes, params, seed):
    generator = torch.Generator("cuda").manual_seed(seed)
    return {"x": torch.randn(axes["rows"], axes["cols"], generator=generator, device="cuda")}

def reference(x):
    return torch.softmax(x, dim=1)

def floor(axes):
    return {"bytes": 8 * axes["rows"] * axes["cols"], "operations": 0}
"""

SOFTMAX_CU = """
#include <cstdint>
__global__ void softmax(const float* x, float* y, int64_t cols) {
    __shared__ float part[256];
    const float* a = x + blockIdx.x * cols;
    float* b = y + blockIdx.x * cols;
    float top = -INFINITY, sum = 0;
    for (int64_t c = threadIdx.x; c < cols; c += 256) top = fmaxf(top, a[c]);
    part[threadIdx.x] = top;
    __syncthreads();
    for (int step = 128; step; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + step]);
        __syncthreads();
    }
    top = part[0];
    __syncthreads();
    for (int64_t c = threadIdx.x; c < cols; c += 256) sum += expf(a[c] - top);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 128; step; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    for (int64_t c = threadIdx.x; c < cols; c += 256) b[c] = expf(a[c] - top) / part[0];
}
"""
RUN_CU = """
extern "C" void run(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    softmax<<<rows, 256, 0, stream>>>(x, y, cols);
}
"""

SOFTMAX_TRITON = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    a = tl.load(x + row * cols + place, mask=place < cols, other=-float("inf"))
    a = tl.exp(a - tl.max(a, 0))
    tl.store(y + row * cols + place, a / tl.sum(a, 0), mask=place < cols)

"""

BINDING_CPP = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include "kernel.h"

void run(torch::Tensor x, torch::Tensor y) {
    softmax_rows(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1), at::cuda::getCurrentCUDAStream());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""
BINDING_H = """
#pragma once
#include <cstdint>
#include <cuda_runtime.h>
void softmax_rows(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream);
"""


def softmax(timeout_s: float = 60.0, rows: int = 4096, cols: int = 2048) -> Task:
    """Row softmax on a GPU, x: [rows, cols] float32 -> y; one held-out workload of an odd size."""
    return Task(
        name="tiny-softmax-gpu",
        description="Row softmax.",
        device="cuda",
        axes=("rows", "cols"),
        inputs={"x": _MATRIX},
        outputs={"y": _MATRIX},
        workloads=(
            Workload(name="small", axes={"rows": rows, "cols": cols}),
            Workload(name="tall", axes={"rows": 4 * rows, "cols": cols}),
            Workload(name="odd", split="held_out", axes={"rows": 7, "cols": 33}),
        ),
        tolerance=Tolerance(rtol=1e-4, atol=1e-6),
        contracts={
            "cuda": Contract(entry_point="run", binding="plain_c"),
            "triton": Contract(entry_point="run", binding="dps"),
            "python": Contract(entry_point="run", binding="dps"),
        },
        reference=SOFTMAX_REFERENCE,
        timeout_s=timeout_s,
    )


def cuda(text: str, flags: tuple[str, ...] = ()) -> Solution:
    """Return a CUDA program with a plain C function."""
    return Solution(files={"kernel.cu": text}, language="cuda", entry_point="run", binding="plain_c", flags=flags)


def triton(text: str, binding: Binding = "dps") -> Solution:
    """Return a Triton program."""
    return Solution(files={"kernel.py": text}, language="triton", entry_point="run", binding=binding)


def python(text: str, binding: Binding = "dps") -> Solution:
    """Return a Python program."""
    return Solution(files={"kernel.py": text}, language="python", entry_point="run", binding=binding)


GOOD_CUDA = cuda(SOFTMAX_CU + RUN_CU)
LAUNCH = "    kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8)\n"
GOOD_TRITON = triton(SOFTMAX_TRITON + "def run(x, y):\n" + LAUNCH)
GOOD_TRITON_VALUE = triton(
    SOFTMAX_TRITON + "def run(x):\n    y = torch.empty_like(x)\n" + LAUNCH + "    return y\n", "value"
)
GOOD_DPS = python("import torch\n\ndef run(x, y):\n    torch.softmax(x, 1, out=y)\n")
GOOD_VALUE = python("import torch\n\ndef run(x):\n    return torch.softmax(x, 1)\n", "value")
GOOD_TORCH = Solution(
    files={
        "main.cpp": BINDING_CPP,
        "kernel.h": BINDING_H,
        "kernel.cu": '#include "kernel.h"\n'
        + SOFTMAX_CU
        + "void softmax_rows(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {\n"
        "    softmax<<<rows, 256, 0, stream>>>(x, y, cols);\n}\n",
    },
    main_file="main.cpp",
    language="cuda",
    entry_point="run",
    binding="torch",
)
