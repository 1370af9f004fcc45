"""The CPU evaluator end to end, with real compilers and processes."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from evaluators.errors import InfrastructureError, TaskError
from evaluators.local import LocalEvaluator
from evaluators.solution import Solution
from evaluators.task import Contract, Scalar, Task, Tensor, Tolerance, Workload
from evaluators.worker.status import Status
from tests.evaluators import tiny

ROOT = Path(__file__).parents[2]


@pytest_asyncio.fixture(scope="module")
async def evaluator() -> AsyncIterator[LocalEvaluator]:
    local = LocalEvaluator()
    yield local
    await local.close()


@pytest.mark.parametrize("program", [tiny.GOOD_CPP, tiny.GOOD_DPS, tiny.GOOD_VALUE], ids=["cpp", "dps", "value"])
async def test_right_program_passes_the_check_untimed(evaluator: LocalEvaluator, program: Solution) -> None:
    result = await evaluator.evaluate(tiny.softmax(), program, "check")
    assert (result.status, result.tier, result.objective) == (Status.PASSED, "checked", None)
    assert [workload.workload for workload in result.workloads] == ["small", "wide"]
    assert all(workload.worst_error is not None and workload.worst_error <= 1 for workload in result.workloads)
    assert result.environment is not None
    assert result.environment.sandbox


async def test_search_times_every_search_workload(evaluator: LocalEvaluator) -> None:
    result = await evaluator.evaluate(tiny.softmax(), tiny.GOOD_CPP, "search")
    assert (result.status, result.tier) == (Status.PASSED, "timed")
    assert result.objective is not None
    assert result.objective.low <= result.objective.value <= result.objective.high
    assert [workload.workload for workload in result.workloads] == ["small", "wide"]
    for workload in result.workloads:
        assert workload.measurement is not None
        assert workload.measurement.estimates >= 5
    assert result.build_s > 0
    assert result.device_s > 0


async def test_certify_with_a_rival_compares_the_two(evaluator: LocalEvaluator) -> None:
    slow = tiny.cpp(
        tiny.SOFTMAX_CPP.replace("float top", "for (int i = 0; i < 3; ++i) {float top").replace(
            "b[c] /= sum;", 'b[c] /= sum; asm volatile("" ::: "memory"); }'
        ),
        ("-O3",),
    )
    result = await evaluator.evaluate(tiny.softmax(), tiny.GOOD_CPP, "certify", rival=slow)
    assert (result.status, result.tier) == (Status.PASSED, "certified")
    assert result.versus_rival is not None
    assert result.versus_rival.value > 1.5


async def test_a_failing_rival_leaves_a_note(evaluator: LocalEvaluator) -> None:
    wrong = tiny.python("def run(x, y):\n    y.zero_()\n")
    result = await evaluator.evaluate(tiny.softmax(), tiny.GOOD_DPS, "search", rival=wrong)
    assert result.passed
    assert result.versus_rival is None
    assert any("rival was wrong_values" in note for note in result.notes)


async def test_compare_gives_every_pair_of_passing_programs(evaluator: LocalEvaluator) -> None:
    wrong = tiny.python("def run(x, y):\n    y.zero_()\n")
    programs = [tiny.GOOD_CPP, wrong, tiny.GOOD_DPS]
    result = await evaluator.compare(tiny.softmax(), programs, "search")
    assert [one.status for one in result.evaluations] == [Status.PASSED, Status.WRONG_VALUES, Status.PASSED]
    assert [(pair.a, pair.b) for pair in result.pairs] == [(programs[0].digest, programs[2].digest)]


async def test_held_out_failure_tells_pass_or_fail_only(evaluator: LocalEvaluator) -> None:
    text = tiny.SOFTMAX_CPP.replace("float top", "if (cols == 33) { b[0] = 0.5f; continue; }\n        float top")
    program = tiny.cpp(text)
    assert (await evaluator.evaluate(tiny.softmax(), program, "check")).passed
    result = await evaluator.evaluate(tiny.softmax(), program, "certify")
    assert (result.status, result.tier) == (Status.WRONG_VALUES, "built")
    assert result.message == "failed on a held-out workload"
    assert result.log == ""
    assert {workload.workload for workload in result.workloads} == {"small", "wide"}


MIXED_REFERENCE = """
import torch

def inputs(axes, params, seed):
    generator = torch.Generator().manual_seed(seed)
    n = axes["n"]
    return {
        "x": torch.randn(n, 3, generator=generator),
        "index": torch.randint(0, n, (n,), generator=generator, dtype=torch.int32),
        "alpha": float(torch.rand(1, generator=generator)),
        "shift": int(seed % 100) - 50,
        "keep": torch.rand(n, generator=generator) < 0.5,
    }

def reference(x, index, alpha, shift, keep):
    rows = torch.where(keep[:, None], x[index.long()] * alpha + shift, 0.0)
    return {"rows": rows, "kept": keep.to(torch.int64) * (index + shift)}
"""
MIXED_CPP = """
#include <cstdint>
extern "C" void run(const float* x, const int32_t* index, float alpha, int64_t shift, const bool* keep,
                    float* rows, int64_t* kept, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        for (int k = 0; k < 3; ++k) rows[3 * i + k] = keep[i] ? x[3 * index[i] + k] * alpha + shift : 0.0f;
        kept[i] = keep[i] ? index[i] + shift : 0;
    }
}
"""
MIXED_PYTHON = """
def run(x, index, alpha, shift, keep, rows, kept):
    assert isinstance(alpha, float) and isinstance(shift, int)
    rows.copy_(x[index.long()] * alpha + shift).masked_fill_(~keep[:, None], 0)
    kept.copy_(keep.long() * (index + shift))
"""


def mixed_task() -> Task:
    return Task(
        name="mixed",
        description="Gather, scale, shift, mask.",
        constants={"three": 3},
        axes=("n",),
        inputs={
            "x": Tensor(shape=("n", "three"), dtype="float32"),
            "index": Tensor(shape=("n",), dtype="int32"),
            "alpha": Scalar(scalar="float32"),
            "shift": Scalar(scalar="int64"),
            "keep": Tensor(shape=("n",), dtype="bool"),
        },
        outputs={"rows": Tensor(shape=("n", "three"), dtype="float32"), "kept": Tensor(shape=("n",), dtype="int64")},
        workloads=(Workload(name="a", axes={"n": 37}), Workload(name="b", axes={"n": 1000})),
        tolerance=Tolerance(rtol=1e-5, atol=1e-5),
        contracts={"cpp": Contract(entry_point="run", binding="plain_c")},
        reference=MIXED_REFERENCE,
    )


@pytest.mark.parametrize("program", [tiny.cpp(MIXED_CPP), tiny.python(MIXED_PYTHON)], ids=["cpp", "dps"])
async def test_scalars_integers_masks_and_two_outputs(evaluator: LocalEvaluator, program: Solution) -> None:
    result = await evaluator.evaluate(mixed_task(), program, "search")
    assert (result.status, result.message) == (Status.PASSED, "")


async def test_half_precision_types(evaluator: LocalEvaluator) -> None:
    task = Task(
        name="halves",
        description="Add.",
        axes=("n",),
        inputs={"a": Tensor(shape=("n",), dtype="bfloat16"), "b": Tensor(shape=("n",), dtype="float16")},
        outputs={"c": Tensor(shape=("n",), dtype="bfloat16"), "d": Tensor(shape=("n",), dtype="float16")},
        workloads=(Workload(name="only", axes={"n": 333}),),
        tolerance=Tolerance(rtol=1e-2, atol=1e-3),
        contracts={"python": Contract(entry_point="run", binding="value")},
        reference="""
import torch

def inputs(axes, params, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, axes["n"], generator=generator)
    return {"a": x[0].bfloat16(), "b": x[1].half()}

def reference(a, b):
    return a + a, b + b
""",
    )
    program = tiny.python("def run(a, b):\n    return a * 2, b * 2\n", "value")
    result = await evaluator.evaluate(task, program, "check")
    assert (result.status, result.message) == (Status.PASSED, "")


FAILURES: dict[str, tuple[Solution, Status, str]] = {
    "syntax": (tiny.cpp('extern "C" void run( { }'), Status.BUILD_ERROR, "error"),
    "flag": (tiny.cpp(tiny.SOFTMAX_CPP, ("-o/etc/passwd",)), Status.BUILD_ERROR, "-o/etc/passwd is not allowed"),
    "symbol": (tiny.cpp("void run() {}"), Status.IMPORT_ERROR, 'extern "C"'),
    "undefined": (
        tiny.cpp('void other(); extern "C" void run() { other(); }'),
        Status.IMPORT_ERROR,
        "undefined symbol",
    ),
    "python syntax": (tiny.python("def run(:"), Status.IMPORT_ERROR, "SyntaxError"),
    "python import": (tiny.python("import no_such_module"), Status.IMPORT_ERROR, "no_such_module"),
    "no function": (tiny.python("walk = 1"), Status.IMPORT_ERROR, "no function run"),
    "raises": (tiny.python("def run(x, y):\n    raise ValueError('bad block')"), Status.RUNTIME_ERROR, "bad block"),
    "exits": (tiny.python("def run(x, y):\n    raise SystemExit(0)"), Status.RUNTIME_ERROR, "SystemExit"),
    "zeros": (tiny.python("def run(x, y):\n    y.zero_()"), Status.WRONG_VALUES, "elements are wrong; worst at"),
    "half": (
        tiny.cpp(tiny.SOFTMAX_CPP.replace("r < rows", "r < rows / 2")),
        Status.WRONG_VALUES,
        "16384 of 32768 elements were never written",
    ),
    "nan": (tiny.python("def run(x, y):\n    y.fill_(float('nan'))"), Status.NON_FINITE, "are not finite"),
    "mutates": (
        tiny.cpp(
            tiny.SOFTMAX_CPP.replace("const float* x,", "float* x,").replace("const float* a", "x[0] = 0; float* a")
        ),
        Status.MUTATED_INPUT,
        "input x",
    ),
    "overrun": (
        tiny.cpp(tiny.SOFTMAX_CPP.replace("float* b =", "y[rows * cols] = 1; float* b =")),
        Status.ILLEGAL_ACCESS,
        "bytes outside the arguments",
    ),
    "shape": (tiny.python("def run(x):\n    return x.softmax(1).T.contiguous()", "value"), Status.WRONG_SHAPE, "shape"),
    "dtype": (tiny.python("def run(x):\n    return x.softmax(1).double()", "value"), Status.WRONG_DTYPE, "float64"),
    "none": (tiny.python("def run(x):\n    pass", "value"), Status.WRONG_DTYPE, "NoneType"),
    "layout": (
        tiny.python("def run(x):\n    return x.softmax(1).T.contiguous().T", "value"),
        Status.WRONG_LAYOUT,
        "contiguous",
    ),
    "alias": (tiny.python("def run(x):\n    return x", "value"), Status.ALIASED_OUTPUT, "input x"),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_failures_have_their_status_and_say_what_is_wrong(evaluator: LocalEvaluator, name: str) -> None:
    program, status, words = FAILURES[name]
    result = await evaluator.evaluate(tiny.softmax(), program, "check")
    assert result.status is status, result.message
    assert words in result.message
    assert result.objective is None


async def test_compiler_errors_are_kept_without_paths(evaluator: LocalEvaluator) -> None:
    result = await evaluator.evaluate(tiny.softmax(), tiny.cpp("int x = missing;\n" * 200), "check")
    assert result.status is Status.BUILD_ERROR
    assert result.message.startswith("kernel.cpp:1:")
    assert len(result.log) <= 6000
    assert "more lines" in result.log


async def test_a_compiler_cannot_read_other_files(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("this is secret")
    result = await evaluator.evaluate(tiny.softmax(), tiny.cpp(f'#include "{secret}"'), "check")
    assert result.status is Status.BUILD_ERROR
    assert "this is secret" not in result.log


async def test_the_environment_of_the_user_does_not_reach_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret-value")
    text = """
import os
import torch

def run(x, y):
    if "SOME_API_KEY" in os.environ or b"secret-value" in open("/proc/self/environ", "rb").read():
        raise RuntimeError("leaked")
    torch.softmax(x, 1, out=y)
"""
    text_without_proc = text.replace(' or b"secret-value" in open("/proc/self/environ", "rb").read()', "")
    local = LocalEvaluator()
    try:
        result = await local.evaluate(tiny.softmax(), tiny.python(text_without_proc), "check")
        assert result.passed, result.message
        result = await local.evaluate(tiny.softmax(), tiny.python(text), "check")
        assert "leaked" not in result.message
    finally:
        await local.close()


BAD_REFERENCES = {
    "raises": ("return torch.softmax(x, dim=1)", "raise ValueError('broken')", "broken"),
    "shape": ("return torch.softmax(x, dim=1)", "return x[0]", "declared is"),
    "names": ('return {"x"', 'return {"z"', "declares"),
    "missing": ("def reference", "def other", "no function reference"),
    "memory": (
        "return torch",
        "torch.empty(1 << 50)\n    return torch",
        "t allocate memory.*; the workloads' sizes are in here",
    ),
    "baseline": (
        "def reference(x)",
        "def baseline(x):\n    raise OSError('no')\n\ndef reference(x)",
        "baseline failed",
    ),
    "baseline's values": (
        "def reference(x)",
        "def baseline(x):\n    return torch.softmax(x, dim=0)\n\ndef reference(x)",
        "baseline failed: y: .* elements are wrong",
    ),
    "planned baseline's values": (
        "def reference(x)",
        "def planned_baseline(x):\n    return lambda: torch.softmax(x, dim=0)\n\ndef reference(x)",
        "baseline failed: y: .* elements are wrong",
    ),
}


@pytest.mark.parametrize("name", BAD_REFERENCES)
async def test_a_wrong_task_is_a_task_error(evaluator: LocalEvaluator, name: str) -> None:
    old, new, words = BAD_REFERENCES[name]
    task = tiny.softmax(reference=tiny.SOFTMAX_REFERENCE.replace(old, new))
    task = task.model_copy(update={"workloads_at": "here"})
    with pytest.raises(TaskError, match=words):
        await evaluator.evaluate(task, tiny.GOOD_DPS, "search")


async def test_programs_for_another_device_are_refused(evaluator: LocalEvaluator) -> None:
    task = tiny.softmax().model_copy(update={"device": "cuda"})
    with pytest.raises(TaskError, match="cpp programs with binding plain_c are not called on a GPU"):
        await evaluator.evaluate(task, tiny.GOOD_CPP, "check")
    triton = tiny.GOOD_DPS.model_copy(update={"language": "triton"})
    with pytest.raises(TaskError, match="triton"):
        await evaluator.evaluate(tiny.softmax(), triton, "check")


async def test_a_baseline_may_plan_before_it_is_timed(evaluator: LocalEvaluator) -> None:
    planned = """
def planned_baseline(x):
    top = x.max(dim=1, keepdim=True).values
    def run():
        weights = torch.exp(x - top)
        return weights / weights.sum(dim=1, keepdim=True)
    return run

def baseline(x):
    raise OSError("not asked for")

def reference(x)"""
    task = tiny.softmax(reference=tiny.SOFTMAX_REFERENCE.replace("def reference(x)", planned))
    result = await evaluator.evaluate(task, tiny.GOOD_DPS, "search")
    assert result.passed, result.message
    assert result.objective is not None


async def test_objective_in_milliseconds(evaluator: LocalEvaluator) -> None:
    task = tiny.softmax()
    objective = task.objective.model_copy(update={"name": "time", "goal": "min", "unit": "ms"})
    result = await evaluator.evaluate(task.model_copy(update={"objective": objective}), tiny.GOOD_DPS, "search")
    assert result.objective is not None
    times = [workload.measurement.candidate_ms for workload in result.workloads if workload.measurement is not None]
    assert min(times) * 0.5 <= result.objective.value <= max(times) * 2


async def test_without_a_compiler_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    local = LocalEvaluator()
    try:
        with pytest.raises(InfrastructureError, match="apt install"):
            await local.evaluate(tiny.softmax(), tiny.GOOD_CPP, "check")
        assert (await local.evaluate(tiny.softmax(), tiny.GOOD_DPS, "check")).passed
    finally:
        await local.close()


def _workers(scratch: Path) -> dict[int, str]:
    """Process id -> command line of every process that names `scratch`, and of their descendants by session."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                environment = (entry / "environ").read_bytes().decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if int(entry.name) != os.getpid() and str(scratch) in command + environment:
                found[int(entry.name)] = command
    return found


@pytest.fixture
def open_scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


async def test_a_killed_supervisor_is_replaced(open_scratch: Path) -> None:
    local = LocalEvaluator(open_scratch)
    slow = tiny.python("import time, torch\n\ndef run(x, y):\n    time.sleep(0.7)\n    torch.softmax(x, 1, out=y)\n")
    try:
        await local.environment()
        waiting = asyncio.create_task(local.evaluate(tiny.softmax(), slow, "check"))
        await asyncio.sleep(0.5)
        supervisor = next(pid for pid, command in _workers(open_scratch).items() if "worker.supervisor" in command)
        os.kill(supervisor, signal.SIGKILL)
        assert (await waiting).passed
    finally:
        await local.close()
    assert list(open_scratch.iterdir()) == []
    await _all_gone(open_scratch)


async def test_a_killed_zygote_is_replaced(open_scratch: Path) -> None:
    local = LocalEvaluator(open_scratch)
    try:
        await local.environment()
        zygote = next(pid for pid, command in _workers(open_scratch).items() if "worker.zygote" in command)
        os.kill(zygote, signal.SIGKILL)
        assert (await local.evaluate(tiny.softmax(), tiny.GOOD_DPS, "check")).passed
    finally:
        await local.close()
    await _all_gone(open_scratch)


async def test_cancelling_ends_everything_and_the_evaluator_goes_on(open_scratch: Path) -> None:
    local = LocalEvaluator(open_scratch)
    endless = tiny.python("def run(x, y):\n    while True: pass\n")
    try:
        await local.environment()
        waiting = asyncio.create_task(local.evaluate(tiny.softmax(), endless, "check"))
        await asyncio.sleep(1.0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await _all_gone(open_scratch)
        assert (await local.evaluate(tiny.softmax(), tiny.GOOD_DPS, "check")).passed
    finally:
        await local.close()


async def test_killing_ksearch_ends_everything(open_scratch: Path) -> None:
    script = textwrap.dedent("""
        import asyncio, sys
        from pathlib import Path
        from evaluators.local import LocalEvaluator
        from tests.evaluators import tiny

        async def main():
            local = LocalEvaluator(Path(sys.argv[1]))
            await local.environment()
            print("started", flush=True)
            endless = "extern \\"C\\" void run() { for (volatile int i = 0;; ++i); }"
            await local.evaluate(tiny.softmax(timeout_s=300), tiny.cpp(endless), "check")

        asyncio.run(main())
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(open_scratch)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(2.0)
    assert len(_workers(open_scratch)) >= 3
    process.kill()
    process.wait()
    process.stdout.close()
    await _all_gone(open_scratch)
    deadline = time.monotonic() + 120
    while list(open_scratch.iterdir()) and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    assert list(open_scratch.iterdir()) == []


async def _all_gone(scratch: Path) -> None:
    deadline = time.monotonic() + 120
    while _workers(scratch) and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    assert _workers(scratch) == {}


async def test_a_reference_that_ends_the_process_is_named() -> None:
    local = LocalEvaluator()
    ending = tiny.softmax(reference="import os\nos._exit(0)\n" + tiny.SOFTMAX_REFERENCE)
    try:
        with pytest.raises(
            InfrastructureError, match=f"the reference of task {ending.name} may have ended its process"
        ):
            await local.evaluate(ending, tiny.GOOD_DPS, "check")
        assert (await local.evaluate(tiny.softmax(), tiny.GOOD_DPS, "check")).passed
    finally:
        await local.close()
