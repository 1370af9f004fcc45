"""The sources of a strict GPU MODE task: data taken apart and put together, the problem's modules, what is told."""

import ast
import json
import re
import sys
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evaluators.adapters.gpumode.sources.about import Survey
from evaluators.adapters.gpumode.sources.apart import arguments, leaves
from evaluators.adapters.gpumode.sources.problem import Problem
from evaluators.adapters.gpumode.sources.shape import Refused, is_flat, name_of, replaced, shape_of
from evaluators.adapters.gpumode.sources.together import result, together
from evaluators.adapters.gpumode.strict_source import probe_source, reference_source, wrapper_source

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
KEYS = st.text(max_size=5) | st.integers()
DATA = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=20,
)


class Pair(NamedTuple):
    first: Any
    second: Any


def told(value: Any) -> Any:
    """Return what comes of a value on its way from the process that runs the problem."""
    return json.loads(json.dumps(value))


@given(DATA, st.booleans())
def test_what_is_taken_apart_is_put_together_again(data: Any, differ: bool) -> None:
    flags = {path: ["input"] for path, leaf in leaves(data) if differ and isinstance(leaf, bool)}
    taken = [path for path, leaf in leaves(data) if is_flat(leaf) or path in flags]
    names = {path: f"x{number}" for number, path in enumerate(taken)}
    values = arguments(data, told([[list(path), names.get(path)] for path, _ in leaves(data)]), {})
    assert list(values) == list(names.values())
    assert all(type(value) in (int, float) for value in values.values())
    # As text, 1, 1.0 and True are not the same.
    assert repr(together(told(shape_of(data, names, flags)), values)) == repr(data)


@given(DATA)
def test_a_leaf_is_where_its_path_leads(data: Any) -> None:
    found = dict(leaves(data))
    for path, leaf in found.items():
        at = data
        for step in path:
            at = at[step]
        assert at is leaf
    assert repr(replaced(data, {})) == repr(data)
    assert dict(leaves(replaced(data, dict.fromkeys(found, "new")))) == dict.fromkeys(found, "new")


@given(st.lists(KEYS).map(tuple), st.booleans())
def test_a_name_is_one_of_an_argument(path: tuple[Any, ...], buffer: bool) -> None:
    name = name_of(path, buffer=buffer)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
    assert name.startswith("preallocated") or not buffer


def test_named_tuples_are_tuples_to_programs() -> None:
    data = Pair(1, [Pair("word", 2)])
    assert repr(replaced(data, {(1, 0, 1): 3})) == repr(Pair(1, [Pair("word", 3)]))
    assert shape_of(data, {(0,): "a"}, {}) == [
        "tuple",
        [["input", "a"], ["list", [["tuple", [["constant", "word"], ["constant", 2]]]]]],
    ]


def test_what_differs_is_left_out_or_always_the_same() -> None:
    data = {"gone": True, "same": True, "word": "w"}
    flags = {("gone",): ["left out"], ("same",): ["always", False]}
    assert together(shape_of(data, {}, flags), {}) == {"same": False, "word": "w"}
    with pytest.raises(Refused, match="puts a dtype into its data"):
        shape_of([torch.half], {}, {})


def test_tensors_have_one_type_and_buffers_are_fresh() -> None:
    data = (torch.arange(3), torch.ones(2))
    values = arguments(data, [[[0], "x"], [[1], "preallocated_y"]], {"x": "float32"})
    assert values["x"].dtype == torch.float32
    x, y = together(["tuple", [["input", "x"], ["input", "preallocated_y"]]], values)
    assert x is values["x"]
    assert (y.shape, y.dtype) == (data[1].shape, data[1].dtype)
    assert y.data_ptr() != data[1].data_ptr()
    assert result((x,)) is x
    assert result((x, y)) == (x, y)


FILES = {
    "utils.py": "SCALE = 2\n",
    "late.py": "COUNT = [0]\n",
    "reference.py": """import torch
import utils


def generate_input(n, seed, masked=False):
    gen: torch.Generator | None = torch.Generator(device="cuda").manual_seed(seed)
    mask = torch.randint(0, 2, (n,), device="cuda:0", generator=gen) if masked else torch.ones(n).cuda()
    return torch.rand(n, device=torch.device("cuda")), mask, {"masked": masked, "minus": masked, "k": 3}


def ref_kernel(data):
    import late

    late.COUNT[0] += 1
    x, mask, config = data
    if config["k"] < 0:
        raise ValueError(f"call {late.COUNT[0]}")
    torch.cuda.synchronize()
    return (x * mask * (-1 if config["minus"] else 1),)
""",
}


def test_modules_are_there_for_the_problem_alone() -> None:
    before, functions = dict(sys.modules), (torch.Generator, torch.cuda.synchronize)
    problem = Problem(FILES, "cpu")
    first, again, other = (problem.generated({"n": 4}, {"seed": 7, "unknown": 1}, seed) for seed in (1, 1, 2))
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], other[0])
    assert {tensor.device.type for tensor in first[:2]} == {"cpu"}
    assert torch.equal(problem.answer(first)[0], first[0])
    # The module of the first call is that of the second.
    with pytest.raises(ValueError, match="call 2"):
        problem.answer((*first[:2], {"k": -1}))
    for name in ("reference", "utils", "late"):
        assert sys.modules.get(name) is before.get(name)
    assert not [finder for finder in sys.meta_path if "sources.problem" in type(finder).__module__]
    assert (torch.Generator, torch.cuda.synchronize) == functions


def test_a_survey_tells_how_data_is_put_together() -> None:
    survey = Survey(Problem(FILES, "cpu"))
    for n, masked in ((16, False), (8, True)):
        survey.look({"n": n}, {"seed": 7, "masked": masked}, 1)
    assert told(survey.about()) == {
        "leaves": [[[0], "data_0"], [[1], "data_1"], [[2, "masked"], None], [[2, "minus"], "minus"], [[2, "k"], "k"]],
        "shape": [
            "tuple",
            [
                ["input", "data_0"],
                ["input", "data_1"],
                ["dict", [["minus", ["flag", "minus"]], ["k", ["input", "k"]]]],
            ],
        ],
        "promoted": {"data_1": ["float32", "float32", "int64"]},
        "flags": [["data[2]['masked']", "left out"], ["data[2]['minus']", "input"]],
    }


def test_a_survey_tells_why_it_cannot() -> None:
    failing = {**FILES, "reference.py": FILES["reference.py"].replace('"k": 3', '"k": -3')}
    survey = Survey(Problem(failing, "cpu"))
    survey.look({"n": 8}, {"seed": 7}, 1)
    assert survey.about() == {"problem": "ref_kernel(n=8, seed=7) failed: ValueError: call 1"}


def test_texts_stand_for_themselves() -> None:
    survey = Survey(Problem(FILES, "cpu"))
    survey.look({"n": 8}, {"seed": 7}, 1)
    about = survey.about()
    names = [name for _, name in about["leaves"] if name is not None]
    wrapper = wrapper_source(names, about)
    for text in (probe_source(FILES, "cpu"), reference_source(FILES, "cpu", about), wrapper):
        imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
        assert "evaluators" not in ast.unparse(imported)
        defined = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        assert len(defined) == len(set(defined))
    reference: dict[str, Any] = {}
    exec(reference_source(FILES, "cpu", about), reference)
    values = reference["inputs"]({"n": 8}, {"seed": 7}, 3)
    assert torch.equal(reference["reference"](**values), values["data_0"])
    called: dict[str, Any] = {"_program": lambda data: (data,)}
    exec(wrapper, called)
    x, mask, config = called["call"](*values.values())
    assert (x is values["data_0"], mask is values["data_1"]) == (True, True)
    assert config == {"masked": False, "minus": False, "k": 3}
    # A program can read its wrapper: nothing else stands in it.
    defined = {name for name in called if not name.startswith("__")}
    used = {"Any", "Mapping", "Sequence", "torch"}
    assert defined - used == {"BUFFER", "together", "result", "_NAMES", "_SHAPE", "_program", "call"}
