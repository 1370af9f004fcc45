"""A linear layer, GELU and a layer norm over its rows, in KernelBench's format."""

import torch
from torch import nn


class Model(nn.Module):
    """The layers one after the other."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width_in, width_out)
        self.norm = nn.LayerNorm(width_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [rows, width_out] of x: [rows, width_in]."""
        normed: torch.Tensor = self.norm(nn.functional.gelu(self.linear(x)))
        return normed


def get_inputs() -> list[torch.Tensor]:
    """Return what `forward` is called with."""
    return [torch.randn(8192, 512)]


def get_init_inputs() -> list[int]:
    """Return what the model is made with."""
    return [512, 2048]
