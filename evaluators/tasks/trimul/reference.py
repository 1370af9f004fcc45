"""Outgoing triangle multiplicative update in float32, at the sizes of GPU MODE's problem; fresh weights, true masks."""

import math

import torch
import torch.nn.functional as F

EPSILON = 1e-5
CAUCHY_LIMIT = 1e7
"""What heavy-tailed values are cut at: beyond the range of half precision."""
BYTES_PER_S, OPERATIONS_PER_S = 4.3e12, 790e12
"""An H200's, as measured: copies, and products of matrices in half precision."""


def inputs(axes, params, seed):
    """Return the pair representation, a 0/1 mask and the weights, all drawn from the seed.

    `distribution` is normal, cauchy or edges (equal rows, zero rows, a feature with a large gamma); `mask` is random,
    padding (the last rows and columns are left out), holes (random, with whole rows of zeros) or ones.
    """
    batch, n, dim, hidden = axes["batch"], axes["n"], axes["dim"], axes["hidden"]
    # On the processor the largest would take ten seconds each.
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, device=device)

    distribution = params.get("distribution", "normal")
    if distribution == "cauchy":
        uniform = torch.rand(batch, n, n, dim, generator=generator, device=device)
        x = torch.tan(math.pi * (uniform - 0.5)).clamp(-CAUCHY_LIMIT, CAUCHY_LIMIT)
    else:
        x = normal(batch, n, n, dim)
    norm_weight = 1.0 + 0.5 * normal(dim)
    if distribution == "edges":
        x[:, 0] = x[:, 0, :1, :1]
        x[:, -1] = 0.0
        norm_weight[dim // 2] = 30.0
    return {
        "x": x,
        "mask": _mask(params.get("mask", "random"), batch, n, generator),
        "norm_weight": norm_weight,
        "norm_bias": 0.5 * normal(dim),
        **{
            name: normal(hidden, dim) / hidden**0.5
            for name in ("left_proj", "right_proj", "left_gate", "right_gate", "out_gate")
        },
        "to_out_norm_weight": 1.0 + 0.5 * normal(hidden),
        "to_out_norm_bias": 0.5 * normal(hidden),
        "to_out": normal(dim, hidden) / dim**0.5,
    }


def _mask(kind, batch, n, generator):
    device = generator.device
    if kind == "ones":
        return torch.ones(batch, n, n, device=device)
    if kind == "padding":
        lengths = torch.randint(max(1, n // 2), n + 1, (batch, 1), generator=generator, device=device)
        inside = torch.arange(n, device=device)[None, :] < lengths
        return (inside[:, :, None] & inside[:, None, :]).float()
    mask = torch.randint(0, 2, (batch, n, n), generator=generator, device=device).float()
    if kind == "holes":
        mask[:, :: max(2, n // 4)] = 0.0
    return mask


def reference(
    x,
    mask,
    norm_weight,
    norm_bias,
    left_proj,
    right_proj,
    left_gate,
    right_gate,
    out_gate,
    to_out_norm_weight,
    to_out_norm_bias,
    to_out,
):
    """Return y: [batch, n, n, dim] float32, computed without reduced precision."""
    allowed, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
    h = F.layer_norm(x, norm_weight.shape, norm_weight, norm_bias, EPSILON)
    keep = mask.unsqueeze(-1)
    left = F.linear(h, left_proj) * keep * torch.sigmoid(F.linear(h, left_gate))
    right = F.linear(h, right_proj) * keep * torch.sigmoid(F.linear(h, right_gate))
    # [batch, hidden, n, n]: one matrix product per channel.
    o = torch.matmul(left.permute(0, 3, 1, 2), right.permute(0, 3, 2, 1)).permute(0, 2, 3, 1)
    gate = torch.sigmoid(F.linear(h, out_gate))
    normed = F.layer_norm(o, to_out_norm_weight.shape, to_out_norm_weight, to_out_norm_bias, EPSILON)
    y = F.linear(normed * gate, to_out)
    torch.backends.cuda.matmul.allow_tf32 = allowed
    return y


def floor(axes):
    """Only x and y are moved; five projections, the sum over the third node by channel, and the one behind it.

    In practice there are three kernels, as the sum needs all of its half-precision operands and the norm behind it all
    channels: each as fast as an H200's memory or its matrix units let it be.
    """
    pairs, dim, hidden = axes["batch"] * axes["n"] ** 2, axes["dim"], axes["hidden"]
    x = 4 * pairs * dim
    half = 2 * pairs * hidden
    projections, contraction, last = (
        2 * pairs * dim * 5 * hidden,
        2 * pairs * axes["n"] * hidden,
        2 * pairs * hidden * dim,
    )
    kernels = ((x + 3 * half, projections), (3 * half, contraction), (2 * half + x, last))
    return {
        "bytes": 2 * x,
        "operations": projections + contraction + last,
        "practical_us": 1e6 * sum(max(nbytes / BYTES_PER_S, count / OPERATIONS_PER_S) for nbytes, count in kernels),
    }
