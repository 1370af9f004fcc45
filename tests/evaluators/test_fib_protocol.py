"""FlashInfer-Bench's own protocol, on the processor: which reference selects it, its rule, its words, its figures."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from evaluators.adapters.drivers import fib as driver
from evaluators.adapters.flashinfer.exporting import export_solution, export_traces
from evaluators.by_verdict import ByVerdict
from evaluators.errors import TaskError
from evaluators.evaluation import Effort, Evaluation
from evaluators.fib_figures import REPEATS
from evaluators.local import LocalEvaluator
from evaluators.resolve import resolve_task
from evaluators.solution import Binding, Solution
from evaluators.task import Task
from evaluators.worker.status import Status
from graph.cli.machine import lacks_gpu
from tests.cli.conftest import call
from tests.evaluators.flashinfer_cases import GQA, MOE
from tests.evaluators.flashinfer_folder import NAME, PROGRAM, UUIDS, write_blob, write_folder

CALLED_RUN = (
    PROGRAM.replace("def run(", "def plain(").replace("def into(", "def run(").replace("made = run(", "made = plain(")
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "trace")


@pytest.fixture
async def evaluator() -> AsyncIterator[ByVerdict]:
    judge = ByVerdict(LocalEvaluator())
    yield judge
    await judge.close()


def load(root: Path, options: str = "") -> Task:
    return resolve_task(f"flashinfer:{root}#{NAME}?device=cpu&protocol=fib{options}")


def program(text: str, binding: Binding = "dps") -> Solution:
    entry = "into" if binding == "dps" else "run"
    return Solution(files={"main.py": text}, main_file="main.py", language="python", entry_point=entry, binding=binding)


async def judged(evaluator: ByVerdict, task: Task, text: str, effort: Effort = "check") -> Evaluation:
    return await evaluator.evaluate(task, program(text), effort)


def test_a_reference_selects_it(root: Path) -> None:
    ours, theirs = resolve_task(f"flashinfer:{root}#{NAME}?device=cpu"), load(root)
    assert (theirs.verdict, theirs.name, theirs.timeout_s) == ("fib", ours.name, 300)
    assert theirs.digest != ours.digest
    task = resolve_task(f"{GQA}?protocol=fib")
    assert (task.verdict, task.origin, list(task.contracts)) == ("fib", f"{GQA}?protocol=fib", ["python", "triton"])
    assert (task.tolerance.rule, task.tolerance.rtol, task.tolerance.normalised) == ("either", 1e-2, None)
    assert "def planned_baseline" in resolve_task(f"{GQA}@flashinfer?protocol=fib").reference
    assert resolve_task(f"{MOE}?protocol=fib").tolerance.matched == 0.9
    assert resolve_task(f"{MOE}?protocol=fib&tolerance=low-bit").tolerance.matched == 0.95


REFUSED = {
    "softmax?protocol=fib": "protocol=fib is for tasks of FlashInfer-Bench",
    "trimul_official?protocol=fib": "protocol=fib is for tasks of FlashInfer-Bench",
    f"{GQA}?protocol=strict": "protocol: must be fib",
    f"{GQA}?tolerance=low-bit": "must stand protocol=fib",
    f"{GQA}?protokol=fib": "unknown option 'protokol'; it may be one of protocol, tolerance, output",
    f"{GQA}?protocol=fib&tolerance=wide": "tolerance: 'wide' is unknown; it may be one of fib,",
}


@pytest.mark.parametrize("reference", REFUSED)
def test_what_is_refused(reference: str) -> None:
    with pytest.raises(TaskError) as caught:
        resolve_task(reference)
    assert str(caught.value).startswith(f"{reference}: ")
    assert REFUSED[reference] in str(caught.value)


RETURNS = "    return output, lse\n"
WITHIN = "    return output + 0.004, lse\n"
"""Beyond a hundredth of small values; rounding to bfloat16 makes it 0.0078 at most, below the other limit of 0.01."""
JUDGED: dict[str, tuple[Binding, str, str, str, str]] = {
    "right": ("dps", RETURNS, RETURNS, "passed", ""),
    "right, returned": ("value", RETURNS, RETURNS, "passed", ""),
    "within either limit": ("dps", RETURNS, WITHIN, "passed", ""),
    "a wrong value": ("dps", " / math.log(2)", "", "wrong_values", "INCORRECT_NUMERICAL: trial 1: lse: "),
    "not finite": ("dps", RETURNS, "    return output, lse / 0\n", "non_finite", "INCORRECT_NUMERICAL: trial 1: lse: "),
    "not written": ("dps", "    lse.copy_(made[1])\n", "", "non_finite", "INCORRECT_NUMERICAL: trial 1: lse: "),
    "a shape": ("value", RETURNS, "    return output, lse.T\n", "wrong_shape", "INCORRECT_SHAPE: trial 1: lse has"),
    "a type": ("value", RETURNS, "    return output.float(), lse\n", "wrong_dtype", "INCORRECT_DTYPE: trial 1: output"),
    "too little": (
        "value",
        RETURNS,
        "    return output\n",
        "runtime_error",
        "RUNTIME_ERROR: returned Tensor; expected 2",
    ),
    "raises": ("dps", RETURNS, "    raise OSError('no')\n", "runtime_error", "RUNTIME_ERROR: OSError: no"),
    "fails when imported": ("dps", "import math\n", "import nothing\n", "import_error", "COMPILE_ERROR: Module"),
    "an argument too many": (
        "dps",
        "output, lse):",
        "output, lse, more):",
        "build_error",
        "COMPILE_ERROR: it is called",
    ),
    "ends the process": ("dps", RETURNS, "    import os\n    os._exit(3)\n", "crashed", "RUNTIME_ERROR: "),
    "has no end": ("dps", RETURNS, "    while True: pass\n", "timeout", "TIMEOUT: no end within 3 s"),
}


async def test_how_programs_end_and_the_formats_words_for_it(root: Path, evaluator: ByVerdict) -> None:
    task = load(root).model_copy(update={"timeout_s": 3.0})
    for name, (binding, old, new, status, message) in JUDGED.items():
        assert old in PROGRAM
        verdict = await evaluator.evaluate(task, program(PROGRAM.replace(old, new), binding), "check")
        first = verdict.workloads[0]
        assert (verdict.status.value, first.status.value) == (status, status), (name, verdict)
        assert first.message.startswith(message), (name, first.message)
        assert verdict.message == (f"{UUIDS[0]}: {first.message}" if message else ""), name
        assert (verdict.objective, verdict.protocol) == (None, "fib-1")


async def test_figures_are_the_mean_of_baseline_over_program(root: Path, evaluator: ByVerdict) -> None:
    write_blob(root, [0, 4, 18, 30], [*range(9, 39)])
    task = load(root)
    both = await evaluator.compare(task, [program(PROGRAM), program(PROGRAM, "value")], "search")
    assert both.protocol == evaluator.protocol(task) == "fib-1"
    assert [(pair.a, pair.b) for pair in both.pairs] == [tuple(one.solution for one in both.evaluations)]
    for verdict in both.evaluations:
        measured = [result.measurement for result in verdict.workloads if result.measurement is not None]
        assert [(item.estimates, item.repeats) for item in measured] == [(1, 150)] * 2
        assert verdict.objective is not None
        ratios = [item.baseline_ms / item.candidate_ms for item in measured]
        assert verdict.objective.value == pytest.approx(sum(ratios) / 2)
        assert "in the program's own process" in verdict.notes[0]
        assert "kv_indptr (1 of 2 workloads), kv_indices (1 of 2 workloads)" in verdict.notes[1]
    exported = export_traces(task, both.evaluations[0], export_solution(task, program(PROGRAM), "me", ()), "now")
    told = [trace.evaluation.performance for trace in exported]
    assert [item is not None and item.speedup_factor > 0 for item in told] == [True, True]


async def test_certification_repeats_compares_and_looks_at_held_out_workloads(root: Path, evaluator: ByVerdict) -> None:
    task = load(root)
    first, second = task.workloads
    task = task.model_copy(update={"workloads": (first, second.model_copy(update={"split": "held_out"}))})
    verdict = await evaluator.evaluate(task, program(PROGRAM), "certify", program(PROGRAM + "# another\n"))
    assert (verdict.status, verdict.tier, len(verdict.workloads)) == (Status.PASSED, "certified", 1)
    measured = verdict.workloads[0].measurement
    assert measured is not None
    assert measured.estimates == 3
    assert verdict.versus_rival is not None
    assert verdict.versus_rival.low < verdict.versus_rival.value < verdict.versus_rival.high
    fails = PROGRAM.replace("    for row in", "    assert q.shape[0] == 1, 'secret'\n    for row in")
    failed = await judged(evaluator, task, fails, "certify")
    assert (failed.status, failed.message) == (Status.RUNTIME_ERROR, "failed on a held-out workload")
    assert "secret" not in failed.model_dump_json()
    assert [result.status for result in failed.workloads] == [Status.PASSED]


async def test_a_baseline_that_is_wrong_or_missing_is_the_tasks_fault(root: Path, evaluator: ByVerdict) -> None:
    task = load(root)
    for more, words in (
        (
            "def baseline(**given):\n    return [value + 1 for value in reference(**given).values()]\n",
            "is wrong: output",
        ),
        ("def planned_baseline(**given):\n    import flash\n", "its baseline failed: ModuleNotFoundError"),
        ("def inputs(axes, params, seed):\n    return {}\n", "its reference failed: KeyError"),
    ):
        broken = task.model_copy(update={"reference": f"{task.reference}\n\n{more}"})
        with pytest.raises(TaskError, match=words):
            await judged(evaluator, broken, PROGRAM, "search")
    assert (await judged(evaluator, task, PROGRAM)).passed


SLOW = "import time\n\ndef slow(**given):\n    time.sleep(2)\n    return list(plain(**given).values())\n"
STOPPED = {
    "a slow reference": ("check", f"plain = reference\n{SLOW}\nreference = slow\n", "no end within 2 s"),
    "a slow baseline": ("search", f"plain = reference\n{SLOW}\nbaseline = slow\n", "no end within 2 s"),
    "a reference that ends": (
        "check",
        "def reference(**given):\n    import os\n    os._exit(3)\n",
        "exited with code 3",
    ),
    "a baseline that is killed": (
        "search",
        "def baseline(**given):\n    import os\n    os.kill(os.getpid(), 9)\n",
        "SIGKILL",
    ),
}


@pytest.mark.parametrize("what", STOPPED)
async def test_a_process_that_reference_or_baseline_stop_is_the_tasks_fault(
    what: str, root: Path, evaluator: ByVerdict
) -> None:
    effort, more, words = STOPPED[what]
    task = load(root).model_copy(update={"timeout_s": 4.0})
    broken = task.model_copy(update={"reference": f"{task.reference}\n\n{more}"})
    with pytest.raises(TaskError, match=f"{UUIDS[0]}: its reference and baseline fail without a program.*{words}"):
        await judged(evaluator, broken, PROGRAM, effort)


async def test_a_program_that_blames_the_task_is_not_believed(root: Path, evaluator: ByVerdict) -> None:
    forged = 'import json\njson.JSONEncoder.encode = lambda *_: \'{"task": "its reference failed: OSError"}\'\n'
    verdict = await judged(evaluator, load(root), PROGRAM + forged)
    assert (verdict.status, verdict.message.split(": ", 1)[1]) == (
        Status.RUNTIME_ERROR,
        "RUNTIME_ERROR: its process gave no usable answer",
    )


async def test_programs_that_it_cannot_call_are_refused(root: Path, evaluator: ByVerdict) -> None:
    with pytest.raises(TaskError, match="with binding torch are not called under protocol=fib"):
        await evaluator.evaluate(load(root), program(PROGRAM, "torch"), "check")


def test_the_calls_of_a_trial_are_those_of_the_format_and_fewer_for_a_slow_baseline() -> None:
    def counted(took_ms: float, slow_s: float | None) -> tuple[int, float, bool]:
        calls = 0

        def clock(call: driver.Call) -> float:
            nonlocal calls
            calls += 1
            return took_ms if calls > driver.FIRST + driver.WARM_UP else 2 * took_ms

        latency, few = driver.latency_ms(lambda: None, clock, REPEATS, slow_s)
        return calls, latency, few

    assert counted(1.0, None) == (66, 1.0, False)
    assert counted(1.0, 5.0) == (66, 1.0, False)
    assert counted(200.0, None) == (66, 200.0, False)
    calls, _, few = counted(200.0, 5.0)
    assert (calls, few) == (8, True)


def test_the_command_line_says_whose_protocol_it_is(root: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CALLED_RUN)
    reference = f"flashinfer:{root}#{NAME}?device=cpu&protocol=fib"
    done = call(tmp_path, "evaluate", reference, "mine.py", "--language", "python")
    assert done.code == 0, done.err
    assert "by FlashInfer-Bench's protocol: checked and timed in the program's own process" in done.out
    assert "(fib-1)" in done.out
    shown = call(tmp_path, "tasks", "show", reference)
    assert "FlashInfer-Bench's protocol" in shown.out


@pytest.mark.skipif(not lacks_gpu("cuda"), reason="there is a GPU, so programs are timed")
def test_without_a_gpu_it_is_not_their_protocol_and_the_command_line_does_not_say_so(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(CALLED_RUN)
    done = call(tmp_path, "evaluate", f"flashinfer:{root}#{NAME}?protocol=fib", "mine.py", "--language", "python")
    assert "not_timed" in done.out, done.out + done.err
    assert "this machine has no GPU" in done.out
    assert "not timed; protocol=fib was not applied, it needs a GPU" in done.out
    assert "FlashInfer-Bench" not in done.out
