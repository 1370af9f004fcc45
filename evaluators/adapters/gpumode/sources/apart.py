"""Nested `data` taken apart into numbers and tensors by name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

Steps = tuple[Any, ...]
"""Where a leaf is: places in tuples and lists, keys of dicts."""


def leaves(data: Any, path: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """Yield (path, leaf) of nested tuples, lists and dicts."""
    if isinstance(data, (tuple, list)):
        for place, item in enumerate(data):
            yield from leaves(item, (*path, place))
    elif isinstance(data, dict):
        for key, item in data.items():
            yield from leaves(item, (*path, key))
    else:
        yield path, data


def arguments(data: Any, names: Sequence[Sequence[Any]], promoted: Mapping[str, str]) -> dict[str, Any]:
    """Return the leaves that have a name in `names` ([path, name or None], ...), each in one type whatever the case."""
    values = dict(leaves(data))
    return {name: _typed(values[tuple(path)], promoted.get(name)) for path, name in names if name is not None}


def _typed(value: Any, dtype: str | None) -> Any:
    if dtype is not None:
        return value.to(getattr(torch, dtype))
    return int(value) if isinstance(value, bool) else value
