"""Outgoing triangle multiplicative update: two plain Triton kernels around matrix products of torch."""

import torch
import triton
import triton.language as tl


@triton.jit
def _normalise(x, weight, bias, y, rows, size, BLOCK: tl.constexpr):
    """Write the layer norm of each row of x: [rows, size] into y; one program a row."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < size
    value = tl.load(x + row * size + columns, mask=inside, other=0.0)
    mean = tl.sum(value, axis=0) / size
    centred = tl.where(inside, value - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / size + 1e-5)
    gamma = tl.load(weight + columns, mask=inside, other=0.0)
    beta = tl.load(bias + columns, mask=inside, other=0.0)
    tl.store(y + row * size + columns, centred * scale * gamma + beta, mask=inside)


@triton.jit
def _gate(projected, gates, mask, y, count, per_row, BLOCK: tl.constexpr):
    """Write projected * sigmoid(gates) * mask of the row into y, all flat: [count], rows of per_row elements."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    value = tl.load(projected + place, mask=inside, other=0.0)
    gate = tl.load(gates + place, mask=inside, other=0.0)
    keep = tl.load(mask + place // per_row, mask=inside, other=0.0)
    tl.store(y + place, value / (1.0 + tl.exp(-gate)) * keep, mask=inside)


def _norm(value, weight, bias):
    size = value.shape[-1]
    rows = value.numel() // size
    y = torch.empty_like(value)
    _normalise[(rows,)](value, weight, bias, y, rows, size, BLOCK=triton.next_power_of_2(size))
    return y


def _gated(projected, gates, mask):
    y = torch.empty_like(projected)
    count = projected.numel()
    _gate[(triton.cdiv(count, 1024),)](projected, gates, mask, y, count, projected.shape[-1], BLOCK=1024)
    return y


def custom_kernel(data):
    """Return the update of (input, mask, weights, config): [batch, n, n, dim] float32."""
    values, mask, weights, _ = data
    h = _norm(values.contiguous(), weights["norm.weight"], weights["norm.bias"])
    mask = mask.to(torch.float32).contiguous()

    def project(name):
        return torch.nn.functional.linear(h, weights[f"{name}.weight"])

    left = _gated(project("left_proj"), project("left_gate"), mask)
    right = _gated(project("right_proj"), project("right_gate"), mask)
    o = torch.matmul(left.permute(0, 3, 1, 2), right.permute(0, 3, 2, 1)).permute(0, 2, 3, 1).contiguous()
    normed = _norm(o, weights["to_out_norm.weight"], weights["to_out_norm.bias"])
    gated = _gated(normed, project("out_gate"), torch.ones_like(mask))
    return torch.nn.functional.linear(gated, weights["to_out.weight"])
