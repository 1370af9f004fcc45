import os
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluators.errors import TaskError
from evaluators.task import Scalar, Tensor
from evaluators.task_file import MAX_FILE_BYTES, builtin_tasks, load_task_folder

TOML = """\
schema = 1
name = "scale"
title = "Scale"
description = "y = a x"
axes = ["rows"]

[constants]
cols = 8

[inputs.x]
shape = ["rows", "cols"]
dtype = "float32"

[inputs.a]
scalar = "float32"

[outputs.y]
shape = ["rows", "cols"]
dtype = "float32"

[tolerance]
rtol = 1e-5
atol = 0

[contracts.cpp]
entry_point = "scale"
binding = "plain_c"
flags = ["-O3"]
seed = ["seed.cpp", "table.h"]

[contracts.python]
entry_point = "scale"
binding = "dps"
seed = ["seed.py"]

[[workloads]]
name = "small"
axes = { rows = 3 }

[[workloads]]
name = "secret"
split = "held_out"
axes = { rows = 5 }
params = { spread = 2.0 }
"""
REFERENCE = """\
def inputs(axes, params, seed):
    raise SystemExit("inputs was called")


def reference(x, a):
    return a * x


raise SystemExit("the reference was run")
"""
CPP = """\
// ksearch: flags = -O2 -funroll-loops
#include "table.h"
extern "C" void scale(const float* x, float a, float* y, long rows) {
    for (long i = 0; i < COLS * rows; ++i) y[i] = a * x[i];
}
"""
PYTHON = """\
def scale(x, a, y):
    y.copy_(a * x)


raise SystemExit("the seed was run")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    task = tmp_path / "scale"
    task.mkdir()
    texts = {
        "task.toml": TOML,
        "reference.py": REFERENCE,
        "seed.cpp": CPP,
        "table.h": "#define COLS 8\n",
        "seed.py": PYTHON,
    }
    for name, text in texts.items():
        (task / name).write_text(text)
    return task


def test_a_folder_becomes_a_task_and_nothing_in_it_is_run(folder: Path) -> None:
    task = load_task_folder(folder)
    assert (task.name, task.title, task.description, task.device) == ("scale", "Scale", "y = a x", "cpu")
    assert task.inputs == {"x": Tensor(shape=("rows", "cols"), dtype="float32"), "a": Scalar(scalar="float32")}
    assert [(workload.name, workload.split) for workload in task.workloads] == [
        ("small", "search"),
        ("secret", "held_out"),
    ]
    assert task.workloads[1].params == {"spread": 2.0}
    assert task.tolerance.atol == 0
    assert task.reference == REFERENCE
    assert task.origin == str(folder)


def test_seeds_are_read_with_the_flags_that_they_declare(folder: Path) -> None:
    task = load_task_folder(str(folder))
    cpp, python = task.seed("cpp"), task.seed("python")
    assert cpp is not None
    assert python is not None
    assert (cpp.files, cpp.main_file) == ({"seed.cpp": CPP, "table.h": "#define COLS 8\n"}, "seed.cpp")
    assert cpp.flags == ("-O2", "-funroll-loops")
    assert (python.files, python.flags, python.binding) == ({"seed.py": PYTHON}, (), "dps")


def test_a_task_may_come_without_seeds_and_titles(folder: Path) -> None:
    lines = [line for line in TOML.split("\n") if not line.startswith(("seed =", "title"))]
    (folder / "task.toml").write_text("\n".join(lines))
    task = load_task_folder(folder)
    assert task.seed("cpp") is None
    assert task.contracts["cpp"].flags == ("-O3",)


def test_what_is_read_decides_the_digest_and_the_place_does_not(folder: Path) -> None:
    first = load_task_folder(folder).digest
    moved = folder.rename(folder.with_name("elsewhere"))
    assert load_task_folder(moved).digest == first
    (moved / "reference.py").write_text(REFERENCE + "\n# changed\n")
    assert load_task_folder(moved).digest != first


def test_builtin_tasks_are_listed_by_folder() -> None:
    folders = builtin_tasks()
    assert {"softmax", "rmsnorm_linear", "trimul_small"} <= set(folders)
    assert list(folders) == sorted(folders)
    assert all(load_task_folder(path).origin == "built-in" for path in folders.values())


def _toml(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        assert old in TOML
        (folder / "task.toml").write_text(TOML.replace(old, new, 1))

    return change


def _write(name: str, data: str | bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())

    return change


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _link(name: str, target: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder.parent / "outside.py").write_text(REFERENCE)
        (folder / name).unlink()
        (folder / name).symlink_to(target)

    return change


def _folder_instead(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return change


def _pipe_instead(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


MALFORMED: dict[str, tuple[Callable[[Path], None], str]] = {
    # TOML itself
    "not TOML": (_write("task.toml", "schema = = 1\n"), "task.toml: not valid TOML: Invalid value (at line 1"),
    "a key twice": (_toml("schema = 1", "schema = 1\nschema = 1"), "not valid TOML: Cannot overwrite a value"),
    "nested deeply": (_toml("schema = 1", "schema = " + "[" * 9999), "not valid TOML"),
    "a huge number": (_toml("schema = 1", "schema = " + "9" * 9999), "not valid TOML"),
    "not UTF-8": (_write("task.toml", TOML.encode() + b'# \xff"'), "task.toml: is not UTF-8 text (byte "),
    "UTF-16": (_write("task.toml", TOML.encode("utf-16")), "task.toml: is not UTF-8 text (byte 0)"),
    "empty": (_write("task.toml", ""), "schema: must be 1"),
    "too large": (_write("task.toml", "#" * (MAX_FILE_BYTES + 1)), f"task.toml: is larger than {MAX_FILE_BYTES} bytes"),
    # Keys
    "another schema": (_toml("schema = 1", "schema = 2"), "schema: must be 1"),
    "schema true": (_toml("schema = 1", "schema = true"), "schema: must be 1"),
    "unknown key": (_toml("title =", "titel ="), "titel: unknown key; did you mean 'title'?"),
    "unknown table": (_toml("[tolerance]", "[tolerence]"), "tolerence: unknown key; did you mean 'tolerance'?"),
    "unknown input key": (_toml("dtype", "dtyp"), "inputs.x.dtyp: unknown key; did you mean 'dtype'?"),
    "unknown contract key": (_toml("entry_point", "entrypoint"), "contracts.cpp.entrypoint: unknown key; did you mean"),
    "unknown workload key": (
        _toml("params", "parameters"),
        "workloads[1] ('secret').parameters: unknown key; did you mean 'params'?",
    ),
    "far from any key": (
        _toml("rtol", "zzz"),
        "tolerance.zzz: unknown key; it may be one of atol, matched, normalised, rtol, rule",
    ),
    "steers a terminal": (_toml("title =", '"a\\n\\u001b[31m" ='), "task.toml: a ?[31m: unknown key"),
    "not for files": (_toml("title =", "reference ="), "reference: unknown key"),
    "unknown language": (
        _toml("contracts.cpp", "contracts.cp"),
        "contracts: unknown language 'cp'; did you mean 'cpp'?",
    ),
    "unknown dtype": (
        _toml('"float32"', '"float31"'),
        "inputs.x.dtype: unknown dtype 'float31'; did you mean 'float32'?",
    ),
    "unknown axis": (_toml('["rows", "cols"]', '["rows", "col"]'), "x.shape: unknown axis 'col'"),
    "unknown split": (_toml('"held_out"', '"heldout"'), "workloads[1] ('secret').split: "),
    "missing name": (_toml('name = "scale"', ""), "name: missing"),
    "missing tolerance": (_toml("[tolerance]\nrtol = 1e-5\natol = 0", ""), "tolerance: missing"),
    "missing atol": (_toml("atol = 0", ""), "tolerance.atol: missing"),
    "missing inputs": (
        _toml('[inputs.x]\nshape = ["rows", "cols"]\ndtype = "float32"\n\n[inputs.a]\nscalar = "float32"', ""),
        "inputs: missing",
    ),
    "missing workload axis": (
        _toml("axes = { rows = 3 }", "axes = {}"),
        "workload 'small': axes must be exactly ['rows']",
    ),
    # Types
    "name a number": (_toml('name = "scale"', "name = 7"), "name: must be a text"),
    "axes a text": (_toml('axes = ["rows"]', 'axes = "rows"'), "axes: must be a list"),
    "size a text": (
        _toml("rows = 3", 'rows = "3"'),
        "workloads[0] ('small').axes.rows: must be a whole number",
    ),
    "size a float": (
        _toml("rows = 3", "rows = 3.0"),
        "workloads[0] ('small').axes.rows: must be a whole number",
    ),
    "size true": (
        _toml("rows = 3", "rows = true"),
        "workloads[0] ('small').axes.rows: must be a whole number",
    ),
    "size zero": (_toml("rows = 3", "rows = 0"), "workloads[0] ('small').axes.rows: must be greater than"),
    "huge axis": (
        _toml("rows = 3", "rows = 99999999999999999999"),
        "workloads[0] ('small').axes.rows: must be",
    ),
    "huge tensors": (
        _write("task.toml", TOML.replace("cols = 8", "cols = 2147483647").replace("rows = 3", "rows = 30")),
        "workloads ('small').axes: the tensors take 480 GiB, more than 256 GiB",
    ),
    "rtol infinite": (_toml("rtol = 1e-5", "rtol = inf"), "tolerance.rtol: inf is neither"),
    "rtol a date": (_toml("rtol = 1e-5", "rtol = 2020-01-01"), "tolerance.rtol: 2020-01-01 is neither"),
    "rtol negative": (_toml("rtol = 1e-5", "rtol = -1e-5"), "tolerance.rtol: must be greater than"),
    "inputs a list": (_toml('[inputs.a]\nscalar = "float32"', "[inputs]\na = [1]"), "inputs.a: must be a table"),
    "input a text": (_toml('[inputs.a]\nscalar = "float32"', '[inputs]\na = "float32"'), "inputs.a: must be a table"),
    "workloads a table": (
        _toml("[[workloads]]", "[workloads]"),
        "not valid TOML: ",
    ),
    "input name": (_toml("[inputs.x]", '[inputs."x y"]'), "inputs.x y: must match pattern"),
    # Files
    "no task.toml": (_remove("task.toml"), "task.toml: no such file"),
    "no reference": (_remove("reference.py"), "reference.py: no such file"),
    "no seed": (_remove("seed.cpp"), "seed.cpp: no such file"),
    "seed a folder": (_folder_instead("seed.cpp"), "seed.cpp: is not a plain file"),
    "reference a pipe": (_pipe_instead("reference.py"), "reference.py: is not a plain file"),
    "seed not a list": (_toml('["seed.py"]', '"seed.py"'), "contracts.python.seed: must be a list of file names"),
    "seed above": (_toml('"seed.py"', '"../seed.py"'), "contracts.python.seed: '../seed.py' is not the name of a file"),
    "seed dots": (_toml('"seed.py"', '".."'), "contracts.python.seed: '..' is not the name of a file"),
    "seed absolute": (_toml('"seed.py"', '"/etc/passwd"'), "contracts.python.seed: '/etc/passwd' is not the name"),
    "seed below": (_toml('"seed.py"', '"more/seed.py"'), "contracts.python.seed: 'more/seed.py' is not the name"),
    "seed with NUL": (_toml('"seed.py"', '"seed\\u0000.py"'), "contracts.python.seed: 'seed\\x00.py' is not the name"),
    "link out": (_link("reference.py", "../outside.py"), "reference.py: is a link to a file outside"),
    "link to itself": (_link("seed.cpp", "seed.cpp"), "seed.cpp: "),
    "reference not UTF-8": (_write("reference.py", b"\xff\xfe"), "reference.py: is not UTF-8 text (byte 0)"),
    # Sources
    "reference is no Python": (_write("reference.py", "def inputs(:\n"), "scale/reference.py: line 1: "),
    "reference with NUL": (_write("reference.py", REFERENCE + "\0"), "reference.py: "),
    "no inputs()": (
        _write("reference.py", REFERENCE.replace("def inputs", "def imputs")),
        "reference.py: defines no function inputs(axes, params, seed)",
    ),
    "no reference()": (
        _write("reference.py", REFERENCE.replace("def reference", "def truth")),
        "reference.py: defines no function reference(x, a)",
    ),
    "other arguments": (
        _write("reference.py", REFERENCE.replace("(x, a)", "(x, b)")),
        "reference.py: reference: must take the arguments x, a, it takes x, b",
    ),
    "an argument too many": (
        _write("reference.py", REFERENCE.replace("(x, a)", "(x, a, b, c=1)")),
        "reference.py: reference: must take the arguments x, a, it takes x, a, b, c",
    ),
    "baseline's arguments": (
        _write(
            "reference.py", REFERENCE.replace('raise SystemExit("the', 'def baseline(y): ...\nraise SystemExit("the')
        ),
        "reference.py: baseline: must take the arguments x, a, it takes y",
    ),
    "seed is no Python": (_write("seed.py", "def scale(\n"), "contracts.python.seed: seed.py: line 1: "),
    "seed without function": (
        _write("seed.py", "x = 1\n"),
        "contracts.python.seed: seed.py: defines no function 'scale'",
    ),
    "C++ without function": (
        _write("seed.cpp", CPP.replace("scale(", "scales(")),
        "contracts.cpp.entry_point: seed.cpp defines no function 'scale'",
    ),
    "broken knobs": (
        _write("seed.cpp", "// ksearch: knob SIZE = 1 | 2 ; Blocks\n#define SIZE 3\n" + CPP),
        "contracts.cpp.seed: seed.cpp: line 2: knob SIZE is '3'; it allows 1, 2",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_folder_is_refused_in_one_line(folder: Path, case: str) -> None:
    break_it, message = MALFORMED[case]
    break_it(folder)
    with pytest.raises(TaskError) as caught:
        load_task_folder(folder)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(folder))
    assert "\n" not in str(caught.value)


def test_a_place_without_a_task_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"nowhere/task\.toml: no such file"):
        load_task_folder(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(TaskError, match=r"file/task\.toml"):
        load_task_folder(tmp_path / "file")


def test_links_inside_the_folder_are_followed(folder: Path) -> None:
    (folder / "seed.py").rename(folder / "real.py")
    (folder / "seed.py").symlink_to("real.py")
    seed = load_task_folder(folder).seed("python")
    assert seed is not None
    assert seed.files == {"seed.py": PYTHON}


def test_a_reference_may_take_all_inputs_as_keywords(folder: Path) -> None:
    (folder / "reference.py").write_text(REFERENCE.replace("reference(x, a)", "reference(**values)"))
    assert "**values" in load_task_folder(folder).reference


def test_odd_escapes_in_a_reference_are_no_warning(folder: Path) -> None:
    (folder / "reference.py").write_text(REFERENCE + 'PATTERN = "\\d"\n')
    assert load_task_folder(folder).name == "scale"
