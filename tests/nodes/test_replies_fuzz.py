"""Whatever a model writes: a reader of replies returns or raises ReplyError, in bounded work."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.errors import ReplyError
from evaluators.task import Contract
from nodes.replies.edits import edited_program
from nodes.replies.json_reply import find_json
from nodes.replies.program import read_program

CONTRACT = Contract(entry_point="f", binding="plain_c")
BASE = {"f.cpp": "int a;\nvoid f() {\n}\n"}


READERS: tuple[Callable[[str], object], ...] = (
    find_json,
    lambda text: read_program(text, CONTRACT, "cpp"),
    lambda text: read_program(text, CONTRACT, "python", "length"),
    lambda text: edited_program(text, BASE, "f.cpp"),
)
FENCES = (
    "```",
    "```cpp\n",
    "```cpp f.cpp\n",
    "~~~",
    "````md\n",
    "`f.h`\n",
    "**f.cpp**",
    "\n",
    " ",
    "    ",
    "\r",
    "\t",
    "\0",
)
MARKS = (
    "{",
    "}",
    "[",
    "]",
    '"',
    "\\",
    ",",
    ":",
    "//",
    "/*",
    "*/",
    "#",
    '{"reason": ',
    '"a"',
    "1e999",
    "NaN",
    "-",
    "\ud800",
)
CODE = ("void f() {", "def f(x):", "f(", "...", "// ... rest of the code ...", "é", "😀", "int a;", "=======\n")
PIECES = st.sampled_from((*FENCES, *MARKS, *CODE, "<<<<<<< SEARCH\n", ">>>>>>> REPLACE\n"))
TEXTS = st.one_of(st.text(max_size=400), st.lists(PIECES, max_size=120).map("".join))


def outcome(read: Callable[[str], object], text: str) -> object:
    try:
        return read(text)
    except ReplyError as error:
        return error


def check(result: object) -> None:
    """A refused reply has a reason of one line."""
    if isinstance(result, ReplyError):
        assert str(result)
        assert "\n" not in str(result)


@given(TEXTS)
@settings(max_examples=400)
def test_nothing_but_reply_errors(text: str) -> None:
    for read in READERS:
        check(outcome(read, text))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=8), children, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(max_size=8), JSON, min_size=1, max_size=5)
PROSE = st.text(alphabet="abc XYZ.,:;!?()'`\n-", max_size=60)


def _printable(value: object) -> bool:
    text = json.dumps(value, ensure_ascii=False)
    return not any("\ud800" <= character <= "\udfff" for character in text)


@given(OBJECTS.filter(_printable), PROSE, PROSE, st.booleans(), st.sampled_from([None, 2]))
@settings(max_examples=300)
def test_every_object_is_found_in_prose(
    value: dict[str, Any], before: str, after: str, fenced: bool, indent: int | None
) -> None:
    written = json.dumps(value, indent=indent)
    text = f"{before}\n```json\n{written}\n```\n{after}" if fenced else f"{before}\n{written}\n{after}"
    assert find_json(text) == value


@given(OBJECTS, st.data())
@settings(max_examples=200)
def test_no_cut_off_object_is_ever_taken_for_a_whole_one(value: dict[str, Any], data: st.DataObject) -> None:
    written = json.dumps(value)
    cut = data.draw(st.integers(min_value=1, max_value=len(written) - 1))
    with pytest.raises(ReplyError):
        find_json(written[:cut])


LINES = st.lists(st.text(alphabet="abcdef ();=+/*", max_size=30).filter(lambda line: line.strip() != ""), max_size=12)


# A dot may make a file's name of the prose above a block.
@given(LINES, PROSE.filter(lambda text: not {"`", "."} & set(text)))
@settings(max_examples=200)
def test_every_program_is_read_to_the_letter(lines: list[str], prose: str) -> None:
    program = "".join(f"    {line}\n" for line in lines)
    program = f"void f() {{\n{program}}}\n"
    assert read_program(f"{prose}\n\n```cpp\n{program}```\n{prose}", CONTRACT, "cpp") == {"f.cpp": program}


HOSTILE = [
    "{" * 200_000,
    "[" * 200_000,
    '{"a":' * 100_000,
    '{"' * 100_000,
    '{"a": "' + '\\"' * 200_000,
    "{" + '\\"' * 200_000,
    "{ /*" * 50_000,
    "{x" * 100_000,
    '{"a":[' + "{}," * 200_000,
    '{"a": ' + "9" * 500_000 + "}",
    "```cpp\n" * 50_000,
    "```cpp\n" * 30_000 + "```\n" * 30_000,
    "```\n~~~\n" * 50_000,
    "```" + " " * 500_000 + "x",
    "`" * 500_000,
    ("_" * 299 + "\n```\n") * 4_000,
    ("a/" * 149 + "\n```\n") * 4_000,
    "```cpp\n" + "f(" * 300_000 + "\n```",
    "```cpp\n" + "f (" + " " * 500_000 + "\n```",
    "```python\n" + "f " * 300_000 + "\n```",
    "```cpp\nvoid f() {}\n" + ("// " + "." * 190 + "\n") * 8_000 + "```",
    "```cpp\nvoid f() {}\n" + ("//" + " " * 190 + "rest\n") * 8_000 + "```",
    "<<<<<<< SEARCH\n" * 50_000,
    "<<<<<<< SEARCH\n" + "}\n" * 200_000 + "=======\n",
    "<<<<<<< SEARCH\n" + "x\n" * 100_000 + "=======\ny\n>>>>>>> REPLACE\n",
    "\n" * 1_500_000 + "x",
    "a" * 3_000_000,
]


@pytest.mark.timeout(200)
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_replies_do_not_hang(text: str) -> None:
    # The limit is pytest's, far above what linear work takes, on a busy machine too, and below what any worse would.
    for read in READERS:
        check(outcome(read, text))
