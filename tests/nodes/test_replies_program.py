"""Programs in replies, one class of trouble after the other; each case says what comes of it."""

import pytest

from evaluators.errors import ReplyError
from evaluators.task import Contract
from nodes.replies.program import read_program

F = "```"
CPP = Contract(entry_point="softmax", binding="plain_c")
PYTHON = Contract(entry_point="softmax", binding="dps")
BODY = 'extern "C" void softmax(const float* x, float* y, int64_t n) {\n    y[0] = x[0];\n}\n'
CODE = f"#include <cstdint>\n{BODY}"
HELPER = "#pragma once\ninline float twice(float x) { return 2 * x; }\n"
OLD = CODE.replace("x[0]", "0")
PY = "import torch\n\ndef softmax(x, y):\n    y.copy_(torch.softmax(x, -1))\n"


def cpp(text: str) -> dict[str, str]:
    return read_program(text, CPP, "cpp")


@pytest.mark.parametrize(
    "text",
    [
        f"{F}cpp\n{CODE}{F}",
        f"I keep the row in registers.\n\n{F}c++\n{CODE}{F}\n\nThis halves the loads.",
        f"~~~cpp\n{CODE}~~~\n",
        f"{F}\n{CODE}{F}",
        f"1. The program:\n\n   {F}cpp\n{''.join('   ' + line + chr(10) for line in CODE.splitlines())}   {F}\n",
        f"{F}cpp\r\n{CODE}{F}\r\n".replace("\n", "\r\n").replace("\r\r", "\r"),
        f"First the old one:\n{F}cpp\n{OLD}{F}\nand now the new one:\n{F}cpp\n{CODE}{F}",
        f"{F}cpp\n{CODE}{F}\nCompile it:\n{F}bash\ng++ -O3 softmax.cpp\n{F}\n{F}text\nsoftmax(x) {{ ok }}\n{F}",
        f"Only the loop changes:\n{F}cpp\nfor (;;) {{ }}\n{F}\nso in all:\n{F}cpp\n{CODE}{F}",
    ],
)
def test_code_blocks(text: str) -> None:
    assert cpp(text) == {"softmax.cpp": CODE}


@pytest.mark.parametrize(
    "text",
    [
        f"`softmax.cpp`\n\n{F}cpp\n{CODE}{F}\n\n`twice.h`\n\n{F}cpp\n{HELPER}{F}",
        f"{F}cpp twice.h\n{HELPER}{F}\n{F}cpp softmax.cpp\n{CODE}{F}",
        f"**softmax.cpp**\n{F}cpp\n{CODE}{F}\n**twice.h**:\n{F}cpp\n{HELPER}{F}",
        f"### File: `src/softmax.cpp`\n{F}cpp\n{CODE}{F}\n### 2. twice.h\n{F}\n{HELPER}{F}",
        f'{F}cpp title="softmax.cpp"\n{CODE}{F}\n{F}cpp:twice.h\n{HELPER}{F}',
        f"{F}softmax.cpp\n{CODE}{F}\n{F}{{.cpp filename=twice.h}}\n{HELPER}{F}",
        f"`twice.h`\n{F}cpp\n{HELPER}{F}\nHere is the rest:\n{F}cpp\n{CODE}{F}",
        f"softmax.cpp:\n{F}cpp\n{OLD}{F}\ntwice.h:\n{F}cpp\n{HELPER}{F}\nsoftmax.cpp (corrected):\n\n{F}cpp\n{CODE}{F}",
    ],
)
def test_named_files(text: str) -> None:
    files = cpp(text)
    assert files == {"softmax.cpp": CODE, "twice.h": HELPER}
    assert next(iter(files)) == "softmax.cpp"


@pytest.mark.parametrize(
    "comment",
    ["// file: kernel.cpp", "// kernel.cpp", "/* File: lib/kernel.cpp */", "// filename: `kernel.cpp`"],
)
def test_a_name_in_the_first_line_names_the_file_and_stays(comment: str) -> None:
    assert cpp(f"{F}cpp\n{comment}\n{CODE}{F}") == {"kernel.cpp": f"{comment}\n{CODE}"}


def test_python_files_are_named_by_their_own_marks() -> None:
    text = f"{F}python\n# file: fast.py\n{PY}{F}\n{F}bash\n# run.sh\npython fast.py\n{F}"
    assert read_program(text, PYTHON, "python") == {"fast.py": f"# file: fast.py\n{PY}"}


def test_a_contract_that_names_its_main_file_names_an_unnamed_block() -> None:
    contract = Contract(entry_point="softmax", binding="plain_c", seed={"main.cpp": CODE})
    assert read_program(f"{F}cpp\n{CODE}{F}", contract, "cpp") == {"main.cpp": CODE}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"{F}markdown\nHere:\n{F}cpp\n{CODE}{F}\nDone.\n{F}", CODE),
        (f"````\n{F}cpp\n{CODE}{F}\n````", CODE),
        (f"{F}cpp\n{F}cpp\n{CODE}{F}\n{F}", CODE),
        (f"````cpp\n// {F}\n{F}\n// {F}\n{CODE}````", f"// {F}\n{F}\n// {F}\n{CODE}"),
        (f"{F}cpp\n{OLD}\nthe end was forgotten\n{F}cpp\n{CODE}{F}", CODE),
        (f"~~~\n{F}cpp\n{CODE}{F}\n~~~", CODE),
        (f"````markdown\n{F}cpp\n{CODE}{F}\nand that is all\n````", CODE),
    ],
)
def test_fences_in_fences(text: str, wanted: str) -> None:
    assert cpp(text) == {"softmax.cpp": wanted}


def test_fences_in_a_docstring_are_part_of_the_program() -> None:
    program = (
        f'def softmax(x, y):\n    """Use it so.\n\n    {F}python\n    softmax(x, y)\n    {F}\n    """\n    y.copy_(x)\n'
    )
    assert read_program(f"Here:\n{F}python\n{program}{F}\nDone.", PYTHON, "python") == {"softmax.py": program}


@pytest.mark.parametrize("text", [CODE, f"\n\n{CODE}\n", f"// faster\n{CODE}", f"static int k = 1;\n{BODY}"])
def test_no_fence_at_all(text: str) -> None:
    assert cpp(text) == {"softmax.cpp": text.strip("\n") + "\n"}


def test_python_without_a_fence() -> None:
    assert read_program(PY, PYTHON, "triton") == {"softmax.py": PY}


@pytest.mark.parametrize("text", [f"Here it is:\n{CODE}", f"{CODE}\nThis is faster because it reads once."])
def test_no_fence_and_prose_around(text: str) -> None:
    with pytest.raises(ReplyError, match="mixed with prose: put it into a code block"):
        cpp(text)


@pytest.mark.parametrize(
    ("text", "finish", "says"),
    [
        (f"{F}cpp\n{CODE[:-3]}", "stop", "cut off in line 4, within the code block that begins in line 2"),
        (f"{F}cpp\n{CODE[:30]}", "length", "cut off within a code block, before softmax is defined"),
        (f"{F}cpp\n{CODE}", "length", "cut off in line"),
        (f"Plan:\n{F}cpp\n#include <cstdint>\n", "length", "before softmax is defined"),
        (f"`softmax.cpp`\n{F}cpp\n{CODE}{F}\n`twice.h`\n{F}cpp\n{HELPER[:40]}", "length", "that begins in line 10"),
        (CODE[:-3], "stop", "cut off within the program, after 3 lines"),
        (CODE, "length", "cut off within the program"),
        (f"{F}cpp\n{OLD}{F}\nbetter:\n{F}cpp\n{CODE[:-3]}", "length", "in line 11, within the code block that"),
    ],
)  # fmt: skip
def test_truncated(text: str, finish: str, says: str) -> None:
    with pytest.raises(ReplyError, match=says):
        read_program(text, CPP, "cpp", finish)  # type: ignore[arg-type]


def test_a_forgotten_last_fence_is_forgiven_when_the_model_had_finished() -> None:
    assert cpp(f"{F}cpp\n{CODE}") == {"softmax.cpp": CODE}


def test_cut_off_prose_behind_a_whole_program_does_not_matter() -> None:
    assert read_program(f"{F}cpp\n{CODE}{F}\nIt is fas", CPP, "cpp", "length") == {"softmax.cpp": CODE}


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I cannot write CUDA for hardware that I do not know.",
        "Optimising further is not possible; the program is already at the memory bound.",
        "Could you please provide the reference implementation?",
        "softmax(x) is memory bound, so there is nothing to do.",
    ],
)
def test_refusals(text: str) -> None:
    with pytest.raises(ReplyError, match="holds no code block and does not define softmax; it begins"):
        cpp(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the reply is empty"),
        (" \n\t\n", "the reply is empty"),
        (f"{F}cpp\n{F}", "the code block is empty"),
        (f"{F}cpp\n\n   \n{F}\nDone.", "the code block is empty"),
        (f"`softmax.cpp`\n{F}cpp\n{F}", "the code block is empty"),
        (f"`softmax.cpp`\n{F}cpp\n{CODE}{F}\n`twice.h`\n{F}cpp\n{F}", "the code block of twice.h is empty"),
    ],
)
def test_empty(text: str, says: str) -> None:
    with pytest.raises(ReplyError, match=says):
        cpp(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{F}cpp\nint other() {{ return softmax(1); }}\n{F}", r"no code block defines softmax \(1 looked at\)"),
        (f"{F}cpp\nvoid softmax(const float*);\n{F}\n{F}cpp\nint a;\n{F}", r"defines softmax \(2 looked at\)"),
        (f"{F}bash\nmake\n{F}\n{F}\n{F}", "the code block is empty"),
        (f"{F}bash\nmake softmax\n{F}\n{F}json\n{{}}\n{F}", "no code block holds a program .*bash, json"),
        (f"{F}diff\n- a\n+ {BODY}{F}", "no code block holds a program"),
    ],
)
def test_blocks_without_the_entry_point(text: str, says: str) -> None:
    with pytest.raises(ReplyError, match=says):
        cpp(text)


@pytest.mark.parametrize(
    "line",
    [
        "// ... rest of the code ...",
        "    // … existing code …",
        "/* ... (unchanged) */",
        "// [rest of the kernel as before]",
        "// rest of the code remains the same.",
        "// same as before",
        "// ... helper functions stay the same",
    ],
)
def test_programs_that_are_not_given_in_full(line: str) -> None:
    with pytest.raises(ReplyError, match=r"softmax\.cpp is not given in full: .*give every line"):
        cpp(f"{F}cpp\n{line}\n{CODE}{F}")


@pytest.mark.parametrize(
    "line",
    [
        "// handle the remaining columns ...",
        "// the rest of the row is in registers",
        "// ... and so on for each lane",
        "// same order of summation as the reference",
        "// original author: nobody",
        'static const char* dots = "... rest of the code ...";',
    ],
)
def test_ordinary_comments_are_no_gaps(line: str) -> None:
    assert cpp(f"{F}cpp\n{line}\n{CODE}{F}") == {"softmax.cpp": f"{line}\n{CODE}"}


TORCH = (
    '#include <torch/extension.h>\nvoid run(torch::Tensor x) {}\nPYBIND11_MODULE(E, m) { m.def("softmax", &run); }\n'
)
LONG_HEAD = (
    'extern "C" __attribute__((used))\nvoid softmax(\n    const float* x, // in\n    float* y\n) noexcept\n{\n}\n'
)


@pytest.mark.parametrize(
    ("code", "language"),
    [
        ("@triton.jit\ndef kernel(x): ...\n\n\ndef softmax(x, y):\n    kernel[(1,)](x)\n", "triton"),
        ("class softmax(torch.nn.Module):\n    def forward(self, x): return x\n", "python"),
        ("softmax = torch.compile(plain)\n", "python"),
        (TORCH, "cpp"),
        (LONG_HEAD, "cuda"),
    ],
)
def test_ways_to_define_the_entry_point(code: str, language: str) -> None:
    files = read_program(f"{F}\n{code}{F}", PYTHON, language)  # type: ignore[arg-type]
    assert list(files.values()) == [code]
