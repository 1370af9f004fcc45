from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.errors import UsageError
from evaluators.knobs import declared_flags, declared_knobs, settings, turn, turn_solution
from evaluators.solution import Solution

CPP = """\
// A row softmax.
// ksearch: flags = -O2
// ksearch: knob flags = -O2 | -O3 -march=native ; Compile for this processor
#include <math.h>

// ksearch: knob UNROLL = 1 | 2 | 16 ; Keep several sums
// ksearch: knob EXP = expf | exp_poly5 ; Inline the exponential
#define UNROLL 2
#define EXP expf  // from libm
int sums[UNROLL];
"""


def test_knobs_are_read_in_the_order_declared() -> None:
    knobs = declared_knobs(CPP)
    assert list(knobs) == ["flags", "UNROLL", "EXP"]
    unroll = knobs["UNROLL"]
    assert (unroll.values, unroll.value, unroll.intent) == (("1", "2", "16"), "2", "Keep several sums")
    assert settings(CPP) == {"flags": "-O2", "UNROLL": "2", "EXP": "expf"}
    assert declared_flags(CPP) == ("-O2",)


def test_turning_changes_the_value_and_nothing_else() -> None:
    turned = turn(CPP, {"UNROLL": "16", "EXP": "exp_poly5", "flags": "-O3 -march=native"})
    assert turned == (
        CPP.replace("#define UNROLL 2", "#define UNROLL 16")
        .replace("#define EXP expf  //", "#define EXP exp_poly5  //")
        .replace("ksearch: flags = -O2", "ksearch: flags = -O3 -march=native")
    )
    assert declared_flags(turned) == ("-O3", "-march=native")


VALUE_LINES = [
    "#define BLOCK @",
    "  #  define\tBLOCK\t@ /* elements */",
    "#define BLOCK @// elements",
    "BLOCK = @",
    "BLOCK=@",
    "BLOCK = @  # elements",
    "BLOCK: int = @",
    "BLOCK : tl.constexpr = @",
    "BLOCK: Literal[64, 128] = @",
    "constexpr int BLOCK = @;",
    "static constexpr int A = 1, BLOCK = @;  // elements",
    "enum { BLOCK = @ };",
    "def kernel(x, BLOCK: tl.constexpr = @, other: int = 128):",
    "def kernel(x: int, other=128, BLOCK=@):",
    "kernel[grid](x, BLOCK=@)",
    "const int BLOCK = @; const int OTHER_BLOCK = 128;",
    "int OTHER_BLOCK = 128; int BLOCK = @;",
    "    BLOCK = @ /* elements */",
    "\tBLOCK = @ \t",
]


def block(line: str, declaration: str = "# ksearch: knob BLOCK = 32 | 64 | 128 ; Size of a block") -> str:
    return f"{declaration}\n{line}\nrest = BLOCK\n"


@pytest.mark.parametrize("line", VALUE_LINES)
def test_forms_of_a_value_line(line: str) -> None:
    assert settings(block(line.replace("@", "64"))) == {"BLOCK": "64"}
    assert turn(block(line.replace("@", "64")), {"BLOCK": "128"}) == block(line.replace("@", "128"))


@pytest.mark.parametrize(
    "declaration",
    [
        "// ksearch: knob BLOCK = 32|64|128 ; Size of a block",
        "#   ksearch:knob BLOCK=32 | 64 | 128;Size of a block",
        "/* ksearch: knob BLOCK = 32 | 64 | 128 ; Size of a block */",
        "/*\n * ksearch: knob BLOCK = 32 | 64 | 128 ; Size of a block\n * BLOCK = 7\n */",
        "/* Knobs:\nksearch: knob BLOCK = 32 | 64 | 128 ; Size of a block\n*/",
        "-- ksearch: knob BLOCK = 32 | 64 | 128 ; Size of a block",
        "; ksearch: knob BLOCK = 32 | 64 | 128 ; Size of a block",
    ],
)
def test_forms_of_a_declaration(declaration: str) -> None:
    knob = declared_knobs(block("#define BLOCK 64", declaration))["BLOCK"]
    assert (knob.values, knob.value, knob.intent) == (("32", "64", "128"), "64", "Size of a block")


@pytest.mark.parametrize(
    "between",
    [
        "// #define BLOCK 32",
        "# BLOCK = 32",
        "/* BLOCK = 32 */",
        "/*\nBLOCK = 32\n*/",
        " * BLOCK = 32",
        "#ifndef BLOCK",
        "#if BLOCK == 32",
        "static_assert(BLOCK == 32);",
        "if (BLOCK <= 32) BLOCK += 32;",
        "int BLOCKS = 32, MY_BLOCK = 32;",
        "#define BLOCKS 32",
        "// ksearch: knob OTHER = 32 | 64 ; BLOCK = 32\n#define OTHER 32",
    ],
)
def test_comments_and_mentions_do_not_set_a_value(between: str) -> None:
    text = block(f"{between}\n#define BLOCK 64")
    assert settings(text)["BLOCK"] == "64"
    assert turn(text, {"BLOCK": "128"}) == block(f"{between}\n#define BLOCK 128")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (block("#define BLOCK 48"), "line 2: knob BLOCK is '48'; it allows 32, 64, 128"),
        (block("#define BLOCK 640"), "line 2: knob BLOCK is '640'; it allows 32, 64, 128"),
        (block("#define BLOCK (64 * 2)"), "line 2: knob BLOCK is '(64 * 2)'; it allows 32, 64, 128"),
        (block("BLOCK = 64 // 2"), "line 2: knob BLOCK is '64 // 2'; it allows 32, 64, 128"),
        (block("BLOCK = 64.5"), "line 2: knob BLOCK is '64.5'; it allows 32, 64, 128"),
        ("\n// ksearch: knob A = 1 | 2 ; x\n", "line 2: knob A is not followed by a line that sets it"),
        ("A = 1\n# ksearch: knob A = 1 | 2 ; x\n", "line 2: knob A is not followed by a line that sets it"),
        ("# ksearch: knob A = 1 | 1 ; x\nA = 1", "line 1: knob A has an empty value, or the same one twice"),
        ("# ksearch: knob A = 1 | | 2 ; x\nA = 1", "line 1: knob A has an empty value, or the same one twice"),
        (
            "# ksearch: knob A = 1 | 1, 2 ; x\nA = 1",
            "line 1: knob A: in a line of code, '1' cannot be told from '1, 2'",
        ),
        (
            "# ksearch: knob A = 1 | 2 ; x\nA = 1\n# ksearch: knob A = 1 | 2 ; x\nA = 1",
            "line 3: knob A is declared twice",
        ),
        ("# ksearch: knob flags = -O2 | -O3 ; x\n", "line 1: knob flags needs a line `ksearch: flags = ...`"),
        (
            "# ksearch: flags = -O1\n# ksearch: knob flags = -O2 | -O3 ; x\n",
            "line 1: knob flags is '-O1'; it allows -O2, -O3",
        ),
    ],
)
def test_mistakes_are_named_with_their_line(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        declared_knobs(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"UNROLL": "3"}, "line 8: knob UNROLL has no value '3'; it allows 1, 2, 16"),
        ({"NONE": "3"}, "the program declares no knob NONE; it declares flags, UNROLL, EXP"),
    ],
)
def test_only_what_is_declared_can_be_turned(changes: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        turn(CPP, changes)
    assert str(caught.value) == message
    with pytest.raises(UsageError, match="declares none"):
        turn("int x;", changes)


@pytest.mark.parametrize("text", ["", "int x;", "// ksearch: knobs are fun", "// ksearch: knob A = 1", "ksearch: knob"])
def test_other_text_declares_nothing(text: str) -> None:
    assert declared_knobs(text) == {}
    assert declared_flags(text) is None
    assert turn(text, {}) == text


def test_the_first_flags_line_counts_wherever_it_stands() -> None:
    text = CPP + "// ksearch: flags = -O3 -march=native\n"
    assert declared_flags(text) == ("-O2",)
    turned = turn(text, {"flags": "-O3 -march=native"})
    assert declared_flags(turned) == ("-O3", "-march=native")
    assert turned.count("-O2") == 1  # in the declaration


def test_turning_a_solution_keeps_its_other_files_and_takes_its_flags_along() -> None:
    program = Solution(
        files={"z.cpp": CPP, "a.h": CPP},
        language="cpp",
        entry_point="softmax",
        binding="plain_c",
        flags=("-O2",),
    )
    turned = turn_solution(program, {"flags": "-O3 -march=native", "UNROLL": "1"})
    assert (turned.main_file, turned.flags) == ("z.cpp", ("-O3", "-march=native"))
    assert turned.files == {"z.cpp": turn(CPP, {"flags": "-O3 -march=native", "UNROLL": "1"}), "a.h": CPP}
    assert (turned.entry_point, turned.binding, turned.language) == ("softmax", "plain_c", "cpp")
    plain = program.model_copy(update={"files": {"z.cpp": block("BLOCK = 64"), "a.h": ""}, "flags": ("-g",)})
    assert turn_solution(plain, {"BLOCK": "32"}).flags == ("-g",)


TOKENS = st.sampled_from(["1", "2", "16", "1.5", "1.5f", "-1", "expf", "a b", "(1 << 4)", '"x"', "{1}", "0x1F", "1e-5"])
LINES = st.sampled_from(
    [
        "",
        "int x = 1;",
        "// A = 1",
        "/* B",
        "*/",
        "# B = 2",
        "y = A",
        "if (A == 1) B <= 2;",
        "#ifdef B",
        "\r",
        " \t",
        "é",
    ]
)


@st.composite
def programs(draw: Any) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Text with one to three knobs in any form, among other lines."""
    lines, knobs = draw(st.lists(LINES, max_size=4)), {}
    if "/* B" in lines:
        lines.append("*/")
    for name in draw(st.lists(st.sampled_from(["A", "B", "AB"]), min_size=1, max_size=3, unique=True)):
        values = tuple(draw(st.lists(TOKENS, min_size=1, max_size=4, unique=True)))
        knobs[name] = values
        lines.append(draw(st.sampled_from(["//", "#", "/*"])) + f" ksearch: knob {name} = {' | '.join(values)} ; x")
        lines[-1] += " */" if lines[-1].startswith("/*") else ""
        lines += draw(st.lists(LINES.filter(lambda line: line not in ("/* B", "*/")), max_size=2))
        form = draw(st.sampled_from(VALUE_LINES))
        lines.append(form.replace("BLOCK", name).replace("@", draw(st.sampled_from(values))))
    return "\n".join(lines), knobs


@given(programs(), st.data())
def test_turning_knobs_and_back_is_the_identity(program: tuple[str, dict[str, tuple[str, ...]]], data: Any) -> None:
    text, knobs = program
    before = settings(text)
    assert set(before) == set(knobs)
    changes = {name: data.draw(st.sampled_from(values)) for name, values in knobs.items()}
    turned = turn(text, changes)
    assert settings(turned) == changes
    assert turn(turned, before) == text
    changed = [pair for pair in zip(text.split("\n"), turned.split("\n"), strict=True) if pair[0] != pair[1]]
    assert len(changed) == sum(before[name] != value for name, value in changes.items())
