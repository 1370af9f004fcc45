"""What nested data looks like: names for its leaves, and the shape by which it is put together again."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from evaluators.adapters.gpumode.sources.apart import Steps
from evaluators.adapters.gpumode.sources.together import BUFFER


class Refused(Exception):
    """The data cannot be taken apart; the message says why."""


def is_flat(leaf: Any) -> bool:
    """Return whether a leaf can be an argument as it is."""
    return isinstance(leaf, (torch.Tensor, int, float)) and not isinstance(leaf, bool)


def name_of(path: Steps, *, buffer: bool) -> str:
    """Return how the argument is called that stands at `path`; `buffer`: it is memory for the result."""
    words = [step for step in path if isinstance(step, str)] or ["data", *map(str, path)]
    name = re.sub(r"[^A-Za-z0-9_]", "_", "_".join(words))
    if name[:1].isdigit() or not name:
        name = "data_" + name
    return f"{BUFFER}_{name}" if buffer else name


def shape_of(
    data: Any, names: Mapping[Steps, str], flags: Mapping[Steps, Sequence[Any]], path: Steps = ()
) -> list[Any]:
    """Return the shape by which `together` makes `data` of arguments.

    Args:
        data: Nested tuples, lists and dicts.
        names: The arguments' names, by the leaves' paths.
        flags: What becomes of truth values and words that differ from case to case, by their paths: ["left out"],
            ["always", value], or else what `names` says.
        path: Where `data` is in the whole.

    Raises Refused for a leaf that can be neither an argument nor a constant.
    """
    if isinstance(data, dict):
        held = [key for key in data if flags.get((*path, key)) != ["left out"]]
        return ["dict", [[key, shape_of(data[key], names, flags, (*path, key))] for key in held]]
    if isinstance(data, (tuple, list)):
        items = [shape_of(item, names, flags, (*path, place)) for place, item in enumerate(data)]
        return ["list" if type(data) is list else "tuple", items]
    if path in flags:
        return ["flag", names[path]] if path in names else ["constant", flags[path][-1]]
    if not is_flat(data) and not isinstance(data, (str, bool, type(None))):
        raise Refused(f"generate_input: puts a {type(data).__name__} into its data, neither tensor, number nor word")
    return ["input", names[path]] if path in names else ["constant", data]


def replaced(data: Any, values: Mapping[Steps, Any], path: Steps = ()) -> Any:
    """Return `data` with the leaves in `values` (path -> leaf) in place of its own."""
    if isinstance(data, dict):
        return {key: replaced(item, values, (*path, key)) for key, item in data.items()}
    if isinstance(data, (tuple, list)):
        items = [replaced(item, values, (*path, place)) for place, item in enumerate(data)]
        return type(data)(items) if type(data) in (tuple, list) else type(data)(*items)
    return values.get(path, data)
