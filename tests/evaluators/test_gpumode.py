"""GPU MODE problem folders: what is read and refused, both protocols, and our own eval.py against its description."""

import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from evaluators.adapters.drivers import gpumode_official as driver
from evaluators.adapters.flashinfer.exporting import export_definition
from evaluators.adapters.gpumode import strict
from evaluators.errors import TaskError
from evaluators.evaluation import Environment
from evaluators.local import LocalEvaluator
from evaluators.resolve import resolve_task
from evaluators.task import Task, Tensor, contract_solution
from evaluators.task_check import check_task
from evaluators.task_file import TASKS
from evaluators.user_verdict import UserVerdicts
from evaluators.worker.source import load_source

OFFICIAL = TASKS / "trimul_official"
YAML = """files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: task.py, source: task.py}
  - {name: utils.py, source: ../utils.py}
  - {name: reference.py, source: reference.py}
  - {name: eval.py, source: ../eval.py}
lang: py
config: {main: eval.py}
description: Scale where the mask says so.
ranking_by: geom
test_timeout: 100
tests:
  - {n: 8, seed: 4, masked: False}
  - {n: 9, seed: 5, masked: True}
benchmarks:
  - {n: 16, seed: 6, masked: True}
  - {n: 32, seed: 7, masked: True}
"""
REFERENCE = """import torch
from task import input_t, output_t
from utils import make_match_reference


def generate_input(n, seed, masked) -> input_t:
    gen = torch.Generator(device="cuda").manual_seed(seed)
    x = torch.randn(n, 4, device="cuda", generator=gen)
    mask = (torch.rand(n, device="cuda", generator=gen) < 0.5).float() if masked else torch.ones(n, device="cuda")
    return x, {"mask": mask, "a.b": torch.randn(4).cuda()}, {"scale": 3}, torch.empty(n, 4, device="cuda")


def ref_kernel(data) -> output_t:
    x, weights, config, out = data
    torch.cuda.synchronize()
    out[...] = x * weights["mask"][:, None] * config["scale"] + weights["a.b"]
    return out


check_implementation = make_match_reference(ref_kernel, rtol=1e-4, atol=1e-5)
"""
PROGRAM = """from task import input_t, output_t
import torch


def custom_kernel(data: input_t) -> output_t:
    x, weights, config, out = data
    torch.addcmul(weights["a.b"], x * config["scale"], weights["mask"][:, None], out=out)
    return out
"""
TASK = "input_t = tuple\noutput_t = object\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def written(**changes: str) -> Path:
        folder = tmp_path / "set" / "scaled"
        folder.mkdir(parents=True)
        for name in ("utils.py", "eval.py"):
            (folder.parent / name).write_text((OFFICIAL / name).read_text())
        files = {"task.yml": YAML, "task.py": TASK, "reference.py": REFERENCE}
        files |= {name.replace("_", "."): text for name, text in changes.items()}
        for name, text in files.items():
            (folder / name).write_text(text)
        return folder

    return written


async def known() -> Environment:
    return Environment(device="test", torch="0")


def solution(task: Task, text: str) -> Any:
    return contract_solution(task.contracts["python"], "python", {"mine.py": text})


async def test_the_strict_protocol(write: Callable[..., Path]) -> None:
    folder = write()
    task = resolve_task(f"gpumode:{folder}#cpu")
    assert list(task.inputs) == ["data_0", "mask", "a_b", "scale", "preallocated_data_3"]
    assert [(item.name, item.split, item.axes["n"], item.params["masked"]) for item in task.workloads] == [
        ("benchmark 0", "search", 16, True),
        ("benchmark 1", "search", 32, True),
        ("test 0", "held_out", 8, False),
        ("test 1", "held_out", 9, True),
    ]
    assert (task.tolerance.rtol, task.tolerance.atol, task.timeout_s) == (1e-4, 1e-5, 100)
    assert "(data_0, {'mask': mask, 'a.b': a_b}, {'scale': scale}, preallocated_data_3)" in task.description
    assert set(task.files) == {"task.py", "utils.py"}
    judge = LocalEvaluator()
    programs = {
        "passed": PROGRAM,
        "wrong_values": PROGRAM.replace('weights["mask"][:, None]', "torch.ones(1)"),
        "mutated_input": PROGRAM.replace("return out", 'weights["mask"].zero_()\n    return out'),
        "wrong_dtype": PROGRAM.replace("return out", "return out.half()"),
        "wrong_layout": PROGRAM.replace("return out", "return out.t().contiguous().t()"),
        "import_error": "import reference\n" + PROGRAM,
    }
    verdicts = await judge.compare(task, [solution(task, text) for text in programs.values()], "check")
    await judge.close()
    assert [verdict.status.value for verdict in verdicts.evaluations] == list(programs)


def test_a_definition_written_for_flashinfer_bench_runs(write: Callable[..., Path]) -> None:
    task = resolve_task(f"gpumode:{write()}#cpu")
    module = load_source(export_definition(task, "custom").reference)
    made = module.inputs(dict(task.workloads[0].axes), dict(task.workloads[0].params), 1)
    assert torch.equal(module.run(*made.values()), module.reference(**made))


MIXED = """import torch
from utils import make_match_reference


def generate_input(n, seed, nomask, negated):
    gen = torch.Generator(device="cuda").manual_seed(seed)
    x = torch.randn(n, 4, device="cuda", generator=gen)
    mask = torch.ones(n, device="cuda") if nomask else torch.randint(0, 2, (n,), device="cuda", generator=gen)
    return x, mask, {"n": n, "nomask": nomask, "skip": nomask, "negated": negated}


def ref_kernel(data):
    x, mask, config = data
    kept = x if config["skip"] else x * mask[:, None]
    return (-kept if config["negated"] else kept) * config["n"]


check_implementation = make_match_reference(ref_kernel, rtol=1e-4, atol=1e-5)
"""
MIXED_PROGRAM = """import torch


def custom_kernel(data):
    x, mask, config = data
    assert sorted(config) == ["n", "negated", "skip"], config
    assert config["skip"] is False
    assert type(config["negated"]) is bool
    assert mask.dtype == torch.float32
    kept = x * mask[:, None] * config["n"]
    return -kept if config["negated"] else kept
"""
MIXED_YAML = (
    YAML.split("tests:")[0]
    + """tests:
  - {n: 8, seed: 4, nomask: True, negated: True}
benchmarks:
  - {n: 16, seed: 6, nomask: True, negated: False}
  - {n: 32, seed: 7, nomask: False, negated: True}
"""
)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_differs_between_cases_has_one_type_and_tells_nothing(write: Callable[..., Path], device: str) -> None:
    task = resolve_task(f"gpumode:{write(task_yml=MIXED_YAML, reference_py=MIXED)}#{device}")
    assert list(task.inputs) == ["data_0", "data_1", "n", "negated"]
    assert task.inputs["data_1"] == Tensor(
        shape=("n",), dtype="float32", description="made as float32 or int64, the same type in all cases"
    )
    assert "(data_0, data_1, {'n': n, 'skip': False, 'negated': bool(negated)})" in task.description
    assert "`data_1` is float32 in every case." in task.description
    assert "`data[2]['nomask']` is not there" in task.description
    assert "`data[2]['skip']` is always False" in task.description
    assert "nomask" not in task.contracts["python"].wrapper


async def test_programs_are_judged_on_what_they_are_told(write: Callable[..., Path]) -> None:
    task = resolve_task(f"gpumode:{write(task_yml=MIXED_YAML, reference_py=MIXED)}#cpu")
    judge = LocalEvaluator()
    programs = [MIXED_PROGRAM, MIXED_PROGRAM.replace(" * mask[:, None]", ""), MIXED_PROGRAM.replace("-kept", "kept")]
    verdicts = await judge.compare(task, [solution(task, text) for text in programs], "check")
    await judge.close()
    assert [verdict.status.value for verdict in verdicts.evaluations] == ["passed", "wrong_values", "wrong_values"]


def test_words_that_differ_and_other_things_in_the_data_are_refused(write: Callable[..., Path]) -> None:
    folder = write(
        task_yml=MIXED_YAML, reference_py=MIXED.replace('"negated": negated', '"negated": "yes" if negated else ""')
    )
    with pytest.raises(TaskError, match=r"reference.py: generate_input: data\[2\]\['negated'\] is a word that differs"):
        resolve_task(f"gpumode:{folder}#cpu")
    (folder / "reference.py").write_text(MIXED.replace('"negated": negated', '"negated": negated, "kind": torch.half'))
    with pytest.raises(
        TaskError, match=r"reference\.py: generate_input: puts a dtype into its data, neither tensor, number nor word"
    ):
        resolve_task(f"gpumode:{folder}#cpu")
    (folder / "reference.py").write_text(MIXED.replace('"skip": nomask', '**({"skip": 1} if nomask else {})'))
    with pytest.raises(
        TaskError, match=r"reference\.py: generate_input: puts its data together in different ways in different cases"
    ):
        resolve_task(f"gpumode:{folder}#cpu")


SILENT = {
    "raises": (
        "    torch.cuda.synchronize()",
        "    raise OSError('no')",
        "ref_kernel(n=8, masked=False, seed=4) failed: OSE",
    ),
    "never returns": (
        "    torch.cuda.synchronize()",
        "    while True: pass",
        "reference.py: ref_kernel(n=8, masked=False, seed=4): no end within 8 s",
    ),
    "makes nothing": (
        "    x = torch",
        "    while True: pass\n    x = torch",
        "inputs(n=16, masked=True, seed=6): no end within",
    ),
    "does not load": ("import torch", "while True: pass\nimport torch", "reference.py: its source: no end within 8 s"),
    "a complex number": ("randn(n, 4,", "randn(n, 4, dtype=torch.complex64,", "its type torch.complex64 is not one of"),
}


@pytest.mark.parametrize("what", SILENT)
def test_what_fails_when_it_is_run(what: str, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    plain, changed, reason = SILENT[what]
    if "while True" in changed:
        monkeypatch.setattr(strict, "PROBE_S", 8.0)
    folder = write(reference_py=REFERENCE.replace(plain, changed, 1))
    with pytest.raises(TaskError) as caught:
        resolve_task(f"gpumode:{folder}#cpu")
    assert reason in str(caught.value)
    assert str(caught.value).startswith(str(folder / "reference.py"))
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="is of machines without a GPU")
def test_a_task_for_a_gpu_is_checked_without_one(write: Callable[..., Path]) -> None:
    findings = check_task(resolve_task(f"gpumode:{write()}#cuda"))
    assert {finding.state for finding in findings} == {"passed"}, findings


LEAVES_A_THREAD = """import threading, time

class Left:
    def start(self):
        threading.Thread(target=time.sleep, args=(6000,)).start()

left = Left()
"""


async def test_the_official_protocol(write: Callable[..., Path]) -> None:
    folder = write(
        reference_py=REFERENCE.replace('"cuda"', '"cpu"').replace(".cuda()", "").replace("torch.cuda.syn", "#")
    )
    task = resolve_task(f"gpumode:{folder}#official#cpu")
    assert (task.verdict, task.objective.goal, task.objective.unit) == ("gpumode", "min", "us")
    judge = UserVerdicts(known)
    # Words stay words: "False" is true, so a program that leaves out the mask where there is none still fails.
    for text, status, words in (
        (PROGRAM, "passed", ""),
        (
            PROGRAM.replace("return out", "return out + 1"),
            "wrong_values",
            "test (n: 8; seed: 4; masked: False): 32 mism",
        ),
        ("import os\n" + PROGRAM.replace("return out", "os._exit(3)"), "crashed", "the program ended its process"),
        ("import sys\n" + PROGRAM.replace("return out", "sys.exit(0)"), "crashed", "the program ended its process"),
        (LEAVES_A_THREAD + PROGRAM.replace("return out", "left.start()\n    return out"), "passed", ""),
        ("raise OSError('no')\n", "import_error", "OSError: no"),
    ):
        verdict = await judge.evaluate(task, solution(task, text), "check")
        assert (verdict.status.value, words in verdict.message) == (status, True), verdict
        assert "own verdict" in verdict.notes[0]
    await judge.close()


REFUSED = {
    "absolute": (YAML.replace("../utils.py", "/etc/passwd"), "files[2].source: '/etc/passwd' must be a path relative"),
    "far above": (YAML.replace("../utils.py", "../../../x.py"), "files[2].source: '../../../x.py' leaves the set"),
    "beside": (YAML.replace("../utils.py", "../other/x.py"), "files[2].source: '../other/x.py' leaves the set"),
    "in and out": (YAML.replace("../utils.py", "a/../../../x.py"), "leaves the set of problems"),
    "missing": (YAML.replace("../utils.py", "none.py"), "files[2].source: "),
    "a folder's name": (
        YAML.replace("name: utils.py", "name: ../utils.py"),
        "files[2].name: '../utils.py' is not a plain",
    ),
    "twice": (YAML.replace("name: utils.py", "name: task.py"), "files[2].name: 'task.py' is used twice"),
    "no submission": (YAML.replace('"@SUBMISSION@"', "task.py"), "files: none has the source @SUBMISSION@"),
    "CUDA": (YAML.replace("lang: py", "lang: cu"), "lang: 'cu' must be one of py"),
    "main": (YAML.replace("main: eval.py", "main: run.py"), "config.main: 'run.py' is none of the files"),
    "a list of mains": (YAML.replace("main: eval.py", "main: [eval.py]"), "config.main: ['eval.py'] is none of"),
    "two programs": (
        YAML.replace("source: task.py", 'source: "@SUBMISSION@"'),
        "files[1].source: two files are the pro",
    ),
    "nested": (YAML + "a: " + "[" * 50_000, "task.yml: not valid YAML: line 18: nested too deeply"),
    "ranking": (YAML.replace("geom", "best"), "ranking_by: 'best' must be one of last, mean, geom"),
    "timeout": (YAML.replace("100", "-1"), "test_timeout: -1 must be a whole number of seconds"),
    "a case": (YAML.replace("n: 8", "n: [8]"), "tests[0].n: [8] must be a whole number or a word"),
    "a large number": (YAML.replace("n: 8", f"n: {2**70}"), "tests[0].n: 1180591620717411303424 is larger than"),
    "a large seed": (YAML.replace("seed: 4", f"seed: {2**63}"), "tests[0].seed: 9223372036854775808 is larger than"),
    "a misspelt key": (YAML.replace("ranking_by", "rankingby"), "rankingby: is unknown; did you mean 'ranking_by'?"),
    "no cases": (YAML.split("benchmarks:")[0], "benchmarks: must be a list of 1 to"),
    "several GPUs": (YAML + "multi_gpu: true\n", "multi_gpu: problems for several GPUs"),
    "aliases": (YAML + "a: &a [1]\nb: [*a, *a]\n", "anchors and aliases are not allowed"),
    "a tag": (YAML + "a: !!python/object/apply:os.system [ls]\n", "not valid YAML"),
    "a huge axis": (YAML.replace("n: 16", "n: 99999999999"), "task.yml: benchmarks[0].n: must be less"),
    "an argument": (YAML.replace("{n: 16", "{m: 16"), "task.yml: benchmarks[0].m: generate_input has no such"),
}


OFFICIAL_TOO = ("a large number", "a large seed", "a misspelt key", "absolute")


@pytest.mark.parametrize(
    ("what", "how"), [*((what, "cpu") for what in REFUSED), *((what, "official") for what in OFFICIAL_TOO)]
)
def test_what_is_refused_before_anything_runs(what: str, how: str, write: Callable[..., Path]) -> None:
    text, reason = REFUSED[what]
    folder = write(task_yml=text)
    with pytest.raises(TaskError) as caught:
        resolve_task(f"gpumode:{folder}#{how}")
    assert reason in str(caught.value)
    assert str(caught.value).startswith(str(folder))
    assert "\n" not in str(caught.value)


def test_links_out_and_checks_of_its_own_are_refused(write: Callable[..., Path], tmp_path: Path) -> None:
    folder = write()
    (folder / "task.py").unlink()
    (tmp_path / "elsewhere.py").write_text(TASK)
    (folder / "task.py").symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(TaskError, match=r"files\[1\]\.source: .*is a link to a file outside"):
        resolve_task(f"gpumode:{folder}#cpu")
    (folder / "task.py").unlink()
    (folder / "task.py").write_text(TASK)
    (folder / "reference.py").write_text(
        REFERENCE.split("check_implementation")[0] + "def check_implementation(d, o): ...\n"
    )
    with pytest.raises(TaskError, match="#official"):
        resolve_task(f"gpumode:{folder}#cpu")


def test_sizes_beyond_any_device_are_refused(write: Callable[..., Path]) -> None:
    folder = write(task_yml=YAML.replace("n: 9,", "n: 2147483647,"), reference_py=REFERENCE.replace("n, 4", "n, 64"))
    (folder / "reference.py").write_text((folder / "reference.py").read_text().replace("randn(4)", "randn(64)"))
    with pytest.raises(TaskError, match=r"/task\.yml: tests\[1\]: the tensors take \d+ GiB, more than 256 GiB"):
        resolve_task(f"gpumode:{folder}#cpu")


def test_a_size_that_does_not_fit_in_memory_is_told_with_the_file_it_stands_in(write: Callable[..., Path]) -> None:
    text = YAML.replace("n: 32", "n: 2000000000")
    folder = write(task_yml=text)
    failed = check_task(resolve_task(f"gpumode:{folder}#cpu"))[0]
    assert failed.state == "failed"
    words = " needs more memory than there is: RuntimeError: "
    assert failed.detail.startswith(f"{folder / 'task.yml'}: workload 'benchmark 1' (data_0_1 4, n 2000000000){words}")
    # Where its shapes depend on values, it is run to see what it makes.
    (folder / "reference.py").write_text(REFERENCE.replace("return x, {", "assert int(x[0, 0]) < 9\n    return x, {"))
    with pytest.raises(TaskError) as caught:
        resolve_task(f"gpumode:{folder}#cpu")
    words = "inputs(n=2000000000, masked=True, seed=7) needs more memory than it is given"
    assert str(caught.value) == f"{folder / 'task.yml'}: benchmarks[1]: {words}"


def test_the_result_pipe() -> None:
    assert driver.parsed("check: pass\nbenchmark.0.spec: n: 3; m: 4\nnoise\n") == {
        "check": "pass",
        "benchmark.0.spec": "n: 3; m: 4",
    }
    request = {"ranking": "last", "tests": [{"n": 1}], "benchmarks": [{"n": 2}, {"n": 3, "masked": False}]}
    assert driver.cases_of("benchmark", request) == [{"n": 3, "masked": False}]
    assert (
        driver.lines_of(driver.cases_of("leaderboard", {**request, "ranking": "geom"})) == "n: 2\nn: 3; masked: False\n"
    )
    assert [driver.score_ns([1.0, 4.0], ranking) for ranking in ("last", "mean", "geom")] == [
        4.0,
        2.5,
        pytest.approx(2.0),
    ]


@pytest.fixture
def own_eval() -> ModuleType:
    spec = importlib.util.spec_from_file_location("own_eval", OFFICIAL / "eval.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_eval"] = module
    spec.loader.exec_module(module)
    return module


def test_own_eval_follows_the_description(own_eval: Any) -> None:
    assert own_eval.parse_case("n: 8; masked: False; k: -3\n") == {"n": 8, "masked": "False", "k": -3}
    with pytest.raises(ValueError, match="invalid case 'n'"):
        own_eval.parse_case("n; m: 3")
    assert own_eval.combined(3, 4) == 3 + (3 + 4) * (3 + 4 + 1) // 2
    found = own_eval.statistics_of([100.0, 102.0, 98.0, 100.0])
    assert (found["runs"], found["mean"], found["best"], found["worst"]) == (4, 100.0, 98.0, 102.0)
    assert found["std"] == pytest.approx(math.sqrt(8 / 3))
    assert found["err"] == pytest.approx(math.sqrt(8 / 3) / 2)
    steady, noisy = [100.0, 100.0, 100.0], [100.0, 150.0, 60.0]
    assert not own_eval.is_enough(1, steady[:2], 0.0, 1e12)
    assert own_eval.is_enough(2, steady, 0.0, 1e12)
    assert not own_eval.is_enough(2, noisy, 119.0, 1e12)
    assert own_eval.is_enough(2, noisy, 121.0, 1e12)
    assert own_eval.is_enough(2, noisy, 0.0, 309.0)
    assert (own_eval.MOST_REPEATS, own_eval.CAP_NS) == (100, {"benchmark": 10e9, "leaderboard": 30e9})


def test_the_cases_of_trimul() -> None:
    task = resolve_task(f"gpumode:{OFFICIAL}#official#cpu")
    import json

    meta = json.loads(task.files["ksearch-official.json"])
    assert (len(meta["tests"]), meta["ranking"], set(meta["timeouts_s"].values())) == (18, "geom", {1200})
    cases = [(case["seqlen"], case["bs"], case["dim"], case["nomask"], case["seed"]) for case in meta["benchmarks"]]
    assert cases == [
        (256, 2, 128, True, 9371),
        (768, 1, 128, True, 381),
        (256, 2, 384, False, 2301),
        (512, 1, 128, True, 12819),
        (1024, 1, 128, True, 381),
        (768, 1, 384, False, 481),
        (1024, 1, 384, True, 23291),
    ]
