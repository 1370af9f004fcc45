import json
from typing import Any

import pytest
from pydantic import ValidationError

from evaluators.digest import canonical_json
from evaluators.task import Contract, Scalar, Task, Tensor, Tolerance, Workload, contract_solution

MATRIX = Tensor(shape=("rows", "cols"), dtype="float32")


def task(**fields: Any) -> Task:
    defaults: dict[str, Any] = {
        "name": "scale",
        "description": "y = a x",
        "constants": {"cols": 8},
        "axes": ("rows",),
        "inputs": {"x": MATRIX, "a": Scalar(scalar="float32")},
        "outputs": {"y": MATRIX},
        "workloads": (
            Workload(name="small", axes={"rows": 3}),
            Workload(name="large", axes={"rows": 300}),
            Workload(name="secret", axes={"rows": 7}, split="held_out"),
        ),
        "tolerance": Tolerance(rtol=1e-5, atol=1e-6),
        "contracts": {"cpp": Contract(entry_point="scale", binding="plain_c", flags=("-O3",))},
        "reference": "def reference(x, a): ...",
    }
    return Task(**{**defaults, **fields})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"axes": ("rows", "rows")}, "axes: an axis is listed twice"),
        ({"constants": {"cols": 8, "rows": 1}}, "axes: an axis is listed twice"),
        ({"inputs": {"x": Tensor(shape=("depth",), dtype="int32")}}, r"x\.shape: unknown axis 'depth'"),
        ({"outputs": {"x": MATRIX}}, "outputs: a name is both an input and an output"),
        ({"workloads": (Workload(name="w", axes={}),)}, "workload 'w': axes must be exactly"),
        ({"workloads": (Workload(name="w", axes={"rows": 1, "cols": 8}),)}, "workload 'w': axes must be exactly"),
        ({"workloads": (Workload(name="w", axes={"rows": 1}),) * 2}, "workloads: the name 'w' is used twice"),
        ({"workloads": (Workload(name="w", axes={"rows": 1}, split="held_out"),)}, 'must have split = "search"'),
        ({"arguments": ("x", "a")}, "arguments: must list every input, then every output"),
        ({"arguments": ("y", "x", "a")}, "arguments: must list every input, then every output"),
        ({"arguments": ("x", "a", "y", "y")}, "arguments: must list every input, then every output"),
        ({"arguments": 5}, "arguments"),
        ({"arguments": [["x"]]}, "arguments"),
        ({"inputs": {"not a name": MATRIX}}, "not a name"),
        ({"contracts": {}}, "contracts"),
        ({"name": "../x"}, "name"),
    ],
)
def test_inconsistent_tasks_are_refused_with_the_reason(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        task(**fields)


def test_splits_and_sizes() -> None:
    scale = task()
    assert [workload.name for workload in scale.split("search")] == ["small", "large"]
    assert [workload.name for workload in scale.split("held_out")] == ["secret"]
    assert scale.sizes(scale.workloads[1]) == {"rows": 300, "cols": 8}


def stored(what: Task) -> Task:
    """The task as it comes back from the blob store, where keys are sorted."""
    return Task.model_validate(json.loads(canonical_json(what.model_dump(mode="json"))))


def test_arguments_keep_their_order_when_stored() -> None:
    inputs = {"z": MATRIX, "a": Scalar(scalar="int32"), "m": MATRIX}
    scale = task(inputs=inputs, outputs={"y": MATRIX, "b": MATRIX})
    assert scale.arguments == ("z", "a", "m", "y", "b")
    again = stored(scale)
    assert again == scale
    assert (list(again.inputs), list(again.outputs)) == (["z", "a", "m"], ["y", "b"])
    assert again.digest == scale.digest


def test_the_order_of_arguments_is_part_of_the_identity() -> None:
    inputs = {"x": MATRIX, "w": MATRIX}
    assert task(inputs=inputs).digest != task(inputs=dict(reversed(inputs.items()))).digest


def test_where_a_task_came_from_is_not_part_of_its_identity() -> None:
    assert task(origin="a/folder").digest == task().digest
    assert task(description="y = a * x").digest != task().digest
    assert task(tolerance=Tolerance(rtol=1e-4, atol=1e-6)).digest != task().digest


def test_contracts_stand_in_the_order_of_languages() -> None:
    contract = Contract(entry_point="scale", binding="value")
    scale = task(contracts={"triton": contract, "cuda": contract, "python": contract, "cpp": contract})
    assert list(scale.contracts) == ["cpp", "python", "triton", "cuda"]
    assert list(stored(scale).contracts) == ["cpp", "python", "triton", "cuda"]


def test_the_seed_is_called_as_the_contract_says_with_the_flags_it_declares() -> None:
    files = {"scale.cpp": "// ksearch: flags = -O2 -g\nint x;\n", "a.h": "// ksearch: flags = -O0\n"}
    contract = Contract(entry_point="scale", binding="plain_c", flags=("-O3",), seed=files)
    for scale in (task(contracts={"cpp": contract}), stored(task(contracts={"cpp": contract}))):
        seed = scale.seed("cpp")
        assert seed is not None
        assert (seed.main_file, seed.flags, seed.entry_point) == ("scale.cpp", ("-O2", "-g"), "scale")
        assert scale.seed("python") is None
    assert task().seed("cpp") is None


def test_a_program_that_declares_no_flags_gets_the_contracts() -> None:
    contract = Contract(entry_point="scale", binding="plain_c", flags=("-O3",))
    assert contract_solution(contract, "cpp", {"b.cpp": "int x;", "a.cpp": ""}).flags == ("-O3",)
    assert contract_solution(contract, "cpp", {"b.cpp": "int x;", "a.cpp": ""}).main_file == "b.cpp"
    assert contract_solution(contract, "cpp", {"b.cpp": "// ksearch: flags =\n"}).flags == ()


def test_a_contracts_main_file_is_one_of_the_seeds() -> None:
    with pytest.raises(ValidationError, match="the seed has no file"):
        Contract(entry_point="f", binding="plain_c", seed={"a.cpp": ""}, main_file="b.cpp")
