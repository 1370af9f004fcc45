"""GPU programs where there is no GPU: real compilers and Triton's real interpreter, and never a time."""

import shutil
from collections.abc import AsyncIterator

import numpy as np
import pytest
import torch

from evaluators.errors import TaskError, UsageError
from evaluators.solution import Binding, Solution
from evaluators.task import Contract, Task
from evaluators.untimed import PROTOCOL, UntimedEvaluator
from evaluators.worker.kernels import kernels_of
from evaluators.worker.status import Status
from evaluators.worker.triton_bfloat16 import from_bfloat16, to_bfloat16
from tests.evaluators import tiny

KERNEL = """
import torch
import triton
import triton.language as tl

@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (2, 4)], key=["cols"])
@triton.jit
def softmax(x, y, cols, BLOCK: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * cols + lane, mask=lane < cols, other=float("-inf"))
    weight = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * cols + lane, weight / tl.sum(weight, 0), mask=lane < cols)
"""
RUN = """
def run(x):
    assert x.is_cuda and torch.cuda.is_available()
    y = torch.empty(x.shape, device="cuda", dtype=torch.float32)
    softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    torch.cuda.synchronize()
    return y
"""
CUDA = """
#include <cuda_runtime.h>
#include <stdint.h>
__global__ void softmax(const float* x, float* y, int64_t cols) {
    __shared__ float top, sum;
    const float* a = x + blockIdx.x * cols;
    if (threadIdx.x == 0) { top = a[0]; sum = 0; for (int64_t c = 0; c < cols; ++c) top = fmaxf(top, a[c]); }
    __syncthreads();
    float* b = y + blockIdx.x * cols;
    for (int64_t c = threadIdx.x; c < cols; c += blockDim.x) atomicAdd(&sum, b[c] = expf(a[c] - top));
    __syncthreads();
    for (int64_t c = threadIdx.x; c < cols; c += blockDim.x) b[c] /= sum;
}
extern "C" void run(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    softmax<<<rows, 128, 0, stream>>>(x, y, cols);
}
"""


def task() -> Task:
    contracts = {
        "triton": Contract(entry_point="run", binding="value"),
        "cuda": Contract(entry_point="run", binding="plain_c"),
        "python": Contract(entry_point="run", binding="value"),
    }
    return Task.model_validate({**tiny.softmax(60.0).model_dump(), "device": "cuda", "contracts": contracts})


def triton(text: str, binding: Binding = "value") -> Solution:
    return Solution(files={"kernel.py": text}, language="triton", entry_point="run", binding=binding)


def cuda(text: str) -> Solution:
    return Solution(files={"kernel.cu": text}, language="cuda", entry_point="run", binding="plain_c")


@pytest.fixture(scope="module")
async def untimed() -> AsyncIterator[UntimedEvaluator]:
    evaluator = UntimedEvaluator("sm_90a")
    yield evaluator
    await evaluator.close()


async def test_a_right_triton_program_builds_and_is_right_and_is_not_timed(untimed: UntimedEvaluator) -> None:
    verdict = await untimed.evaluate(task(), triton(KERNEL + RUN), "search")
    assert (verdict.status, verdict.tier, verdict.objective) == (Status.NOT_TIMED, "checked", None), verdict.message
    assert verdict.message == "builds for sm_90a, right on 2 small workloads in Triton's interpreter; not timed"
    assert {result.workload for result in verdict.workloads} == {"small", "wide"}
    assert {note.partition(" registers")[0].partition("softmax: ")[0] for note in verdict.notes} == {"sm_90a: "}
    assert {note.rpartition(", ")[2] for note in verdict.notes} == {"2 warps", "4 warps"}, "each configuration is built"
    assert all("spills 0 bytes stored" in note for note in verdict.notes)
    assert verdict.protocol == PROTOCOL
    assert verdict.environment is not None
    assert verdict.environment.device == "none, built for sm_90a"


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        (KERNEL.replace("tl.exp(value", "tl.expp(value") + RUN, Status.BUILD_ERROR, "expp"),
        (KERNEL.replace("/ tl.sum(weight, 0)", "* 0.5") + RUN, Status.WRONG_VALUES, "elements are wrong"),
        ("def run(x):\n    return 1 / 0\n", Status.BUILD_ERROR, "ZeroDivisionError"),
    ],
    ids=["does not compile", "wrong", "raises"],
)
async def test_a_bad_triton_program_is_told_why(
    untimed: UntimedEvaluator, text: str, status: Status, words: str
) -> None:
    verdict = await untimed.evaluate(task(), triton(text), "search")
    assert verdict.status is status
    assert words in verdict.message


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc here")
async def test_cuda_programs_are_compiled(untimed: UntimedEvaluator) -> None:
    verdict = await untimed.evaluate(task(), cuda(CUDA), "search")
    assert (verdict.status, verdict.tier) == (Status.NOT_TIMED, "built"), verdict.log
    assert verdict.message == "builds for sm_90a, not run; not timed"
    (note,) = verdict.notes
    assert "registers" in note
    assert "8 bytes of shared memory" in note
    broken = await untimed.evaluate(task(), cuda(CUDA.replace("__shared__", "__shred__")), "search")
    assert broken.status is Status.BUILD_ERROR
    assert "__shred__" in broken.message + broken.log
    assert "kernel.cu" in broken.log


async def test_other_tasks_and_architectures_are_refused(untimed: UntimedEvaluator) -> None:
    with pytest.raises(TaskError, match="of GPU tasks; this one is cpp for cpu"):
        await untimed.evaluate(tiny.softmax(), tiny.GOOD_CPP, "search")
    with pytest.raises(UsageError, match="write it as nvcc does"):
        UntimedEvaluator("hopper")


def test_bfloat16_rounds_as_torch_does() -> None:
    values = torch.cat([torch.randn(4096) * 10.0 ** torch.randint(-30, 30, (4096,)), torch.tensor([0.0, float("inf")])])
    bits = to_bfloat16(values.numpy())
    expected = values.to(torch.bfloat16)
    assert np.array_equal(bits, expected.view(torch.uint16).numpy())
    assert np.array_equal(from_bfloat16(bits), expected.float().numpy())
    assert np.isnan(from_bfloat16(to_bfloat16(np.array([np.nan], np.float32)))).all()


def test_what_ptxas_says_of_kernels() -> None:
    log = """ptxas info    : 8 bytes gmem
ptxas info    : Compiling entry function '_Z4tilePfS_' for 'sm_90a'
ptxas info    : Function properties for _Z4tilePfS_
    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 49152 bytes smem
ptxas info    : Compiling entry function '_Z4copyPfS_' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
"""
    assert kernels_of(log) == [
        {
            "name": "_Z4tilePfS_",
            "spill_store_bytes": 24,
            "spill_load_bytes": 32,
            "registers": 255,
            "shared_bytes": 49152,
        },
        {"name": "_Z4copyPfS_", "spill_store_bytes": 0, "spill_load_bytes": 0, "registers": 12, "shared_bytes": 0},
    ]
