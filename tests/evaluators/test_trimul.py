"""The built-in trimul task at reduced sizes: reference, seeds and masks."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from evaluators.local import LocalEvaluator
from evaluators.resolve import resolve_builtin, resolve_task
from evaluators.task import Task, Workload, contract_solution
from tests.cli.conftest import ROOT

SMALL = (
    Workload(name="ones", axes={"batch": 1, "n": 8, "dim": 16}, params={"mask": "ones"}),
    Workload(name="random", axes={"batch": 2, "n": 9, "dim": 24}, params={"mask": "random"}),
    Workload(name="padding", axes={"batch": 2, "n": 12, "dim": 16}, params={"mask": "padding"}),
    Workload(name="edges", axes={"batch": 1, "n": 8, "dim": 16}, params={"mask": "holes", "distribution": "edges"}),
    Workload(name="cauchy", axes={"batch": 1, "n": 8, "dim": 16}, params={"distribution": "cauchy"}),
)


UNPACKED = "    values, mask, weights, config = data\n"
KEEPING = """    values, mask, weights, config = data
    global kept
    kept = globals().get("kept", {})
    weights = kept.setdefault(values.shape, {key: value.clone() for key, value in weights.items()})
"""


def small() -> Task:
    task = resolve_builtin("trimul")
    return task.model_copy(update={"workloads": SMALL, "device": "cpu", "constants": {"hidden": 32}})


def module(source: str) -> Any:
    made = ModuleType("reference")
    exec(compile(source, "reference.py", "exec"), vars(made))
    return made


@pytest.mark.parametrize("workload", SMALL, ids=lambda workload: workload.name)
def test_the_reference_is_the_update(workload: Workload) -> None:
    task = small()
    reference = module(task.reference)
    made = reference.inputs(dict(task.sizes(workload)), dict(workload.params), 5)
    assert set(made["mask"].unique().tolist()) <= {0.0, 1.0}
    wide = {name: value.double() for name, value in made.items()}

    def norm(value: torch.Tensor, name: str) -> torch.Tensor:
        centred = value - value.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return scaled * wide[f"{name}_weight"] + wide[f"{name}_bias"]

    h = norm(wide["x"], "norm")
    expected = torch.zeros_like(wide["x"])
    sides = {
        side: (h @ wide[f"{side}_proj"].T) * (h @ wide[f"{side}_gate"].T).sigmoid() * wide["mask"][..., None]
        for side in ("left", "right")
    }
    n = wide["x"].shape[1]
    for i in range(n):
        for j in range(n):
            o = (sides["left"][:, i] * sides["right"][:, j]).sum(1)
            gated = norm(o, "to_out_norm") * (h[:, i, j] @ wide["out_gate"].T).sigmoid()
            expected[:, i, j] = gated @ wide["to_out"].T
    got = reference.reference(**made)
    assert got.dtype == torch.float32
    assert got.is_contiguous()
    difference = (got.double() - expected).abs() / (1e-3 + 1e-3 * expected.abs())
    assert float(difference.max()) < 1


def test_inputs_masks_and_weights_differ_with_the_seed() -> None:
    task = small()
    inputs = module(task.reference).inputs
    sizes = dict(task.sizes(SMALL[1]))
    first, again, other = (inputs(sizes, {}, seed) for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


async def test_programs_are_judged_strictly() -> None:
    task = small()
    contract = task.contracts["python"]
    seed = task.seed("python")
    assert seed is not None
    text = seed.files["seed.py"]
    programs = {
        "passed": "from task import input_t, output_t\n" + text,
        "no mask": text.replace(" * mask.unsqueeze(-1)", ""),
        "no gate": text.replace('(h @ weights["out_gate.weight"].t()).sigmoid()', "1.0"),
        "weights of the first call": text.replace(UNPACKED, KEEPING),
        "half": text.replace("return gated", "return (gated").replace('"].t()\n', '"].t()).half()\n'),
    }
    judge = LocalEvaluator()
    solutions = [contract_solution(contract, "python", {"mine.py": program}) for program in programs.values()]
    verdicts = await judge.compare(task, solutions, "check")
    await judge.close()
    statuses = [verdict.status.value for verdict in verdicts.evaluations]
    assert statuses[:4] == ["passed", "wrong_values", "wrong_values", "wrong_values"], verdicts.evaluations
    assert statuses[4] != "passed"


def test_the_triton_seed_is_right(tmp_path: Path) -> None:
    task = small()
    seed = task.seed("triton")
    assert seed is not None
    (tmp_path / "seed_triton.py").write_text(seed.files["seed_triton.py"])
    (tmp_path / "reference.py").write_text(task.reference)
    (tmp_path / "compare.py").write_text(
        "import reference, seed_triton, torch\n"
        "sizes = {'batch': 1, 'n': 6, 'dim': 24, 'hidden': 32}\n"
        "for mask in ('random', 'padding'):\n"
        "    v = reference.inputs(sizes, {'mask': mask}, 3)\n"
        "    names = ('left_proj', 'right_proj', 'left_gate', 'right_gate', 'out_gate', 'to_out')\n"
        "    w = {f'{n}.weight': v[n] for n in names}\n"
        "    w |= {f'{n}.{k}': v[f'{n}_{k}'] for n in ('norm', 'to_out_norm') for k in ('weight', 'bias')}\n"
        "    y = seed_triton.custom_kernel((v['x'], v['mask'], w, {'hidden_dim': 32, 'dim': 24}))\n"
        "    torch.testing.assert_close(y, reference.reference(**v), rtol=1e-3, atol=1e-3)\n"
    )
    done = subprocess.run(
        [sys.executable, "compare.py"],
        cwd=tmp_path,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_both_protocols_are_built_in() -> None:
    strict, official = resolve_task("trimul"), resolve_task("trimul_official")
    assert (strict.verdict, official.verdict) == ("harness", "gpumode")
    assert (strict.origin, official.origin, official.name) == ("built-in", "built-in", "trimul_official")
    assert len(strict.split("search")) == 7
    assert len(strict.split("held_out")) == 20


@pytest.mark.parametrize(("case", "physical_us", "practical_us"), [(0, 43, 94), (1, 294, 463)])
def test_floors_are_those_of_three_kernels(case: int, physical_us: float, practical_us: float) -> None:
    task = resolve_builtin("trimul")
    told = module(task.reference).floor(dict(task.sizes(task.split("search")[case])))
    assert 1e6 * max(told["bytes"] / 4.3e12, told["operations"] / 790e12) == pytest.approx(physical_us, abs=1)
    assert told["practical_us"] == pytest.approx(practical_us, abs=1)
