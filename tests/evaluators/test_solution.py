import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evaluators.digest import canonical_json
from evaluators.solution import Solution


def solution(**fields: Any) -> Solution:
    defaults: dict[str, Any] = {
        "files": {"softmax.cpp": "int x;\n"},
        "language": "cpp",
        "entry_point": "softmax",
        "binding": "plain_c",
    }
    return Solution(**{**defaults, **fields})


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b.cpp", "/a.cpp", "a\\b.cpp", "a\0.cpp"])
def test_file_names_have_no_folders(name: str) -> None:
    with pytest.raises(ValidationError, match="plain name without folders"):
        solution(files={name: "int x;"})


def test_there_is_at_least_one_file() -> None:
    with pytest.raises(ValidationError):
        solution(files={})


def test_line_ends_are_unix() -> None:
    program = solution(files={"a.cpp": "a\r\nb\rc\n"})
    assert program.files == {"a.cpp": "a\nb\nc\n"}
    assert program.digest == solution(files={"a.cpp": "a\nb\nc\n"}).digest


def test_the_first_file_is_the_main_file_unless_another_is_named() -> None:
    assert solution(files={"z.cpp": "", "a.h": ""}).main_file == "z.cpp"
    assert solution(files={"z.cpp": "", "a.h": ""}, main_file="a.h").main_file == "a.h"
    with pytest.raises(ValidationError, match=r"there is no file 'b\.cpp'"):
        solution(main_file="b.cpp")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NAMES = st.text("abz", min_size=1, max_size=3).map(lambda name: f"{name}.cpp")


@given(st.dictionaries(NAMES, TEXTS, min_size=1, max_size=4), st.lists(st.sampled_from(["-O2", "-O3"])).map(tuple))
def test_a_solution_keeps_its_identity_through_canonical_json(files: dict[str, str], flags: tuple[str, ...]) -> None:
    program = solution(files=files, flags=flags)
    stored = canonical_json(program.model_dump(mode="json"))
    again = Solution.model_validate(json.loads(stored))
    assert again == program
    assert (again.main_file, again.digest) == (next(iter(files)), program.digest)


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"softmax.cpp": "int y;\n"}},
        {"files": {"softmax.cpp": "int x; \n"}},
        {"files": {"other.cpp": "int x;\n"}},
        {"files": {"softmax.cpp": "int x;\n", "a.h": ""}},
        {"language": "cuda"},
        {"entry_point": "other"},
        {"binding": "dps"},
        {"flags": ("-O3",)},
    ],
)
def test_everything_that_is_run_is_part_of_the_identity(change: dict[str, Any]) -> None:
    assert solution(**change).digest != solution().digest
    assert len(solution().digest) == 64


def test_which_file_is_the_main_one_is_part_of_the_identity() -> None:
    files = {"a.cpp": "1", "b.cpp": "2"}
    assert solution(files=files).digest != solution(files=dict(reversed(files.items()))).digest


def test_the_order_of_flags_counts() -> None:
    assert solution(flags=("-O2", "-g")).digest != solution(flags=("-g", "-O2")).digest


def test_a_changed_copy_has_an_identity_of_its_own() -> None:
    solution = Solution(files={"a.py": "x = 1"}, language="python", entry_point="x", binding="value")
    before = solution.digest
    changed = solution.model_copy(update={"entry_point": "y"})
    assert changed.digest != before
    assert changed.digest == Solution.model_validate(changed.model_dump()).digest
    assert (solution.digest, solution) == (before, Solution.model_validate(solution.model_dump()))
    assert Solution.model_validate(dict(solution)) == solution
