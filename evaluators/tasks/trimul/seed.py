"""Outgoing triangle multiplicative update, the plain way."""

import torch


def custom_kernel(data):
    """Return the update of (input, mask, weights, config): [batch, n, n, dim] float32."""
    values, mask, weights, config = data
    hidden, dim = config["hidden_dim"], config["dim"]

    def norm(value, size, name):
        return torch.nn.functional.layer_norm(value, (size,), weights[f"{name}.weight"], weights[f"{name}.bias"])

    h = norm(values, dim, "norm")
    sides = torch.cat([weights[f"{name}.weight"] for name in ("left_proj", "right_proj")])
    gates = torch.cat([weights[f"{name}.weight"] for name in ("left_gate", "right_gate")])
    both = (h @ sides.t()) * (h @ gates.t()).sigmoid() * mask.unsqueeze(-1)
    left, right = both.split(hidden, dim=-1)
    o = torch.einsum("bikc,bjkc->bijc", left, right)
    gated = norm(o, hidden, "to_out_norm") * (h @ weights["out_gate.weight"].t()).sigmoid()
    return gated @ weights["to_out.weight"].t()
