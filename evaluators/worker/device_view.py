"""Tensors over device memory that torch did not allocate."""

from typing import Any

import torch


class _Raw:
    """Bytes at an address, in the form in which torch takes them over."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
            "stream": None,
        }


def view(address: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return the contiguous tensor at `address` of this device; whoever mapped the memory must keep it mapped."""
    nbytes = dtype.itemsize
    for size in shape:
        nbytes *= size
    raw: Any = _Raw(address, nbytes)
    return torch.as_tensor(raw, device="cuda").view(dtype).view(shape)
