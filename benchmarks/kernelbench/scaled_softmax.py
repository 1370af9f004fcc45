"""Scaled rows, softmax and a sum of squares, in KernelBench's format: nothing but elementwise work and reductions."""

import torch
from torch import nn


class Model(nn.Module):
    """Has no parameters."""

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """Return [rows] of x: [rows, columns] and scale: [columns]."""
        return torch.softmax(x * scale, dim=1).square().sum(dim=1)


def get_inputs() -> list[torch.Tensor]:
    """Return what `forward` is called with."""
    return [torch.randn(16384, 4096), torch.rand(4096)]


def get_init_inputs() -> list[int]:
    """Return what the model is made with."""
    return []
