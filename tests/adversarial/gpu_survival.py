"""Programs that harm the device, the machine or their evaluator, and what becomes of each. Data: nothing here runs."""

from evaluators.solution import Solution
from evaluators.worker.status import Status
from tests.adversarial.gpu_corpus import dps
from tests.evaluators import tiny_cuda as tiny

TIMEOUT_S = 6.0
"""Limit of the tasks on which these programs are tried."""


def c(kernel: str, launch: str = "k<<<1, 1, 0, stream>>>(x, y);", extra: str = "") -> Solution:
    """Return a CUDA program with one kernel."""
    return tiny.cuda(
        f"#include <cassert>\n#include <cstdint>\n{extra}\n"
        f"__global__ void k(const float* x, volatile float* y) {{ {kernel} }}\n"
        'extern "C" void run(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) '
        f"{{ {launch} }}\n"
    )


BAD: dict[str, tuple[Solution, tuple[Status, ...]]] = {
    "illegal address": (c("y[1ll << 40] = 1;"), (Status.ILLEGAL_ACCESS,)),
    "misaligned address": (c("*(volatile float*)((char*)y + 1) = 1;"), (Status.ILLEGAL_ACCESS,)),
    "assertion in a kernel": (c("assert(x[0] != x[0]);"), (Status.RUNTIME_ERROR,)),
    "trap": (c("__trap();"), (Status.RUNTIME_ERROR,)),
    "impossible block": (c("y[0] = 1;", "k<<<1, 4096, 0, stream>>>(x, y);"), (Status.LAUNCH_ERROR,)),
    "endless kernel": (c("while (true) y[0] = 1;"), (Status.TIMEOUT,)),
    "endless kernels on every processor": (c("while (true) y[0] = 1;", "k<<<4096, 1024>>>(x, y);"), (Status.TIMEOUT,)),
    "endless C++ loop": (c("", "for (volatile int i = 0;; ++i);"), (Status.TIMEOUT,)),
    "endless Python loop": (dps("def run(x, y):\n    while True: pass"), (Status.TIMEOUT,)),
    "out of memory": (
        dps("def run(x, y):\n    torch.empty(1 << 40, dtype=torch.uint8, device='cuda')"),
        (Status.OUT_OF_MEMORY,),
    ),
    "takes all memory past torch": (
        c(
            "",
            "void* p; for (size_t n = 1ll << 30; n >= 1 << 21; n /= 2) while (cudaMalloc(&p, n) == cudaSuccess);",
        ),
        (Status.OUT_OF_MEMORY, Status.LAUNCH_ERROR, Status.WRONG_VALUES),
    ),
    "right, then an illegal address": (
        tiny.cuda(
            tiny.SOFTMAX_CU
            + "__global__ void bad(float* y) { y[1ll << 40] = 1; }\n"
            + tiny.RUN_CU.replace("}\n", "    bad<<<1, 1>>>(y);\n}\n")
        ),
        (Status.ILLEGAL_ACCESS,),
    ),
    "writes past its output": (c("y[rows_cols] = 1;".replace("rows_cols", "4096ll * 2048")), (Status.ILLEGAL_ACCESS,)),
    "leaked child": (
        dps(
            "import os, time\nif os.fork() == 0:\n    time.sleep(99)\n\ndef run(x, y):\n    torch.softmax(x, 1, out=y)"
        ),
        (Status.INTEGRITY,),
    ),
    "segmentation fault": (c("", "*(volatile int*)8 = 1;"), (Status.CRASHED,)),
    "exit": (c("", "exit(0);", "#include <cstdlib>"), (Status.CRASHED,)),
    "output flood": (
        c("", 'for (;;) puts("0123456789012345678901234567890123456789");', "#include <cstdio>"),
        (Status.OUTPUT_LIMIT,),
    ),
}
