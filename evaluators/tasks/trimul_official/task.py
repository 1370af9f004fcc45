"""Types of the problem."""

from typing import Any

import torch

input_t = tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor], dict[str, Any]]
output_t = torch.Tensor
