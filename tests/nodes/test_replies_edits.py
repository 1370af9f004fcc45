"""Search and replace blocks: how they apply, and the exact reason when they do not."""

import pytest

from evaluators.errors import ReplyError
from nodes.replies.edits import edited_program, holds_edits, read_edits

F = "```"
MAIN = "#include <cstdint>\nint a = 1;\nint b = 2;\nvoid f() {\n    if (a) {\n        b = a;\n    }\n}\n"
BASE = {"f.cpp": MAIN, "f.h": "int a;\nint a2;\n"}


def block(search: str, replace: str, name: str = "") -> str:
    above = f"{name}\n" if name else ""
    return f"{above}<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def edited(text: str) -> dict[str, str]:
    return edited_program(text, BASE, "f.cpp")


@pytest.mark.parametrize(
    "text",
    [
        block("int a = 1;", "int a = 7;"),
        f"I raise it.\n\n`f.cpp`\n\n{F}cpp\n{block('int a = 1;', 'int a = 7;')}{F}\nDone.",
        f"{F}cpp f.cpp\n{block('int a = 1;', 'int a = 7;')}{F}",
        block("#include <cstdint>\nint a = 1;", "#include <cstdint>\nint a = 7;", "**f.cpp**"),
        block("int a = 1;", "int a = 7;").replace("<<<<<<< SEARCH", "<<<<<< SEARCH ").replace("\n", "\r\n"),
        block("int a  =  1; ", "int a = 7;"),
        block("int a = 1;", "int a = 3;") + block("int a = 3;", "int a = 7;"),
    ],
)
def test_a_change_of_the_main_file(text: str) -> None:
    files = edited(text)
    assert files == {"f.cpp": MAIN.replace("a = 1", "a = 7"), "f.h": BASE["f.h"]}
    assert next(iter(files)) == "f.cpp"


def test_a_change_of_another_file_whole_lines_only() -> None:
    assert edited(block("int a;", "long a;", "f.h")) == {"f.cpp": MAIN, "f.h": "long a;\nint a2;\n"}


def test_lines_are_deleted_by_an_empty_replacement() -> None:
    deleting = "<<<<<<< SEARCH\nint b = 2;\n=======\n>>>>>>> REPLACE\n"
    assert edited(deleting)["f.cpp"] == MAIN.replace("int b = 2;\n", "")


def test_the_first_and_the_last_line_can_be_changed() -> None:
    first = edited(block("#include <cstdint>", "#include <cmath>"))["f.cpp"]
    assert first == MAIN.replace("cstdint", "cmath")
    assert edited(block("    }\n}", "    }\n}\n// end"))["f.cpp"] == MAIN + "// end\n"


def test_other_indentation_is_found_and_the_files_own_is_kept() -> None:
    text = block("if (a) {\n    b = a;\n}", "if (a) {\n    b = a + 1;\n    a = 0;\n}")
    assert edited(text)["f.cpp"] == MAIN.replace("        b = a;\n", "        b = a + 1;\n        a = 0;\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Change int a to 7.", "no <<<<<<< SEARCH block; it begins 'Change int a"),
        ("", "the reply is empty"),
        ("<<<<<<< SEARCH\nint a = 1;\n", r"block 1 \(line 1\) has no ======= line: the reply is cut off"),
        ("<<<<<<< SEARCH\nint a = 1;\n=======\nint a = 7;\n", r"block 1 \(line 1\) has no >>>>>>> REPLACE line"),
        (block("int b = 2;", "int b;") + "<<<<<<< SEARCH\nint a", r"block 2 \(line 6\) has no ======="),
        ("<<<<<<< SEARCH\nint a = 1;\n<<<<<<< SEARCH\n", "block 1 .* has no ======= line"),
        (block("", "int c;"), "block 1: its SEARCH part is empty"),
        (block("int c = 3;", "int c;"), "SEARCH text is not in f.cpp: line 1 of it, 'int c = 3;', is nowhere"),
        (block("int a = 1;\nint z;", "x"), "line 2 of it, 'int z;', is nowhere there"),
        (block("int b = 2;\nint a = 1;", "x"), "each of its lines is there, but not in this order"),
        (block("int a", "int c"), "line 1 of it, 'int a', is nowhere there"),
        (block("int a = 1;", "int a = 1;"), "the blocks change nothing"),
        (block("int a = 1;", "int a = 2;") + block("int a = 2;", "int a = 1;"), "the blocks change nothing"),
        (block("int a = 1;", "int a = 7;", "g.cpp"), "block 1: there is no file g.cpp; the program has f.cpp, f.h"),
        (block("int a = 1;", "int a = 7;") + block("int a = 1;", "int a = 8;"), "block 2: its SEARCH text is not in"),
    ],
)  # fmt: skip
def test_what_does_not_apply_is_told(text: str, says: str) -> None:
    with pytest.raises(ReplyError, match=says):
        edited(text)


def test_ambiguous_text_is_refused_with_its_count() -> None:
    base = {"f.cpp": "x();\ny();\nx();\n  x();\n"}
    with pytest.raises(ReplyError, match=r"occurs 2 times in f\.cpp"):
        edited_program(block("x();", "z();"), base, "f.cpp")
    with pytest.raises(ReplyError, match=r"occurs 3 times in f\.cpp"):
        edited_program(block("    x();", "z();"), base, "f.cpp")


def test_a_reply_with_blocks_is_told_from_one_with_a_whole_program() -> None:
    assert holds_edits(f"Text\n{F}cpp\n{block('a', 'b')}{F}")
    assert not holds_edits(f"{F}cpp\n{MAIN}{F}\nno SEARCH here, only <<< marks")


def test_many_blocks_are_refused() -> None:
    with pytest.raises(ReplyError, match="more than 200 blocks"):
        read_edits(block("a", "b") * 201)
