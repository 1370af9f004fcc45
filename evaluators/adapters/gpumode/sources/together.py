"""Nested `data` put together of arguments."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

BUFFER = "preallocated"
"""How inputs are called in whose place a program gets memory for its result."""


def together(shape: Sequence[Any], values: Mapping[str, Any]) -> Any:
    """Return `data`, made anew of the arguments `values`.

    `shape` is ["tuple" or "list", [shape, ...]], ["dict", [[key, shape], ...]], or a leaf: ["constant", itself],
    ["input", name], ["flag", name] (a truth value that is handed over as a number).
    """
    kind, content = shape
    if kind == "dict":
        return {key: together(item, values) for key, item in content}
    if kind in ("tuple", "list"):
        return (tuple if kind == "tuple" else list)(together(item, values) for item in content)
    if kind == "constant":
        return content
    value = values[content]
    if kind == "flag":
        return bool(value)
    return torch.empty_like(value) if content.startswith(BUFFER) else value


def result(answer: Any) -> Any:
    """Return the output itself where it is the only one of a tuple."""
    return answer[0] if isinstance(answer, (tuple, list)) and len(answer) == 1 else answer
