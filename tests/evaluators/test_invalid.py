"""What is wrong with a value from outside, in words that name its keys and nothing of ours."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from evaluators.adapters.flashinfer.folder import read_record
from evaluators.adapters.flashinfer.records import Definition, WorkloadLine
from evaluators.adapters.probing import _CASES
from evaluators.errors import TaskError, UsageError
from evaluators.invalid import first_problem, problem_in
from evaluators.task import Name, Task, Workload
from graph.experiments.plan import read_plan
from nodes.review_question import read_answer
from nodes.scripted import Script


def _refused(value: Any) -> Any:
    raise ValueError(value)


def _shouted(value: str) -> str:
    raise ValueError(f"Input should be a valid integer,  not {value!r}")


@dataclasses.dataclass
class Point:
    x: int


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int
    flag: bool = True


class Other(BaseModel):
    model_config = ConfigDict(extra="forbid")
    word: str


class All(BaseModel):
    model_config = ConfigDict(extra="forbid")
    whole: int = 0
    number: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    text: str = ""
    word: Annotated[str, Field(pattern="^[a-z  ]+$", min_length=2, max_length=4)] = "abc"
    flag: bool = False
    some: Annotated[list[int], Field(min_length=1, max_length=2)] = [1]
    pair: tuple[int, ...] = ()
    table: dict[str, int] = {}
    inner: Inner = Inner(size=1)
    point: Point = Point(1)
    small: Annotated[int, Field(gt=0, le=9)] = 1
    goal: Literal["max", "min"] = "max"
    told: Annotated[str, BeforeValidator(_refused)] = ""
    shouted: Annotated[str, AfterValidator(_shouted)] = ""
    either: int | str | list[int] = 0
    seeds: Annotated[int, Field(ge=1)] | list[Annotated[int, Field(ge=0)]] = 1
    shape: Annotated[str, Field(pattern="^[a-z]+$")] | list[int] = "a"
    values: dict[str, int | str] = {}
    kinds: dict[str, Inner | Other] = {}
    nested: dict[str, int | dict[str, bool]] = {}
    named: dict[Name, int] = {}


def problem(given: Any, *, strict: bool = False, model: type[BaseModel] = All) -> str:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(given, strict=strict)
    return first_problem(caught.value, given)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"whole": []}, "whole: must be a whole number"),
        ({"whole": "x"}, "whole: must be a whole number"),
        ({"whole": 2.5}, "whole: must be a whole number"),
        ({"number": "x"}, "number: must be a number"),
        ({"number": math.inf}, "number: must be a finite number"),
        ({"text": 3}, "text: must be a text"),
        ({"word": "\ud800"}, "word: must be a text that UTF-8 can hold"),
        ({"word": "A"}, "word: must have at least 2 characters"),
        ({"word": "ABCDE"}, "word: must have at most 4 characters"),
        ({"word": "AB"}, "word: must match pattern '^[a-z  ]+$'"),
        ({"flag": "x"}, "flag: must be true or false"),
        ({"some": 3}, "some: must be a list"),
        ({"some": []}, "some: must have at least 1 item"),
        ({"some": [1, 2, 3]}, "some: must have at most 2 items"),
        ({"pair": 3}, "pair: must be a list"),
        ({"pair": (1, "x")}, "pair.1: must be a whole number"),
        ({"table": 3}, "table: must be a mapping of keys to values"),
        ({"inner": 3}, "inner: must be a mapping of keys to values"),
        ({"inner": {}}, "inner.size: missing"),
        ({"inner": {"size": 1, "seize": 2}}, "inner.seize: is unknown"),
        ({"small": 0}, "small: must be greater than 0"),
        ({"small": 10}, "small: must be less than or equal to 9"),
        ({"goal": "most"}, "goal: must be 'max' or 'min'"),
        ({"told": "Input should be a valid string"}, "told: Input should be a valid string"),
        ({"told": "Field required"}, "told: Field required"),
        ({"told": "two\nlines"}, "told: two lines"),
        ({"shouted": "a  valid list"}, "shouted: Input should be a valid integer,  not 'a  valid list'"),
        (3, "must be a mapping of keys to values"),
    ],
)
def test_reasons(given: Any, words: str, strict: bool) -> None:
    assert problem(given, strict=strict) == words


def test_reasons_of_lax_reading() -> None:
    assert problem({"whole": "9" * 5000}) == "whole: must be a whole number of fewer digits"
    assert problem({"point": 3}) == "point: must be a mapping of keys to values"


def test_reasons_of_json_are_the_same() -> None:
    for text, words in (
        ('{"pair": 3}', "pair: must be a list"),
        ('{"table": 3}', "table: must be a mapping of keys to values"),
        ('{"inner": 3}', "inner: must be a mapping of keys to values"),
        ("[]", "must be a mapping of keys to values"),
    ):
        with pytest.raises(ValidationError) as caught:
            All.model_validate_json(text)
        assert first_problem(caught.value, json.loads(text)) == words
    with pytest.raises(ValidationError) as caught:
        All.model_validate_json("{")
    assert first_problem(caught.value).startswith("Invalid JSON: ")


def test_a_type_of_error_that_is_not_known_keeps_its_message() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(type[int]).validate_python(str)
    assert first_problem(caught.value) == "must be a subclass of int"
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(bytes).validate_python(3)
    assert first_problem(caught.value) == "must be a valid bytes"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"either": {}}, "either: must be a whole number or a text or a list"),
        ({"either": 2.5}, "either: must be a whole number or a text or a list"),
        ({"seeds": 0}, "seeds: must be greater than or equal to 1 or a list"),
        ({"seeds": "x"}, "seeds: must be a whole number or a list"),
        ({"shape": "A"}, "shape: must match pattern '^[a-z]+$' or be a list"),
        ({"kinds": {"a": 3}}, "kinds.a: must be a mapping of keys to values"),
    ],
)
def test_every_branch_of_a_union_is_told(given: Any, words: str) -> None:
    assert problem(given) == words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"seeds": [1, -1]}, "seeds.1: must be greater than or equal to 0"),
        ({"either": [1, {}]}, "either.1: must be a whole number"),
        ({"nested": {"a": {"b": 3}}}, "nested.a.b: must be true or false"),
    ],
)
def test_within_the_branch_that_a_value_is_of_the_place_is_exact(given: Any, words: str) -> None:
    assert problem(given) == words


BRANCHES = [
    "int",
    "str",
    "list[int]",
    "constrained-int",
    "Inner",
    "[key]",
    "function-after[f(), int]",
    "dict[str,bool]",
]


@pytest.mark.parametrize("key", [*BRANCHES, "var", "const", "function-x", "a.b", "0"])
def test_a_key_may_be_called_like_a_branch(key: str) -> None:
    assert problem({"table": {key: "x"}}) == f"table.{key}: must be a whole number"
    assert problem({"values": {key: []}}) == f"values.{key}: must be a whole number or a text"
    assert problem({"values": {key: {key: []}}}) == f"values.{key}: must be a whole number or a text"
    assert problem({"values": {key: {"int": 1, "str": 2}}}) == f"values.{key}: must be a whole number or a text"
    assert problem({"kinds": {key: {"size": 1, "flag": 7}}}) == f"kinds.{key}.flag: must be true or false or is unknown"
    assert problem({"nested": {key: {key: 7}}}) == f"nested.{key}.{key}: must be true or false"
    assert problem({"inner": {"size": 1, key: 7}}) == f"inner.{key}: is unknown"
    assert problem({"kinds": {key: {"size": 1, key: 7}}}) == f"kinds.{key}.{key}: is unknown"
    assert problem({key: 7}) == f"{key}: is unknown"


@pytest.mark.parametrize("key", BRANCHES)
def test_a_missing_key_may_be_called_like_a_branch(key: str) -> None:
    class Odd(BaseModel):
        value: int = Field(alias=key)

    class Odds(BaseModel):
        odds: dict[str, Odd | Literal["none"]]

    assert problem({"odds": {key: {}}}, model=Odds) == f"odds.{key}.{key}: missing"


def test_keys_called_like_branches_beside_each_other() -> None:
    given = {"values": {"int": [], "str": []}}
    with pytest.raises(ValidationError) as caught:
        All.model_validate(given)
    found = problem_in(caught.value, given)
    assert (found.keys, found.reason, found.value) == (("values", "int"), "must be a whole number or a text", [])
    assert problem({"table": {"int": "x", "str": "x"}}) == "table.int: must be a whole number"


@pytest.mark.parametrize("key", ["x y", "list[int]", "[key]", "constrained-str"])
@pytest.mark.parametrize("value", [1, "x", "x y", "[key]"])
def test_a_key_that_is_itself_wrong(key: str, value: Any) -> None:
    assert problem({"named": {key: value}}) == f"named.{key}: must match pattern '^[A-Za-z_][A-Za-z0-9_]*$'"


def test_without_the_value_every_part_is_a_key() -> None:
    with pytest.raises(ValidationError) as caught:
        All.model_validate({"table": {"int": "x"}, "named": {"x y": 1}})
    assert first_problem(caught.value) == "table.int: must be a whole number"
    with pytest.raises(ValidationError) as caught:
        All.model_validate({"named": {"x y": 1}})
    assert first_problem(caught.value).startswith("named.x y: must match pattern")
    with pytest.raises(ValidationError) as caught:
        Task.model_validate({"name": None})
    assert first_problem(caught.value) == "name: must be a text"


@pytest.mark.parametrize("name", ["int", "str", "bool", "constrained"])
def test_a_parameter_of_a_workload(name: str) -> None:
    given = {"name": "w", "axes": {}, "params": {name: {}}}
    words = f"params.{name}: must be a whole number or a number or a text or true or false"
    assert problem(given, model=Workload) == words


def test_axes_of_a_flashinfer_definition_keep_their_names() -> None:
    argument = {"shape": ["var"], "dtype": "float32"}
    given: dict[str, Any] = {
        "name": "d",
        "op_type": "o",
        "axes": {"var": {"type": "var"}, "const": {"type": "const", "value": 4}},
        "inputs": {"x": argument},
        "outputs": {"y": argument},
        "reference": "",
    }
    read_record(Definition, given, "d.json")
    for axis, value, words in (
        ("const", {"type": "const", "value": 0}, "axes.const.value: must be greater than or equal to 1"),
        ("var", {"type": "const"}, "axes.var.value: missing"),
        ("var", {"type": "const", "value": 1, "description": 3}, "axes.var.description: must be a text"),
        ("const", {"type": "odd"}, "axes.const: 'type' must be one of 'const', 'var'"),
        ("const", {}, "axes.const: must have the key 'type'"),
        ("const", 3, "axes.const: must be a mapping of keys to values"),
        ("a b", {"type": "var"}, "axes.a b: must match pattern '^[A-Za-z_][A-Za-z0-9_]*$'"),
    ):
        with pytest.raises(TaskError) as caught:
            read_record(Definition, {**given, "axes": {axis: value}}, "d.json")
        assert str(caught.value) == f"d.json: {words}"


def test_inputs_of_a_flashinfer_workload() -> None:
    for name, value, words in (
        ("scalar", {"type": "scalar", "value": "x"}, "value: must be a whole number or a number or true or false"),
        ("safetensors", {"type": "safetensors", "path": "p"}, "tensor_key: missing"),
    ):
        line = {"definition": "d", "workload": {"uuid": "u", "axes": {}, "inputs": {name: value}}}
        with pytest.raises(TaskError) as caught:
            read_record(WorkloadLine, line, "w.jsonl:1")
        assert str(caught.value) == f"w.jsonl:1: workload.inputs.{name}.{words}"


def test_what_a_reference_makes_is_told_without_names_of_ours() -> None:
    given = [{"inputs": [["_Seen", {"dtype": "float32", "shape": [0]}]], "outputs": []}]
    with pytest.raises(ValidationError) as caught:
        _CASES.validate_python(given)
    assert first_problem(caught.value, given) == "0.inputs.0.1.shape.0: must be greater than or equal to 1"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"seeds": 0}, "seeds: 0 is not allowed: it must be greater than or equal to 1 or a list"),
        ({"seeds": [1, -1]}, "seeds.1: -1 is not allowed: it must be greater than or equal to 0"),
        (
            {"matched": {"run": "r", "at": [2.5], "evaluations": 1}},
            "matched.at.0: 2.5 is not allowed: it must be a text or a whole number",
        ),
        ({"matrix": {"int": 3}}, "matrix.int: 3 is not allowed: it must be a list"),
    ],
)
def test_the_plan_of_an_experiment(data: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_plan(data, "plan.toml", "e")
    assert str(caught.value) == f"plan.toml: {words}"


def test_a_script_and_an_answer_name_edits_without_their_tags(tmp_path: Path) -> None:
    edits = [{"kind": "prune", "node": "n1", "reason": 3}]
    words = "edits.0.reason: must be a text"
    assert read_answer(json.dumps({"decision": "replace", "edits": edits})) == words
    assert read_answer("[]") == "the answer: must be a mapping of keys to values"
    file = tmp_path / "script.json"
    file.write_text(json.dumps({"proposals": [{"edits": edits}]}))
    with pytest.raises(UsageError) as caught:
        Script.load(file)
    assert str(caught.value) == f"{file}: not a script: proposals.0.{words}"
