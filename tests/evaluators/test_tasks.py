import itertools
import math
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from benchmarks.quick_timing import Case, build, load_reference, make_case, worst_error
from evaluators.knobs import declared_knobs, turn_solution
from evaluators.solution import Solution
from evaluators.task import Task, Tensor, Workload
from evaluators.task_file import builtin_tasks, load_task_folder

TASKS = ("rmsnorm_linear", "softmax", "trimul_small")
SMALL: dict[str, list[dict[str, int]]] = {
    "softmax": [
        {"rows": 1, "cols": 1},
        {"rows": 5, "cols": 7},
        {"rows": 3, "cols": 64},
        {"rows": 9, "cols": 131},
        {"rows": 1, "cols": 1025},
    ],
    "rmsnorm_linear": [
        {"tokens": 1, "dim": 1, "outs": 1},
        {"tokens": 7, "dim": 5, "outs": 3},
        {"tokens": 8, "dim": 64, "outs": 64},
        {"tokens": 19, "dim": 33, "outs": 77},
    ],
    "trimul_small": [
        {"n": 1, "dim": 1},
        {"n": 3, "dim": 5},
        {"n": 8, "dim": 64},
        {"n": 13, "dim": 23},
    ],
}
"""Sizes that no program is made for: below a vector, between tiles, one of everything."""
FASTEST = {
    "softmax": {"flags": -1, "EXP": -1, "KEEP_EXP": 1},
    "rmsnorm_linear": {"flags": -1, "SIMD": 1, "TILE_ROWS": -1, "TILE_VECTORS": 1},
    "trimul_small": {"flags": -1, "SIMD": 1, "TILE_ROWS": -1, "BLOCK_PAIRS": 1},
}
"""Knob -> place of its value: about the best combination."""


@cache
def task_of(name: str) -> Task:
    return load_task_folder(builtin_tasks()[name])


@cache
def reference_of(name: str) -> ModuleType:
    return load_reference(task_of(name))


@cache
def cases(name: str) -> list[Case]:
    """Small cases, and the held-out workloads."""
    task = task_of(name)
    workloads = [Workload(name=str(axes), axes=axes) for axes in SMALL[name]] + list(task.split("held_out"))
    return [make_case(task, reference_of(name), workload, seed) for seed, workload in enumerate(workloads)]


def seed_of(name: str, language: Any = "cpp") -> Solution:
    seed = task_of(name).seed(language)
    assert seed is not None
    return seed


def combination(name: str, places: dict[str, int]) -> dict[str, str]:
    knobs = declared_knobs(seed_of(name).files["seed.cpp"])
    return {knob: knobs[knob].values[place] for knob, place in places.items()}


def combinations() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the seed as it is, every knob at its last value, a fast combination and some that were drawn."""
    for name in TASKS:
        knobs = declared_knobs(seed_of(name).files["seed.cpp"])
        draw = random.Random(3)
        yield name, "as it is", {}
        yield name, "last values", {knob: knobs[knob].values[-1] for knob in knobs}
        yield name, "fast", combination(name, FASTEST[name])
        for number in range(3):
            yield name, f"drawn {number}", {knob: draw.choice(knobs[knob].values) for knob in knobs}


def assert_right(name: str, call: Callable[[Case], Any]) -> None:
    for case in cases(name):
        for output in case.output.values():
            output.fill_(math.nan)
        call(case)
        assert worst_error(task_of(name), case) <= 1.0, case.sizes


@pytest.mark.parametrize(
    ("name", "what", "chosen"), [pytest.param(*item, id=f"{item[0]}, {item[1]}") for item in combinations()]
)
def test_the_cpp_seed_is_right_however_its_knobs_are_set(
    name: str, what: str, chosen: dict[str, str], tmp_path: Path
) -> None:
    function, _ = build(turn_solution(seed_of(name), chosen), tmp_path)
    assert_right(name, lambda case: function(*case.arguments()))


@pytest.mark.parametrize("name", TASKS)
def test_the_cpp_seed_is_portable_and_free_of_warnings(name: str, tmp_path: Path) -> None:
    strict = ("-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas")
    function, _ = build(seed_of(name), tmp_path, ("-march=x86-64", *strict))
    assert_right(name, lambda case: function(*case.arguments()))


@pytest.mark.parametrize("name", TASKS)
def test_the_cpp_seed_leaves_its_inputs_and_neighbours_alone(name: str, tmp_path: Path) -> None:
    function, _ = build(turn_solution(seed_of(name), combination(name, FASTEST[name])), tmp_path)
    for case in cases(name):
        before = {key: value.clone() for key, value in case.inputs.items()}
        real = case.output
        padded = {key: torch.full((tensor.numel() + 128,), 7.0) for key, tensor in real.items()}
        views = {key: padded[key][64 : 64 + tensor.numel()].view(tensor.shape) for key, tensor in real.items()}
        function(*Case(case.inputs, views, case.expected, case.sizes).arguments())
        assert all(torch.equal(case.inputs[key], value) for key, value in before.items())
        assert all((row[:64] == 7.0).all() and (row[-64:] == 7.0).all() for row in padded.values())


@pytest.mark.parametrize("name", TASKS)
def test_the_python_seed_is_right(name: str) -> None:
    seed = seed_of(name, "python")
    module = ModuleType("seed")
    exec(compile(seed.files[seed.main_file], "seed.py", "exec"), vars(module))
    function = vars(module)[seed.entry_point]
    assert_right(name, lambda case: function(*case.inputs.values(), *case.output.values()))


@pytest.mark.parametrize("name", TASKS)
def test_the_baseline_is_right_in_float32(name: str) -> None:
    def call(case: Case) -> None:
        answer = reference_of(name).baseline(**case.inputs)
        assert answer.dtype == torch.float32
        case.output["y"].copy_(answer)

    assert_right(name, call)


@pytest.mark.parametrize("name", TASKS)
def test_the_reference_fits_its_task(name: str) -> None:
    task = task_of(name)
    assert task.name == name
    for workload in task.workloads:
        sizes = task.sizes(workload)
        made = reference_of(name).inputs(dict(sizes), dict(workload.params), 1)
        assert list(made) == list(task.inputs)
        values = {**made, "y": reference_of(name).reference(**made)}
        for key, declared in [*task.inputs.items(), *task.outputs.items()]:
            assert isinstance(declared, Tensor)
            assert values[key].shape == tuple(sizes[axis] for axis in declared.shape)
            assert values[key].dtype == getattr(torch, declared.dtype)
            assert values[key].is_contiguous()
            assert values[key].isfinite().all()
        floor = reference_of(name).floor(dict(sizes))
        moved = sum(value.nbytes for value in values.values())
        assert floor["bytes"] == moved
        assert floor["operations"] > 0


@pytest.mark.parametrize("name", TASKS)
def test_inputs_are_drawn_from_their_seed(name: str) -> None:
    task, inputs = task_of(name), reference_of(name).inputs
    workload = task.split("search")[0]
    sizes = dict(task.sizes(workload))
    first, again, other = inputs(sizes, {}, 5), inputs(sizes, {}, 5), inputs(sizes, {}, 6)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not any(torch.equal(first[key], other[key]) for key in first)


def _without(name: str, case: Case, changed: str) -> torch.Tensor:
    """Return what a program that takes one input for its mean would answer."""
    value = case.inputs[changed]
    answer = reference_of(name).reference(**{**case.inputs, changed: torch.full_like(value, float(value.mean()))})
    assert isinstance(answer, torch.Tensor)
    return answer


@pytest.mark.parametrize(
    ("name", "changed"),
    [(name, changed) for name in TASKS for changed in load_task_folder(builtin_tasks()[name]).inputs],
)
def test_every_input_matters(name: str, changed: str) -> None:
    for case in search_cases(name):
        case.output["y"].copy_(_without(name, case, changed))
        assert worst_error(task_of(name), case) > 3.0


@cache
def search_cases(name: str) -> list[Case]:
    task = task_of(name)
    return [make_case(task, reference_of(name), workload, 11) for workload in task.split("search")]


def _half(dtype: torch.dtype) -> Callable[[str, Case], torch.Tensor]:
    def answer(name: str, case: Case) -> torch.Tensor:
        rounded = {key: value.to(dtype).float() for key, value in case.inputs.items()}
        answer = reference_of(name).reference(**rounded)
        assert isinstance(answer, torch.Tensor)
        return answer

    return answer


CHEATS: dict[str, Callable[[str, Case], torch.Tensor]] = {
    "zero": lambda name, case: torch.zeros_like(case.expected["y"]),
    "mean": lambda name, case: torch.full_like(case.expected["y"], float(case.expected["y"].mean())),
    "mean of each row": lambda name, case: case.expected["y"].mean(-1, keepdim=True).expand_as(case.expected["y"]),
    "output in float16": lambda name, case: case.expected["y"].half().float(),
    "output in bfloat16": lambda name, case: case.expected["y"].bfloat16().float(),
    "inputs in float16": _half(torch.float16),
    "inputs in bfloat16": _half(torch.bfloat16),
}


@pytest.mark.parametrize(("name", "cheat"), list(itertools.product(TASKS, CHEATS)))
def test_the_tolerance_tells_float32_from_less(name: str, cheat: str) -> None:
    for case in search_cases(name):
        case.output["y"].copy_(CHEATS[cheat](name, case))
        assert worst_error(task_of(name), case) > 3.0


def test_trimul_masks_are_true_masks() -> None:
    for case in search_cases("trimul_small"):
        mask = case.inputs["mask"]
        assert set(mask.unique().tolist()) == {0.0, 1.0}
        assert 0.3 < float(mask.mean()) < 0.9
        assert not torch.equal(mask, mask.transpose(1, 2))


@pytest.mark.parametrize("name", TASKS)
def test_cpp_seeds_declare_knobs_worth_searching(name: str) -> None:
    knobs = declared_knobs(seed_of(name).files["seed.cpp"])
    assert 5 <= len(knobs) <= 8
    assert "flags" in knobs
    for knob in knobs.values():
        assert 2 <= len(knob.values) <= 4
        assert knob.value == knob.values[0]
        assert len(knob.intent.split()) >= 6
