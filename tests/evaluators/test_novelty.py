import ast
import shutil
import subprocess
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.novelty import novelty_key
from evaluators.solution import Language, Solution


def key(text: str, language: Language = "cpp", **fields: Any) -> str:
    suffix = {"cpp": "cpp", "cuda": "cu"}.get(language, "py")
    program: dict[str, Any] = {"files": {f"main.{suffix}": text}, "entry_point": "f", "binding": "plain_c"}
    return novelty_key(Solution(**{**program, "language": language, **fields}))


C = "int f(int a) {\n  return a + 1; // one\n}\n"
PYTHON = "def f(a):\n    return a + 1  # one\n"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (C, "int f(int a)\n{\n\treturn a+1;\n}"),
        (C, "/* by\n   hand */ int f ( int a ) { return a /* plus */ + 1 ; }"),
        (C, "int f(int a) {\n  ret\\\nurn a + 1; // o\\\nne\n}\n"),
        ("#define A(x) x+1\nint b;\n", "  #  define A(x)   x + 1 // one\n\n\n   int b;"),
        ("#include <a.h>\n", "# include\t<a.h> /* a */\n"),
        ("#define A \\\n 1\n", "#define A 1\n"),
        ("#define A /* in\n between */ 1\n", "#define A 1\n"),
        ("x = a+ +b;", "x = a + + b;"),
        ("int a;\n// ksearch: knob U = 1 | 2 ; x\n#define U 1", "int a;\n// ksearch: knob U = 1 | 4 ; y\n#define U 1"),
    ],
)
@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_comments_and_layout_of_c_are_ignored(one: str, other: str, language: Language) -> None:
    assert key(one, language) == key(other, language)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (C, C.replace("1", "2")),
        ('char* s = "a // b";', 'char* s = "a // c";'),
        ('char* s = "a  b";', 'char* s = "a b";'),
        ('char* s = "a\\" // b";', 'char* s = "a\\" // c";'),
        ('char* s = R"(a // b)";', 'char* s = R"(a // c)";'),
        ('char* s = R"x(a )" // b)x";', 'char* s = R"x(a )" // c)x";'),
        ('char* s = R"(a\n  b)";', 'char* s = R"(a\n b)";'),
        ('char* s = R"(a\\\nb)";', 'char* s = R"(ab)";'),
        ("char c = '\"'; // \" x", "char c = '\"'; int x; // \""),
        ("char c = '/'; int d = '*';", "char c = '/'; int d = '+';"),
        ("char c = '\\''; int a; // '", "char c = '\\''; int b; // '"),
        ("int a = 1'000; int b; // '", "int a = 1'000; int c; // '"),
        ("x = a++ + b;", "x = a + ++b;"),
        ("x = a+ +b;", "x = a++b;"),
        ("x = a- -b;", "x = a--b;"),
        ("a < ::b", "a <::b"),
        ("f<<<a>>>();", "f<< <a>> >();"),
        ("int ab;", "int a b;"),
        ("x = 1.5;", "x = 1 .5;"),
        ("x = 0x1e+1;", "x = 0x1e +1;"),
        ("#define A(x) x\n", "#define A (x) x\n"),
        ("#define A\nint b;", "#define A int b;"),
        ("#define A 1\n", "#define A 1 \\\n + 1\n"),
        ("// a \\\nint b;", "// a\nint b;"),
        ("// a ??/\nint b;", "// a ??/\nint c;"),
        ("#pragma omp simd\nfor(;;);", "for(;;);"),
        ("#include <a.h>\n", "#include <b.h>\n"),
        ("#include <a//b.h>\n", "#include <a//c.h>\n"),
        ("int a;\n#if 0\n#endif\n", "int a;\n#if 1\n#endif\n"),
        ("#define S(x) #x\nchar* s = S(a+b);", "#define S(x) #x\nchar* s = S(a + b);"),
        ("#define U 1", "#define U 2"),
        ("int a; /*", "int a; /* b"),
        ("int a; /*/ int b; /**/", "int a; /**/ int b; /**/"),
    ],
)
@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_what_changes_a_c_program_is_told_apart(one: str, other: str, language: Language) -> None:
    assert key(one, language) != key(other, language)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PYTHON, "def f(a):\n  # the rest\n\n  return (a\n  ) + 1\n".replace("(a\n  )", "a")),
        (PYTHON, "# title\ndef f( a ):\n\treturn a+1"),
        ("x = f(1,\n      2)  # two\n", "x = f(1, 2)\n"),
        ("x = 1 + \\\n    2\n", "x = 1 + 2\n"),
        ("if a:\n  b\n\n\nc\n", "if a:\n        b\n# c\nc"),
    ],
)
@pytest.mark.parametrize("language", ["python", "triton"])
def test_comments_and_layout_of_python_are_ignored(one: str, other: str, language: Language) -> None:
    assert key(one, language) == key(other, language)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PYTHON, PYTHON.replace("1", "2")),
        ('s = "a # b"\n', 's = "a # c"\n'),
        ('"""A docstring."""\n', '"""A  docstring."""\n'),
        ("s = '''\n# a\n'''\n", "s = '''\n# b\n'''\n"),
        ("if a:\n    b\n    c\n", "if a:\n    b\nc\n"),
        ("if a:\n    if b:\n        c\n    d\n", "if a:\n    if b:\n        c\n        d\n"),
        ("a\nb\n", "a b\n"),
        ("x = not_a\n", "x = not _a\n"),
        ('s = f"{x = }"\n', 's = f"{x=}"\n'),
        ("BLOCK = 64\n", "BLOCK = 128\n"),
        ("def f(:\n  # a\n", "def f(:\n  # b\n"),
        ("if a:\n    b\n  c # d\n", "if a:\n    b\n  c # e\n"),
        ("x = '''a # b\n", "x = '''a # c\n"),
    ],
)
@pytest.mark.parametrize("language", ["python", "triton"])
def test_what_changes_a_python_program_is_told_apart(one: str, other: str, language: Language) -> None:
    assert key(one, language) != key(other, language)


@pytest.mark.parametrize(
    "change",
    [
        {"flags": ("-O3",)},
        {"entry_point": "g"},
        {"binding": "dps"},
        {"language": "cuda"},
        {"files": {"main.cpp": C, "a.h": ""}},
        {"files": {"other.cpp": C}},
    ],
)
def test_how_a_program_is_built_and_called_is_part_of_the_key(change: dict[str, Any]) -> None:
    assert key(C, **change) != key(C)
    assert key(C, flags=("-O2", "-g")) != key(C, flags=("-g", "-O2"))


def test_other_files_count_by_what_they_are() -> None:
    def together(header: str, notes: str) -> str:
        return key(C, files={"main.cpp": C, "a.h": header, "data.txt": notes})

    assert together("int a;", "1 2") == together("int  a; // a", "1 2")
    assert together("int a;", "1 2") != together("int b;", "1 2")
    assert together("int a;", "1 2") != together("int a;", "1  2")
    cuda = {"main.py": PYTHON, "k.cu": "int a;"}
    assert key(PYTHON, "python", files=cuda) == key(PYTHON, "python", files={**cuda, "k.cu": "int a; // a"})


def test_a_macro_in_a_header_that_makes_strings_keeps_spaces_everywhere() -> None:
    files = {"main.cpp": "char* s = S(a+b);", "a.h": "#define S(x) #x\n"}
    assert key("", files=files) != key("", files={**files, "main.cpp": "char* s = S(a + b);"})
    assert key("", files=files) == key("", files={**files, "main.cpp": "char* s = S(a+b);  // s"})


PIECES = st.sampled_from(
    [
        "a",
        "R",
        "1",
        "+",
        "(",
        ")",
        '"',
        "'",
        "\\",
        "/",
        "*",
        "//",
        "/*",
        "*/",
        "#",
        "\n",
        " ",
        "\n#define A",
        'R"(',
        ')"',
    ]
)
CHANGES = st.sampled_from([" ", "\n", "\\\n", "// c\n", "/* c */", "/*", "*/", '"', "a", "c"])


def preprocessed(text: str) -> str | None:
    """What the compiler itself makes of comments, strings and directives, without spaces; None when it refuses."""
    command = ["g++", "-E", "-P", "-dD", "-undef", "-w", "-x", "c++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=500, check=False)
    return "".join(done.stdout.split()) if done.returncode == 0 else None


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@given(st.lists(PIECES, max_size=16), st.lists(st.tuples(st.integers(0, 16), CHANGES), min_size=1, max_size=2))
@settings(max_examples=150)
def test_programs_with_equal_keys_are_equal_to_the_compiler(pieces: list[str], changes: list[tuple[int, str]]) -> None:
    changed = list(pieces)
    for place, what in changes:
        changed.insert(place, what)
    one, other = "".join(pieces), "".join(changed)
    if key(one) == key(other):
        assert preprocessed(one) == preprocessed(other)


PYTHON_PIECES = st.sampled_from(
    [
        "a",
        "1",
        "=",
        "(",
        ")",
        ":",
        "if a:",
        "\n",
        "\n    ",
        "\n        ",
        " ",
        "# c",
        "\\\n",
        '"',
        "'",
        '"""',
        "f'",
        "{",
        "}",
    ]
)
PYTHON_CHANGES = st.sampled_from([" ", "\n", "# d\n", "\n# d\n", "\\\n", "\t", "a", '"', "    "])


PYTHON_EDITS = st.lists(st.tuples(st.integers(0, 14), PYTHON_CHANGES), min_size=1, max_size=2)


@given(st.lists(PYTHON_PIECES, max_size=14), PYTHON_EDITS)
@settings(max_examples=1000)
def test_programs_with_equal_keys_are_equal_to_python(pieces: list[str], changes: list[tuple[int, str]]) -> None:
    changed = list(pieces)
    for place, what in changes:
        changed.insert(place, what)
    one, other = "".join(pieces), "".join(changed)
    if key(one, "python") == key(other, "python"):
        assert parsed(one) == parsed(other)


def parsed(text: str) -> str | None:
    """The syntax tree without positions; None for what is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as a call of a number
        try:
            return ast.dump(ast.parse(text))
        except (SyntaxError, ValueError):
            return None
