"""The triangle multiplicative update ("outgoing") as a GPU task, with a plain Triton program: 18 checks, 7 timed sizes.

Operator, sizes and tolerance are those of GPU MODE's problem of that name; the code is our own. Inputs are flat, the
masks are real ones, weights are new in every call, and heavy-tailed inputs are drawn on the GPU.
"""

from evaluators.solution import Solution
from evaluators.task import Contract, Task, Tensor, Tolerance, Workload

H = 128

REFERENCE = """
import torch

WEIGHTS = ("left_proj", "right_proj", "left_gate", "right_gate", "out_gate")

def inputs(axes, params, seed):
    b, n, d, h = axes["batch"], axes["n"], axes["dim"], axes["hidden"]
    draw = torch.Generator("cuda").manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=draw, device="cuda")
    if params["cauchy"]:
        uniform = torch.rand(b, n, n, d, generator=draw, device="cuda").clamp_(1e-6, 1 - 1e-6)
        x = uniform.sub_(0.5).mul_(torch.pi).tan_()
    else:
        x = normal(b, n, n, d)
    if params["masked"]:
        mask = (torch.rand(b, n, n, generator=draw, device="cuda") > 0.3).float()
        mask[:, -max(1, n // 16):, :] = 0
    else:
        mask = torch.ones(b, n, n, device="cuda")
    made = {"x": x, "mask": mask, "norm_weight": normal(d), "norm_bias": normal(d)}
    made |= {name: normal(h, d) / h**0.5 for name in WEIGHTS}
    return made | {"out_norm_weight": normal(h), "out_norm_bias": normal(h), "to_out": normal(d, h) / d**0.5}

def reference(x, mask, norm_weight, norm_bias, left_proj, right_proj, left_gate, right_gate, out_gate,
              out_norm_weight, out_norm_bias, to_out):
    h = to_out.shape[1]
    x = torch.nn.functional.layer_norm(x, (x.shape[-1],), norm_weight, norm_bias)
    left = (x @ left_proj.T) * mask[..., None] * torch.sigmoid(x @ left_gate.T)
    right = (x @ right_proj.T) * mask[..., None] * torch.sigmoid(x @ right_gate.T)
    gate = torch.sigmoid(x @ out_gate.T)
    del x
    out = torch.einsum("bikh,bjkh->bijh", left, right)
    del left, right
    out = torch.nn.functional.layer_norm(out, (h,), out_norm_weight, out_norm_bias)
    return {"y": (out * gate) @ to_out.T}

def floor(axes):
    b, n, d, h = axes["batch"], axes["n"], axes["dim"], axes["hidden"]
    m = b * n * n
    return {"bytes": 8 * m * d + 4 * m, "operations": 2 * m * d * 6 * h + 2 * b * h * n**3}
"""

PROGRAM = """
import torch
import triton
import triton.language as tl

@triton.jit
def gate_kernel(p, mask, left, right, n, BLOCK: tl.constexpr, H: tl.constexpr):
    row, j0, b = tl.program_id(0), tl.program_id(1) * BLOCK, tl.program_id(2).to(tl.int64)
    j, h = j0 + tl.arange(0, BLOCK), tl.arange(0, H)
    m = (b * n + row) * n + j
    inside = j < n
    keep = tl.load(mask + m, mask=inside, other=0.0)
    at = p + m[:, None] * (5 * H) + h[None, :]
    to = ((b * H + h[None, :]) * n + row) * n + j[:, None]
    ok = inside[:, None] & (h[None, :] < H)
    value = tl.load(at, mask=ok, other=0.0).to(tl.float32)
    gate = tl.load(at + 2 * H, mask=ok, other=0.0).to(tl.float32)
    tl.store(left + to, (value * tl.sigmoid(gate) * keep[:, None]).to(tl.float16), mask=ok)
    value = tl.load(at + H, mask=ok, other=0.0).to(tl.float32)
    gate = tl.load(at + 3 * H, mask=ok, other=0.0).to(tl.float32)
    tl.store(right + to, (value * tl.sigmoid(gate) * keep[:, None]).to(tl.float16), mask=ok)

@triton.jit
def finish_kernel(o, p, weight, bias, z, n, BLOCK: tl.constexpr, H: tl.constexpr):
    row, j0, b = tl.program_id(0), tl.program_id(1) * BLOCK, tl.program_id(2).to(tl.int64)
    j, h = j0 + tl.arange(0, BLOCK), tl.arange(0, H)
    ok = (j < n)[:, None] & (h[None, :] < H)
    value = tl.load(o + ((b * H + h[None, :]) * n + row) * n + j[:, None], mask=ok, other=0.0).to(tl.float32)
    mean = tl.sum(value, 1) / H
    value -= mean[:, None]
    scale = tl.rsqrt(tl.sum(value * value, 1) / H + 1e-5)
    value = value * scale[:, None] * tl.load(weight + h)[None, :] + tl.load(bias + h)[None, :]
    m = (b * n + row) * n + j
    gate = tl.load(p + m[:, None] * (5 * H) + 4 * H + h[None, :], mask=ok, other=0.0).to(tl.float32)
    tl.store(z + m[:, None] * H + h[None, :], (value * tl.sigmoid(gate)).to(tl.float16), mask=ok)

def run(x, mask, norm_weight, norm_bias, left_proj, right_proj, left_gate, right_gate, out_gate,
        out_norm_weight, out_norm_bias, to_out):
    b, n, _, d = x.shape
    h = to_out.shape[1]
    half = torch.nn.functional.layer_norm(x, (d,), norm_weight, norm_bias).half().view(-1, d)
    weights = torch.cat([left_proj, right_proj, left_gate, right_gate, out_gate]).half()
    p = half @ weights.T
    del half
    left = torch.empty(b * h, n, n, dtype=torch.float16, device=x.device)
    right = torch.empty_like(left)
    grid = (n, triton.cdiv(n, 32), b)
    gate_kernel[grid](p, mask, left, right, n, BLOCK=32, H=h, num_warps=4)
    o = torch.bmm(left, right.transpose(1, 2), out_dtype=torch.float32)
    del left, right
    z = torch.empty(b * n * n, h, dtype=torch.float16, device=x.device)
    finish_kernel[grid](o, p, out_norm_weight, out_norm_bias, z, n, BLOCK=32, H=h, num_warps=4)
    return (z @ to_out.half().T).float().view(b, n, n, d)
"""

_CHECKS = (
    (32, 1, 128, False, False), (32, 1, 128, True, False), (64, 2, 256, False, False), (64, 2, 256, True, False),
    (128, 1, 768, False, False), (256, 1, 128, False, False), (256, 1, 128, True, False), (768, 2, 128, False, False),
    (1024, 1, 384, True, False), (1024, 1, 768, False, False), (1024, 1, 768, True, False), (32, 1, 128, False, True),
    (64, 2, 256, False, True), (128, 1, 768, False, True), (256, 1, 128, False, True), (768, 2, 128, False, True),
    (1024, 1, 384, True, True), (1024, 1, 768, True, True),
)  # fmt: skip
_TIMED = (
    (256, 2, 128, False, False), (768, 1, 128, False, True), (256, 2, 384, True, False), (512, 1, 128, False, False),
    (1024, 1, 128, False, True), (768, 1, 384, True, False), (1024, 1, 384, False, False),
)  # fmt: skip


def _workload(kind: str, number: int, size: tuple[int, int, int, bool, bool]) -> Workload:
    n, batch, dim, masked, cauchy = size
    return Workload(
        name=f"{kind}-{number}",
        axes={"batch": batch, "n": n, "dim": dim},
        params={"masked": masked, "cauchy": cauchy},
        timed=kind == "timed",
    )


def task(
    checks: int = len(_CHECKS), timed: tuple[int, ...] = tuple(range(len(_TIMED))), timeout_s: float = 120
) -> Task:
    """Return the task with its first `checks` checks and the timed sizes of these numbers."""
    row = Tensor(shape=("hidden", "dim"), dtype="float32")
    x = Tensor(shape=("batch", "n", "n", "dim"), dtype="float32")
    return Task(
        name="trimul-gpu",
        description="Triangle multiplicative update, outgoing.",
        device="cuda",
        constants={"hidden": H},
        axes=("batch", "n", "dim"),
        inputs={
            "x": x,
            "mask": Tensor(shape=("batch", "n", "n"), dtype="float32"),
            "norm_weight": Tensor(shape=("dim",), dtype="float32"),
            "norm_bias": Tensor(shape=("dim",), dtype="float32"),
            **{name: row for name in ("left_proj", "right_proj", "left_gate", "right_gate", "out_gate")},
            "out_norm_weight": Tensor(shape=("hidden",), dtype="float32"),
            "out_norm_bias": Tensor(shape=("hidden",), dtype="float32"),
            "to_out": Tensor(shape=("dim", "hidden"), dtype="float32"),
        },
        outputs={"y": x},
        workloads=(
            *(_workload("check", number, size) for number, size in enumerate(_CHECKS[:checks])),
            *(_workload("timed", number, _TIMED[number]) for number in timed),
        ),
        tolerance=Tolerance(rtol=2e-2, atol=2e-2),
        contracts={"triton": Contract(entry_point="run", binding="value")},
        reference=REFERENCE,
        timeout_s=timeout_s,
    )


def program(text: str = PROGRAM) -> Solution:
    """Return a Triton program for the task."""
    return Solution(files={"kernel.py": text}, language="triton", entry_point="run", binding="value")


BROKEN = program(PROGRAM.replace("1e-5", "1e+5"))
"""Wrong from the first check on."""
