"""Tasks in one file: what is read from them, how they are refused, and that a search keeps them."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluators.errors import TaskError
from evaluators.resolve import resolve_task
from evaluators.task import Scalar, Tensor
from nodes.prompting.specification import shown_reference
from tests.cli.conftest import ROOT, Done, call

PLAIN = '''"""Add a row."""

import torch

WORKLOADS = {"small": {"n": 8, "d": 16}, "large": {"n": 32, "d": 16}}
HELD_OUT = [{"n": 5, "d": 77, "scale": 3.0}]
TOLERANCE = {"rtol": 1e-3, "atol": 0.0}
SEED = {"cpp": "plain.cpp"}
TIMEOUT_S = 7


def inputs(n, d, seed, scale=1.0):
    x = torch.randn(n, d, generator=torch.Generator().manual_seed(seed)) * scale
    return x, torch.randn(d), torch.randint(0, n, (2 * n, 3)), 0.5


def reference(x, row, index, share):
    assert x.isfinite().all() and float(x.sum()) != 0.5
    return {"y": x + row * share, "picked": index.int()}


def baseline(x, row, index, share):
    return {"y": torch.add(x, row * share), "picked": index.int()}


def floor(n, d):
    return {"bytes": 4 * n * d, "operations": n}
'''
SEED = 'extern "C" void adding(const float* x, const float* row) {}\n'


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def written(text: str, **others: str) -> str:
        for name, content in others.items():
            (tmp_path / name).write_text(content)
        (tmp_path / "adding.py").write_text(text)
        return str(tmp_path / "adding.py")

    return written


def test_all_that_a_file_may_say(write: Callable[..., str], tmp_path: Path) -> None:
    file = write(PLAIN)
    (tmp_path / "plain.cpp").write_text(SEED)
    task = resolve_task(file)
    assert (task.name, task.title, task.origin, task.device) == ("adding", "Add a row", file, "cpu")
    assert task.axes == ("n", "d", "index_0")
    assert task.constants == {"index_1": 3}
    assert task.inputs == {
        "x": Tensor(shape=("n", "d"), dtype="float32"),
        "row": Tensor(shape=("d",), dtype="float32"),
        "index": Tensor(shape=("index_0", "index_1"), dtype="int64"),
        "share": Scalar(scalar="float64"),
    }
    assert {name: tensor.dtype for name, tensor in task.outputs.items()} == {"y": "float32", "picked": "int32"}
    small, large, held_out = task.workloads
    assert (small.name, small.split, small.axes) == ("small", "search", {"n": 8, "d": 16, "index_0": 16})
    assert (large.name, large.params, large.axes["index_0"]) == ("large", {"scale": 1.0}, 64)
    assert (held_out.split, held_out.params, held_out.axes["d"]) == ("held_out", {"scale": 3.0}, 77)
    assert (task.tolerance.rtol, task.timeout_s) == (1e-3, 7)
    assert task.contracts["cpp"].seed == {"plain.cpp": SEED}
    assert task.contracts["python"].binding == "value"
    shown = shown_reference(task.reference)
    assert "def reference" in shown
    assert not any(word in shown for word in ("77", "HELD_OUT", "def inputs", "def baseline", "def floor"))


STOPPED = {
    "no reference": ("def inputs():\n    return 1\n", "defines no function reference"),
    "no inputs": ("def reference(x):\n    return x\n", "defines no function inputs"),
    "not Python": ("def inputs(:\n", "line 1: invalid syntax"),
    "a star": (PLAIN.replace("(n, d, seed", "(n, d, *more, seed"), "inputs: must name each of its parameters"),
    "a computed constant": (PLAIN.replace("TIMEOUT_S = 7", "TIMEOUT_S = 7 * 2 + len('a')"), "TIMEOUT_S: must be writ"),
    "a misspelt constant": (PLAIN.replace("HELD_OUT", "HELDOUT"), "did you mean 'HELD_OUT'?"),
    "no list of workloads": (PLAIN.replace("HELD_OUT = [", "HELD_OUT = 3 or ["), "HELD_OUT: must be writ"),
    "a number of workloads": (PLAIN + "HELD_OUT = 3\n", "HELD_OUT: must be a list of dicts, or a dict of them by name"),
    "one name": (PLAIN + "HELD_OUT = {'small': {'n': 4}}\n", "WORKLOADS, HELD_OUT: the name 'small' is used twice"),
    "no finite number": (
        PLAIN + "HELD_OUT = [{'n': 4, 'd': 4, 'scale': 1e999}]\n",
        "scale: must be a finite number, a text",
    ),
    "bytes": (
        PLAIN + "HELD_OUT = [{'n': 4, 'd': 4, 'scale': b'1'}]\n",
        "scale: must be a finite number, a text, True or",
    ),
    "a name that steers": (
        PLAIN + "HELD_OUT = {'\\x1b[2J': {'n': 4, 'd': 4}}\n",
        "name: must be printable, on one line",
    ),
    "half a letter": (PLAIN + "HELD_OUT = {'\\ud800': {'n': 4, 'd': 4}}\n", "name: must be a text"),
    "a long name": (PLAIN + f'NAME = "{"x" * 201}"\n', "NAME: must be a word of at most 200 letters"),
    "a device of another kind": (PLAIN + "DEVICE = []\n", "DEVICE: must be one of cpu, cuda"),
    "languages of another kind": (PLAIN + "LANGUAGES = [[]]\n", "LANGUAGES: must be a list of some of cpp"),
    "a number of languages": (PLAIN + "LANGUAGES = 5\n", "LANGUAGES: must be a list of some of cpp"),
    "an endless tolerance": (
        PLAIN + "TOLERANCE = {'rtol': 1e999, 'atol': 0}\n",
        "TOLERANCE.rtol: must be a fin",
    ),
    "a true tolerance": (
        PLAIN + "TOLERANCE = {'rtol': True, 'atol': 0}\n",
        "TOLERANCE.rtol: must be a num",
    ),
    "an unknown key of a tolerance": (
        PLAIN + "TOLERANCE = {'rtol': 0.1, 'atoll': 0}\n",
        "TOLERANCE: 'atoll' is none of rtol, atol, rule, matched, normalised",
    ),
    "a tolerance of another kind": (PLAIN + "TOLERANCE = 3\n", "TOLERANCE: must be a dict of some of rtol, atol, rule"),
    "a missing seed": (PLAIN.replace("plain.cpp", "none.cpp"), "adding.py: SEED: "),
    "a true limit": (PLAIN + "TIMEOUT_S = True\n", "TIMEOUT_S: must be a number of seconds"),
    "nested": ("x = " + "-" * 100_000 + "1\n", "is not Python: nested too deeply"),
    "a limit": (PLAIN.replace("TIMEOUT_S = 7", "TIMEOUT_S = -7"), "TIMEOUT_S: must be a number of seconds"),
    "an unknown argument": (PLAIN.replace('"n": 8', '"m": 8'), "'small': inputs() has no argument 'm'"),
    "a missing argument": (PLAIN.replace('"n": 8, ', ""), "'small': says nothing of the argument 'n'"),
    "a huge axis": (PLAIN.replace('"n": 8', '"n": 8000000000000'), "'small': axes.n: must be less"),
    "an empty axis": (PLAIN.replace('"n": 8', '"n": 0'), "'small': axes.n: must be greater"),
    "a list of numbers": (PLAIN.replace("HELD_OUT = [{", "HELD_OUT = [3, {"), "HELD_OUT: must be a list of dicts"),
    "an absolute seed": (PLAIN.replace("plain.cpp", "/etc/passwd"), "SEED: '/etc/passwd' is not the name of a file"),
    "a seed above": (PLAIN.replace("plain.cpp", "../plain.cpp"), "is not the name of a file beside"),
    "a device": (PLAIN + 'DEVICE = "tpu"\n', "DEVICE: must be one of cpu, cuda"),
    "a name": (PLAIN + 'NAME = "../x"\n', "NAME: must be a word"),
    "a floor of something else": (
        PLAIN.replace("def floor(n, d)", "def floor(n, scale)"),
        "floor: its parameter 'scale' is none of the sizes that inputs() takes: n, d",
    ),
    "KernelBench": ("class Model: pass\ndef get_inputs(): pass\n", "call it kernelbench:"),
}


@pytest.mark.parametrize("what", STOPPED)
def test_what_is_refused_before_anything_runs(what: str, write: Callable[..., str], tmp_path: Path) -> None:
    text, reason = STOPPED[what]
    run = f"\nimport pathlib\npathlib.Path({str(tmp_path / 'it ran')!r}).touch()\n"
    file = write(text + run)
    with pytest.raises(TaskError) as caught:
        resolve_task(file)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(file)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "it ran").exists()


def test_links_out_of_the_folder_are_refused(write: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    shutil.move(write(PLAIN), tmp_path / "inside" / "adding.py")
    (tmp_path / "plain.cpp").write_text(SEED)
    (tmp_path / "inside" / "plain.cpp").symlink_to(tmp_path / "plain.cpp")
    with pytest.raises(TaskError, match=r"adding\.py: SEED: .*plain\.cpp: is a link to a file outside") as caught:
        resolve_task(str(tmp_path / "inside" / "adding.py"))
    assert "\n" not in str(caught.value)


def test_sizes_beyond_any_device_are_refused(tmp_path: Path) -> None:
    base = "import torch\nDEVICE = 'cuda'\ndef inputs(n=4):\n    return torch.ones(n, 100000)\n"
    for constant in ("WORKLOADS", "HELD_OUT"):
        text = f"{base}def reference(x):\n    return x\n{constant} = {{'large': {{'n': 1000000000}}}}\n"
        (tmp_path / "large.py").write_text(text)
        with pytest.raises(
            TaskError, match=rf"large\.py: {constant}: 'large': the tensors take \d+ GiB, more than 256"
        ):
            resolve_task(str(tmp_path / "large.py"))


def test_what_is_no_plain_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    for name in ("pipe.py", "folder.py"):
        with pytest.raises(TaskError, match=rf"{name}: is not a plain file$"):
            resolve_task(str(tmp_path / name))


FAILING = {
    "the module raises": ("raise OSError('no')\n", "its source failed: OSError: no"),
    "the module never returns": ("while True: pass\n", "adding.py: its source: no end within 3 s"),
    "inputs never returns": (
        "_plain = inputs\ndef inputs():\n    while True: pass\n",
        "adding.py: inputs(): no end within 3 s",
    ),
    "it swallows everything": (
        "def reference(x):\n    while True:\n        try:\n            while True: pass\n"
        "        except BaseException: pass\n",
        "adding.py: reference() of inputs(): no end within 3 s",
    ),
    "it ends the process": ("import os\nos._exit(0)\n", "its source: exited with code 0 before it answered"),
    "a complex result": (
        "def reference(x):\n    return x + 1j\n",
        "output at its size: its type torch.complex64 is not",
    ),
    "it reads a file of mine": ("open(PLACE).read()\n", "its source failed: "),
}


@pytest.mark.parametrize("what", FAILING)
def test_what_fails_when_it_is_run(what: str, write: Callable[..., str], tmp_path: Path) -> None:
    addition, reason = FAILING[what]
    (tmp_path / "secret").write_text("secret")
    base = "import torch\nTIMEOUT_S = 3\ndef inputs():\n    return torch.ones(3)\ndef reference(x):\n    return x\n"
    file = write(f"PLACE = {str(tmp_path / 'secret')!r}\n{base}{addition}")
    with pytest.raises(TaskError) as caught:
        resolve_task(file)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(file)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / "own-task.md").read_text(), re.DOTALL)


def test_the_guide_does_what_it_says_and_the_search_keeps_the_task(tmp_path: Path) -> None:
    task, program = blocks("python")[:2]
    assert len([line for line in task.splitlines() if line.strip()]) <= 10
    (tmp_path / "gate.py").write_text(task)
    (tmp_path / "mine.py").write_text(program)

    def ksearch(*arguments: object) -> Done:
        done = call(tmp_path, *arguments)
        assert done.code == 0, done.err
        return done

    assert "x: [rows, cols] float32" in ksearch("tasks", "show", "gate.py").out
    judged = ksearch("evaluate", "gate.py", "mine.py", "--language", "python", "--effort", "check", "--json").json
    assert [program["status"] for program in judged["programs"]] == ["passed"]
    script = {"proposals": [{"edits": [insert("One"), insert("Two")]}], "cycles": [[1.5], [2.0]]}
    (tmp_path / "script.json").write_text(json.dumps(script))
    way = ("--planner", "script:script.json", "--coder", "script:script.json", "--evaluator", "scripted")
    ksearch("run", "gate.py", *way, "--evaluations", 1)
    (tmp_path / "gate.py").unlink()
    resumed = ksearch("resume", "gate-1", "--evaluations", 2, "--json").json
    assert resumed["spend"]["evaluations"] == 2
    assert resumed["best"]["ratio"] == pytest.approx(2.0)


def insert(title: str) -> dict[str, object]:
    return {"kind": "insert", "parent": "root", "intent": {"title": title, "priority": 0.5}}


def test_a_default_that_is_no_size_is_left_to_python(write: Callable[..., str]) -> None:
    text = "def inputs(n=4, dtype=torch.float64, like=None, sizes=(1, 2)):\n    return torch.ones(n, dtype=dtype)\n"
    task = resolve_task(write(f"import torch\n\n{text}def reference(x):\n    return x\n"))
    assert (task.workloads[0].axes, task.workloads[0].params) == ({"n": 4}, {})
    assert task.inputs == {"x": Tensor(shape=("n",), dtype="float64")}
