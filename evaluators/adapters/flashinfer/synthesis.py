"""Makes inputs of a definition: numbers, stored tensors, random tensors, and indices that fit together.

The text of this file becomes a part of the task's reference: it needs only the standard library, numpy and torch.
"""

import hashlib
from typing import Any

import numpy as np
import torch

Json = dict[str, Any]
INT_KINDS = {"int8": (-128, 128)}
OTHER_INTS = (-1024, 1024)
EIGHT_BIT = ("float8_e4m3fn", "float8_e5m2")
BIAS_MEAN, BIAS_SPREAD = -0.6, 0.03
"""Of a routing bias: the spread is small beside that of the scores, so that tokens choose different experts."""


def make_inputs(spec: Json, axes: dict[str, int], params: Json, seed: int) -> Json:
    """Return a definition's inputs by name. `spec`: `inputs` (shape, dtype), `device` and the folder's `root`.

    `params`: `stored_NAME`, where a tensor is stored; `NAME`, a number's value; `layout`: see `_slots`.
    """
    device = "cuda" if spec["device"] == "cuda" and torch.cuda.is_available() else "cpu"
    draw = _Draw(torch.Generator(device=device).manual_seed(seed), device)
    indices = _indices(spec["inputs"], axes, params, draw)
    return {name: _input(name, spec, axes, params, indices, draw) for name in spec["inputs"]}


def total_axis(inputs: Json, prefix: str) -> str | None:
    """Return the axis of what `PREFIX_indptr` divides among sequences, None when it cannot be told."""
    wanted = {axis for argument in inputs.values() for axis in argument["shape"] or ()}
    if f"{prefix}_indices" in inputs:
        axis: str = inputs[f"{prefix}_indices"]["shape"][0]
        return axis
    names = (f"total_{prefix}", f"total_{prefix[:1]}", f"num_{prefix}_tokens")
    return next((name for name in names if name in wanted), None)


def is_index(name: str, argument: Json, inputs: Json) -> bool:
    """Return whether an input holds indices that are made so that they fit together."""
    if argument["shape"] is None or not argument["dtype"].startswith("int") or len(argument["shape"]) != 1:
        return False
    if name.endswith("_indptr"):
        return total_axis(inputs, name[: -len("_indptr")]) is not None
    if name.endswith("_indices"):
        return name[: -len("indices")] + "indptr" in inputs and _pages_axis(inputs) is not None
    return name.endswith("last_page_len")


class _Draw:
    """Random tensors of one seed."""

    def __init__(self, generator: torch.Generator, device: str) -> None:
        self.generator, self.device = generator, device

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator, device=self.device)

    def below(self, low: int, high: int, shape: list[int]) -> torch.Tensor:
        return torch.randint(low, high, tuple(shape), generator=self.generator, device=self.device)

    def uniform(self, *shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=self.generator, device=self.device)


def _input(name: str, spec: Json, axes: dict[str, int], params: Json, indices: Json, draw: _Draw) -> Any:
    argument = spec["inputs"][name]
    if argument["shape"] is None:
        return _number(name, argument, params, draw)
    shape = [axes[axis] for axis in argument["shape"]]
    if f"stored_{name}" in params:
        return _stored(name, spec, shape, params[f"stored_{name}"]).to(draw.device)
    if name in indices:
        return indices[name].to(getattr(torch, argument["dtype"]))
    return _random(name, argument["dtype"], shape, draw)


def _number(name: str, argument: Json, params: Json, draw: _Draw) -> Any:
    if name in params:
        return params[name]
    return float(draw.normal(1)) if argument["dtype"].startswith(("float", "bfloat")) else int(draw.below(0, 2, [1]))


def _random(name: str, dtype: str, shape: list[int], draw: _Draw) -> torch.Tensor:
    kind = getattr(torch, dtype)
    if dtype == "bool":
        return draw.below(0, 2, shape).bool()
    if dtype.startswith("int"):
        return draw.below(*INT_KINDS.get(dtype, OTHER_INTS), shape).to(kind)
    if name.endswith("routing_bias"):
        return (BIAS_MEAN + BIAS_SPREAD * draw.normal(*shape)).to(kind)
    made = torch.empty(shape, dtype=kind, device=draw.device)
    for part in made if len(shape) > 2 else [made]:  # a part at a time: less memory
        values = draw.normal(*part.shape)
        part.copy_(values.clamp_(-2.0, 2.0) if dtype in EIGHT_BIT else values)
    if name == "probs":
        return torch.softmax(made.float(), dim=-1).to(kind)
    return made


def _stored(name: str, spec: Json, shape: list[int], where: str) -> torch.Tensor:
    """Return a tensor from a safetensors file, `sha256:first byte:dtype:path`; the file must be what it was."""
    digest, start, dtype, path = where.split(":", 3)
    with open(f"{spec['root']}/{path}", "rb") as file:
        data = file.read()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{name}: {path} is not the file that the task was made with")
    kind = getattr(torch, dtype)
    count = int(np.prod(shape))
    flat = np.frombuffer(data, dtype=np.uint8, count=count * kind.itemsize, offset=int(start))
    return torch.from_numpy(flat.copy()).view(kind).view(shape)


def _pages_axis(inputs: Json) -> str | None:
    for name, argument in inputs.items():
        if name.endswith("_cache") and argument["shape"]:
            axis: str = argument["shape"][0]
            return axis
    return None


def _indices(inputs: Json, axes: dict[str, int], params: Json, draw: _Draw) -> dict[str, torch.Tensor]:
    """Return indptr, indices and last-page lengths that fit together; what a file gives is left out."""
    lengths: dict[str, torch.Tensor] = {}
    for prefix in ("qo", "q", "kv", *(name[: -len("_indptr")] for name in inputs if name.endswith("_indptr"))):
        name = f"{prefix}_indptr"
        if name in inputs and prefix not in lengths and is_index(name, inputs[name], inputs):
            at_least = _at_least(prefix, inputs, axes, lengths, draw)
            lengths[prefix] = _lengths(axes[total_axis(inputs, prefix) or ""], at_least, draw)
    made = {f"{prefix}_indptr": _indptr(value) for prefix, value in lengths.items()}
    for name, argument in inputs.items():
        if name.endswith("_indices") and is_index(name, argument, inputs):
            pages = axes[_pages_axis(inputs) or ""]
            made[name] = _slots(lengths[name[: -len("_indices")]], pages, params.get("layout", "pool"), draw)
        if name.endswith("last_page_len") and is_index(name, argument, inputs):
            size = axes.get("page_size", 1)
            low = size if {"qo", "q"} & set(lengths) else 1
            made[name] = draw.below(low, size + 1, [axes[argument["shape"][0]]])
    return made


def _at_least(
    prefix: str, inputs: Json, axes: dict[str, int], lengths: dict[str, torch.Tensor], draw: _Draw
) -> torch.Tensor:
    """One for each sequence; for keys as many (in pages) as the sequence has queries."""
    count = axes[inputs[f"{prefix}_indptr"]["shape"][0]] - 1
    queries = lengths.get("qo", lengths.get("q"))
    if prefix != "kv" or queries is None:
        return torch.ones(count, dtype=torch.int64, device=draw.device)
    size = axes.get("page_size", 1) if "kv_indices" in inputs else 1
    return (queries + size - 1) // size


def _lengths(total: int, at_least: torch.Tensor, draw: _Draw) -> torch.Tensor:
    """Return ragged lengths, each at least its item of `at_least`, that sum to `total`."""
    spare = total - int(at_least.sum())
    if spare < 0:
        raise ValueError(
            f"{total} tokens are too few for {len(at_least)} sequences of at least {at_least.tolist()[:9]}"
        )
    weights = torch.exp(0.8 * draw.normal(len(at_least)))
    edges = torch.round(torch.cumsum(weights, 0) / weights.sum() * spare).long()
    edges[-1] = spare
    return at_least + torch.diff(edges, prepend=edges.new_zeros(1))


def _slots(lengths: torch.Tensor, pages: int, layout: str, draw: _Draw) -> torch.Tensor:
    """Return the distinct slots of all tokens, sequence by sequence, in [1, pages) (from 0 where that is too few).

    `pool`: as a serving engine hands them out, a run for each prompt, then one slot in turn to every sequence that
    still decodes. `permuted`: no order at all.
    """
    total, begin = int(lengths.sum()), 1
    if total >= pages:
        begin = 0
    if total > pages:
        raise ValueError(f"{total} distinct slots are more than {pages} pages")
    if layout == "permuted":
        return torch.randperm(pages - begin, generator=draw.generator, device=draw.device)[:total] + begin
    prompts = (lengths * (0.5 + 0.5 * draw.uniform(len(lengths)))).long()
    row = torch.repeat_interleave(torch.arange(len(lengths), device=draw.device), lengths)
    token = torch.arange(total, device=draw.device)
    step = token - torch.repeat_interleave(torch.cumsum(lengths, 0) - lengths, lengths) - prompts[row]
    turn = torch.where(step < 0, token, total + step * len(lengths) + row)
    order = torch.empty_like(token)
    order[torch.argsort(turn)] = token
    return order + begin + int(draw.below(0, pages - begin - total + 1, [1]))


def _indptr(lengths: torch.Tensor) -> torch.Tensor:
    return torch.cat([lengths.new_zeros(1), torch.cumsum(lengths, 0)])
