"""Outgoing triangle multiplicative update in float32."""

import torch
import torch.nn.functional as F

EPSILON = 1e-5


def inputs(axes, params, seed):
    """Return the pair representation, a true 0/1 mask and the weights.

    `density` is the mask's share of ones, `offset` the size of each pair's distance from zero.
    """
    batch, n, dim, hidden = axes["batch"], axes["n"], axes["dim"], axes["hidden"]
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    def uniform(*shape):
        return torch.rand(*shape, generator=generator)

    x = normal(batch, n, n, dim) * (0.5 + 2.0 * uniform(batch, n, n, 1))
    x = x + 0.5 * normal(dim) + params.get("offset", 2.0) * normal(batch, n, n, 1)
    x = torch.where(uniform(batch, n, n, dim) < 0.002, 8.0 * x, x)
    mask = (uniform(batch, n, n) < params.get("density", 0.7)) & (uniform(batch, n, 1) < 0.95)
    matrices = {
        name: normal(hidden, dim) / dim**0.5
        for name in ("left_proj", "right_proj", "left_gate", "right_gate", "out_gate")
    }
    return {
        "x": x,
        "mask": mask.float(),
        "norm_gamma": 1.0 + 0.4 * normal(dim),
        "norm_beta": 0.4 * normal(dim),
        **matrices,
        "out_norm_gamma": 1.0 + 0.4 * normal(hidden),
        "out_norm_beta": 0.4 * normal(hidden),
        "out_proj": normal(dim, hidden) / hidden**0.5,
    }


def reference(
    x,
    mask,
    norm_gamma,
    norm_beta,
    left_proj,
    right_proj,
    left_gate,
    right_gate,
    out_gate,
    out_norm_gamma,
    out_norm_beta,
    out_proj,
):
    """Return y: [batch, n, n, dim], computed in float64."""
    h = _layer_norm(x.double(), norm_gamma.double(), norm_beta.double())
    keep = mask.double().unsqueeze(-1)
    left = (h @ left_proj.double().T) * keep * torch.sigmoid(h @ left_gate.double().T)
    right = (h @ right_proj.double().T) * keep * torch.sigmoid(h @ right_gate.double().T)
    o = torch.einsum("bikc,bjkc->bijc", left, right)
    gate = torch.sigmoid(h @ out_gate.double().T)
    normed = _layer_norm(o, out_norm_gamma.double(), out_norm_beta.double())
    return ((normed * gate) @ out_proj.double().T).float()


def baseline(
    x,
    mask,
    norm_gamma,
    norm_beta,
    left_proj,
    right_proj,
    left_gate,
    right_gate,
    out_gate,
    out_norm_gamma,
    out_norm_beta,
    out_proj,
):
    """Return the same in float32, as a user would write it."""
    h = F.layer_norm(x, norm_gamma.shape, norm_gamma, norm_beta, EPSILON)
    keep = mask.unsqueeze(-1)
    left = F.linear(h, left_proj) * keep * torch.sigmoid(F.linear(h, left_gate))
    right = F.linear(h, right_proj) * keep * torch.sigmoid(F.linear(h, right_gate))
    o = torch.einsum("bikc,bjkc->bijc", left, right)
    gate = torch.sigmoid(F.linear(h, out_gate))
    normed = F.layer_norm(o, out_norm_gamma.shape, out_norm_gamma, out_norm_beta, EPSILON)
    return F.linear(normed * gate, out_proj)


def floor(axes):
    """Each tensor is moved once; six products with weights and the sum over the triangle's third node."""
    pairs = axes["batch"] * axes["n"] ** 2
    dim, hidden = axes["dim"], axes["hidden"]
    elements = pairs * (2 * dim + 1) + 6 * dim * hidden + 2 * (dim + hidden)
    return {"bytes": 4 * elements, "operations": 2 * pairs * hidden * (6 * dim + axes["n"])}


def _layer_norm(v, gamma, beta):
    centred = v - v.mean(dim=-1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(dim=-1, keepdim=True) + EPSILON) * gamma + beta
