"""What a problem's `data` is like in all its cases: which parts become arguments, of which types, and what differs."""

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from evaluators.adapters.gpumode.sources.apart import Steps, leaves
from evaluators.adapters.gpumode.sources.problem import Problem
from evaluators.adapters.gpumode.sources.shape import Refused, is_flat, name_of, replaced, shape_of


@dataclass(frozen=True)
class Case:
    """What was seen of one case's data."""

    axes: Mapping[str, int]
    params: Mapping[str, Any]
    kinds: Mapping[Steps, str]
    """The types of the tensors."""
    constants: Mapping[Steps, Any]
    """The leaves that are no arguments as they are."""
    paths: Sequence[Steps]


class Survey:
    """Looks at the data of every case, then tells how it is put together."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._seen: dict[str, Case] = {}

    def look(self, axes: Mapping[str, int], params: Mapping[str, Any], seed: int) -> None:
        """Make the data of a case; the last look at a case counts."""
        found = list(leaves(self._problem.generated(axes, params, seed)))
        kinds = {path: str(leaf.dtype).removeprefix("torch.") for path, leaf in found if isinstance(leaf, torch.Tensor)}
        constants = {path: leaf for path, leaf in found if not is_flat(leaf)}
        self._seen[repr((axes, params))] = Case(axes, params, kinds, constants, [path for path, _ in found])

    def about(self) -> dict[str, Any]:
        """Return what was found, in JSON.

        `leaves`: [path, name or None] of all; `shape`: what `together` goes by; `promoted`: argument -> types, where a
        tensor is made in several, the one that holds all of them first; `flags`: [place, what, value...] of truth
        values and words that differ from case to case. Or `problem`: why it cannot be told.
        """
        try:
            return self._about(sorted(self._seen.values(), key=lambda case: math.prod(case.axes.values())))
        except Refused as error:
            return {"problem": str(error)}

    def _about(self, cases: Sequence[Case]) -> dict[str, Any]:
        least = cases[0]
        if any(case.paths != least.paths for case in cases):
            raise Refused("generate_input: puts its data together in different ways in different cases")
        data = self._data(least)
        buffers = self._buffers(least, data)
        differing = [
            path for path, value in least.constants.items() if any(c.constants.get(path) != value for c in cases)
        ]
        flags = {path: self._flag(path, cases) for path in differing}
        taken = [path for path, leaf in leaves(data) if is_flat(leaf) or flags.get(path) == ["input"]]
        names = {path: name_of(path, buffer=path in buffers) for path in taken}
        types = {path: _types({case.kinds[path] for case in cases if path in case.kinds}) for path in names}
        return {
            "leaves": [[list(path), names.get(path)] for path, _ in leaves(data)],
            "shape": shape_of(data, names, flags),
            "promoted": {names[path]: kinds for path, kinds in types.items() if len(kinds) > 1},
            "flags": [["data" + "".join(f"[{step!r}]" for step in path), *flag] for path, flag in flags.items()],
        }

    def _data(self, case: Case) -> Any:
        return self._problem.generated(case.axes, case.params, 1)

    def _buffers(self, case: Case, data: Any) -> set[Steps]:
        """Return the paths of tensors that the reference returns: they are memory for the result."""
        words = ", ".join(f"{name}={value!r}" for name, value in {**case.axes, **case.params}.items())
        sys.stdout.write(f"\nat: ref_kernel({words})\n")  # Told if there is no end to it.
        sys.stdout.flush()
        copied = _cloned(data)
        try:
            answer = self._problem.answer(copied)
        except Exception as error:  # the problem's code may raise anything: told as a problem of it
            raise Refused(f"ref_kernel({words}) failed: {type(error).__name__}: {error}") from error
        results = {leaf.data_ptr() for _, leaf in leaves(answer) if isinstance(leaf, torch.Tensor)}
        return {p for p, leaf in leaves(copied) if isinstance(leaf, torch.Tensor) and leaf.data_ptr() in results}

    def _flag(self, path: Steps, cases: Sequence[Case]) -> list[Any]:
        """Return what becomes of a value that differs: it is left out, always the same, or an input.

        A program is not to be told what the tensors hold. So where the reference gives the same with one value in all
        cases, programs get that one; where it gives the same with any, none.
        """
        values: list[Any] = []
        made = []
        for case in cases:
            if case.constants[path] not in values:
                values.append(case.constants[path])
                made.append(self._data(case))
        fitting = [value for value in values if all(self._same_answer(data, path, value) for data in made)]
        if len(fitting) == len(values) and _in_dict(made[0], path):
            return ["left out"]
        if fitting:
            return ["always", fitting[0] if len(fitting) < len(values) or not isinstance(fitting[0], bool) else False]
        return ["input"] if all(isinstance(value, bool) for value in values) else ["differs"]

    def _same_answer(self, data: Any, path: Steps, value: Any) -> bool:
        """Return whether the reference gives the same with `value` at `path`, which it may never have met there."""
        with suppress(Exception):  # a value that the reference cannot take is not the same
            first, second = (
                list(leaves(self._problem.answer(_cloned(replaced(data, given))))) for given in ({}, {path: value})
            )
            return len(first) == len(second) and all(_close(a, b) for (_, a), (_, b) in zip(first, second, strict=True))
        return False


def _cloned(data: Any) -> Any:
    return replaced(data, {path: leaf.clone() for path, leaf in leaves(data) if isinstance(leaf, torch.Tensor)})


def _types(kinds: set[str]) -> list[str]:
    """Return the type that holds all others, then those in which a tensor is made."""
    made = sorted(kinds)
    if len(made) < 2:
        return made
    wide = getattr(torch, made[0])
    for kind in made[1:]:
        wide = torch.promote_types(wide, getattr(torch, kind))
    return [str(wide).removeprefix("torch."), *made]


def _in_dict(data: Any, path: Steps) -> bool:
    for step in path[:-1]:
        data = data[step]
    return isinstance(data, dict)


def _close(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return bool(a == b)
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a.double(), b.double(), equal_nan=True)
