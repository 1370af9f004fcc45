"""The triangle multiplicative update, its inputs and its check, under the format's official protocol."""

import math

import torch
import torch.nn.functional as F
from task import input_t, output_t
from utils import make_match_reference

EPSILON = 1e-5
_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def generate_input(seqlen, bs, dim, hiddendim, seed, nomask, distribution) -> input_t:
    """Return (input, mask, weights, config). Weights and Cauchy values come from the global generator, not the seed."""
    generator = torch.Generator(device=_DEVICE).manual_seed(seed)
    shape = (bs, seqlen, seqlen, dim)
    if distribution == "cauchy":
        data = torch.tan(math.pi * (torch.rand(shape, device=_DEVICE) - 0.5)).clamp(-1e7, 1e7)
    else:
        data = torch.randn(shape, device=_DEVICE, generator=generator)
    if nomask:
        mask = torch.ones(bs, seqlen, seqlen, device=_DEVICE)
    else:
        mask = torch.randint(0, 2, (bs, seqlen, seqlen), device=_DEVICE, generator=generator).to(torch.float32)
    weights = {"norm.weight": torch.randn(dim, device=_DEVICE), "norm.bias": torch.randn(dim, device=_DEVICE)}
    for name in ("left_proj", "right_proj", "left_gate", "right_gate", "out_gate"):
        weights[f"{name}.weight"] = torch.randn(hiddendim, dim, device=_DEVICE) / math.sqrt(hiddendim)
    weights["to_out_norm.weight"] = torch.randn(hiddendim, device=_DEVICE)
    weights["to_out_norm.bias"] = torch.randn(hiddendim, device=_DEVICE)
    weights["to_out.weight"] = torch.randn(dim, hiddendim, device=_DEVICE) / math.sqrt(dim)
    return data, mask, weights, {"hidden_dim": hiddendim, "dim": dim}


def ref_kernel(data: input_t) -> output_t:
    """Return the update in float32: [bs, seqlen, seqlen, dim]."""
    values, mask, weights, config = data
    torch.backends.cudnn.allow_tf32 = False
    n = F.layer_norm(values, (config["dim"],), weights["norm.weight"], weights["norm.bias"], EPSILON)
    keep = mask.unsqueeze(-1).to(values.dtype)

    def gated(side):
        return (
            F.linear(n, weights[f"{side}_proj.weight"]) * keep * F.linear(n, weights[f"{side}_gate.weight"]).sigmoid()
        )

    left, right = gated("left"), gated("right")
    summed = torch.matmul(left.permute(0, 3, 1, 2), right.permute(0, 3, 2, 1)).permute(0, 2, 3, 1)
    norm = F.layer_norm(
        summed, (config["hidden_dim"],), weights["to_out_norm.weight"], weights["to_out_norm.bias"], EPSILON
    )
    return F.linear(norm * F.linear(n, weights["out_gate.weight"]).sigmoid(), weights["to_out.weight"])


check_implementation = make_match_reference(ref_kernel, rtol=2e-2, atol=2e-2)
