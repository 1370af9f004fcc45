"""Outgoing triangle multiplicative update, the plain way."""

import torch
import torch.nn.functional as F


def trimul(
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
    y,
):
    """Write the update of x: [batch, n, n, dim] into y: [batch, n, n, dim]."""
    h = F.layer_norm(x, norm_gamma.shape, norm_gamma, norm_beta, 1e-5)
    keep = mask.unsqueeze(-1)
    left = F.linear(h, left_proj) * keep * torch.sigmoid(F.linear(h, left_gate))
    right = F.linear(h, right_proj) * keep * torch.sigmoid(F.linear(h, right_gate))
    o = torch.einsum("bikc,bjkc->bijc", left, right)
    normed = F.layer_norm(o, out_norm_gamma.shape, out_norm_gamma, out_norm_beta, 1e-5)
    y.copy_(F.linear(normed * torch.sigmoid(F.linear(h, out_gate)), out_proj))
