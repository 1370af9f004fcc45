"""Row softmax in float32."""

import torch


def inputs(axes, params, seed):
    """Return x: [rows, cols] float32. `spread` scales the values, `offset` moves whole rows away from zero."""
    rows, cols = axes["rows"], axes["cols"]
    generator = torch.Generator().manual_seed(seed)
    spread, offset = params.get("spread", 1.0), params.get("offset", 10.0)
    outlier = torch.rand(rows, 1, generator=generator) < 0.25
    equal = torch.rand(rows, 1, generator=generator) < 0.02
    scale = spread * (0.5 + 3.0 * torch.rand(rows, 1, generator=generator)) * ~equal
    shift = offset * torch.randn(rows, 1, generator=generator)
    x = torch.randn(rows, cols, generator=generator).mul_(scale).add_(shift)
    place = torch.randint(cols, (rows, 1), generator=generator)
    size = (8.0 * torch.rand(rows, 1, generator=generator) + 4.0) * (outlier & ~equal)
    return {"x": x.scatter_add_(1, place, size)}


def reference(x):
    """Return the softmax of every row, computed in float64."""
    return torch.softmax(x.double(), dim=-1).float()


def baseline(x):
    """Return the same in float32, as a user would write it."""
    return torch.softmax(x, dim=-1)


def floor(axes):
    """Each element is read and written once, and takes a comparison, a subtraction, an exponential, a sum, a scale."""
    elements = axes["rows"] * axes["cols"]
    return {"bytes": 8 * elements, "operations": 5 * elements}
