"""RMSNorm, linear layer and SiLU in float32."""

import torch
import torch.nn.functional as F

EPSILON = 1e-5


def inputs(axes, params, seed):
    """Return x, gamma, weight, bias. Tokens are scaled by up to 10^(+-decades)."""
    tokens, dim, outs = axes["tokens"], axes["dim"], axes["outs"]
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    decades = params.get("decades", 1.0)
    x = normal(tokens, dim) + 0.5 * normal(1, dim) + 0.3
    x = torch.where(torch.rand(tokens, dim, generator=generator) < 0.002, 15.0 * x, x)
    x = x * 10.0 ** (decades * (2.0 * torch.rand(tokens, 1, generator=generator) - 1.0))
    return {
        "x": x,
        "gamma": 1.0 + 0.5 * normal(dim),
        "weight": normal(outs, dim) / dim**0.5,
        "bias": normal(outs),
    }


def reference(x, gamma, weight, bias):
    """Return y: [tokens, outs], computed in float64."""
    x, gamma, weight, bias = x.double(), gamma.double(), weight.double(), bias.double()
    normed = x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + EPSILON) * gamma
    return F.silu(normed @ weight.T + bias).float()


def baseline(x, gamma, weight, bias):
    """Return the same in float32, as a user would write it."""
    normed = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + EPSILON) * gamma
    return F.silu(F.linear(normed, weight, bias))


def floor(axes):
    """Each tensor is moved once; every product of a token and a weight is a multiplication and an addition."""
    tokens, dim, outs = axes["tokens"], axes["dim"], axes["outs"]
    elements = tokens * dim + dim + outs * dim + outs + tokens * outs
    return {"bytes": 4 * elements, "operations": 2 * tokens * dim * outs}
