"""Checking tasks: each kind of mistake is found, and a good task passes."""

from collections.abc import Iterator

import pytest
import torch

from evaluators.isolation import Isolation, isolation
from evaluators.resolve import resolve_task
from evaluators.task import Scalar, Task, Tensor, Tolerance
from evaluators.task_check import Finding, check_task
from tests.evaluators import tiny

FLOOR = "\ndef floor(axes):\n    return {'bytes': %s, 'operations': 1}\n"


def states(findings: tuple[Finding, ...]) -> dict[str, str]:
    return {finding.check: finding.state for finding in findings}


CHECKS = (
    "the reference runs", "inputs are repeatable", "inputs depend on the seed", "every input matters",
    "a constant output is wrong", "an output with a part left out is wrong", "the tolerance is not vacuous",
    "half precision", "the baseline is right",
)  # fmt: skip


def test_a_good_task_passes() -> None:
    findings = check_task(resolve_task("softmax"))
    assert len(findings) == 11
    assert {finding.state for finding in findings} == {"passed"}, findings
    half = next(finding for finding in findings if finding.check == "half precision")
    assert "float16 results are wrong" in half.detail


GOOD = tiny.SOFTMAX_REFERENCE
RAISING = GOOD.replace("return torch.softmax", "raise OSError('no'); torch.softmax")
ENDLESS = GOOD.replace("return torch", "while True: pass\n    return torch")
BY_TIME = GOOD.replace("manual_seed(seed)", "manual_seed(__import__('time').time_ns())")
FLAT = GOOD.replace("softmax(x, dim=1)", "softmax(x * 1e-9, dim=1)")


def tolerating(**rule: float) -> Task:
    return tiny.softmax().model_copy(update={"tolerance": Tolerance.model_validate(rule)})


MISTAKES: dict[str, tuple[str, Task | str, str]] = {
    "unseeded": ("inputs depend on the seed", GOOD.replace("seed(seed)", "seed(3)"), "x do not depend on the seed"),
    "unrepeatable": ("inputs are repeatable", BY_TIME, "use the seed given"),
    "ignored input": ("every input matters", GOOD.replace("softmax(x, dim=1)", "ones_like(x)"), "may ignore x"),
    "constant": ("a constant output is wrong", FLAT, "everywhere would be right"),
    "vacuous": ("a constant output is wrong", tolerating(rtol=0, atol=9), "y: zeros"),
    "part": (
        "an output with a part left out is wrong",
        tolerating(rtol=1e-4, atol=1e-6, matched=0.9),
        "right with its last twentieth set to zero",
    ),
    "too narrow": ("the tolerance is not vacuous", tolerating(rtol=1e-9, atol=0), "an error of four times the"),
    "wrong baseline": ("the baseline is right", GOOD + "\ndef baseline(x):\n    return x\n", "elements are wrong"),
    "floor": ("the floor is below the baseline", GOOD + FLOOR % (1 << 40), "not at 3 of 3 workloads: small (base"),
    "one floor": (
        "the floor is below the baseline",
        GOOD + FLOOR % "1 << 40 if axes['rows'] == 32 else 1",
        "not at 1 of 3 workloads: wide (baseline ",
    ),
    "floor of one workload": ("floors", GOOD + FLOOR % "1 // (axes['rows'] - 7)", "floor() of odd failed: ZeroDiv"),
    "endless floor": ("floors", GOOD + FLOOR % "10**400", "floor() of small must be {'bytes': ..., 'operations': ...}"),
    "draws": ("inputs are repeatable", GOOD.replace("dim=1)", "dim=1) + torch.rand(1)"), "something else the second"),
    "raises": ("the reference runs", RAISING, "OSError: no"),
    "other shape": (
        "the reference runs",
        tiny.softmax().model_copy(update={"outputs": {"y": Tensor(shape=("cols", "rows"), dtype="float32")}}),
        "y at small is float32 [64, 512], declared is float32 [512, 64]",
    ),
    "ends the process": (
        "inputs are repeatable",
        GOOD.replace("return torch.soft", "CALLS.append(1); len(CALLS) == 4 and os._exit(3)\n    return torch.soft")
        + "\nimport os\nCALLS = []\n",
        "exited with code 3 before it answered",
    ),
    "baseline of two": (
        "the baseline is right",
        GOOD + "\ndef baseline(x):\n    return x, x\n",
        "returned 2 values for the outputs y",
    ),
    "baseline of none": ("the baseline is right", GOOD + "\ndef baseline(x): ...\n", "y is a NoneType"),
    "endless baseline": (
        "the baseline is right",
        tiny.softmax(0.3, GOOD + "\ndef baseline(x):\n    while True: pass\n"),
        "the baseline at small: no end within 0.3 s",
    ),
    "another name": (
        "the reference runs",
        GOOD.replace("return torch", "return {'z': 1} #"),
        "gave the outputs z; the",
    ),
    "answers itself": (
        "the reference runs",
        GOOD + "\nimport json\njson.JSONEncoder.encode = lambda self, answer: '5'\n",
        "it answers in the checks' place",
    ),
    "answers deeply": (
        "floors",
        GOOD + "\nimport json\njson.JSONEncoder.encode = lambda self, answer: '[' * 100_000\n",
        "its answer is not JSON",
    ),
    "answers nested": (
        "floors",
        GOOD + "\nimport json\njson.JSONEncoder.encode = lambda self, answer: '[' * 900 + ']' * 900\n",
        "its answer is nested too deeply",
    ),
    "never returns": ("the reference runs", tiny.softmax(0.3, ENDLESS), "no end within"),
}


def returning(expression: str, **changes: object) -> Task:
    text = GOOD.replace("return torch.softmax(x, dim=1)", f"return {expression}")
    return tiny.softmax(reference=text).model_copy(update=changes)


HONEST = {
    "a number": returning("x.double().sum().float()", outputs={"y": Tensor(shape=(), dtype="float32")}),
    "few are true": returning("x > 2.9", outputs={"y": Tensor(shape=("rows", "cols"), dtype="bool")}),
    "an empty end": returning("torch.where(torch.arange(x.shape[1]) < 40, x, 0.0)"),
    "endless values": returning("torch.where(x > 1, float('-inf'), x * 2)"),
    "of eight bits": returning(
        "x.to(torch.float8_e4m3fn)",
        outputs={"y": Tensor(shape=("rows", "cols"), dtype="float8_e4m3fn")},
        tolerance=Tolerance(rtol=0.13, atol=0.01),
    ),
    "exact": returning("x.relu()", tolerance=Tolerance(rtol=0, atol=0)),
    "exact and large": returning("x * 1e20", tolerance=Tolerance(rtol=0, atol=0)),
    "a limit of days": tiny.softmax(1e6),
    "the least number": tiny.softmax(
        reference=GOOD.replace("reference(x)", "reference(x, k)")
        .replace("dim=1)", "dim=1) * (k % 5)")
        .replace("generator=generator)}", f"generator=generator), 'k': {-(2**31)}}}")
    ).model_copy(
        update={"inputs": {"x": Tensor(shape=("rows", "cols"), dtype="float32"), "k": Scalar(scalar="int32")}}
    ),
    "what is no number": returning("torch.nan_to_num(torch.where(x > 1, float('nan'), x))"),
    "written over": returning("x.mul_(2)"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Isolation]:
    with isolation() as server:
        yield server


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_found(what: str, server: Isolation) -> None:
    check, changed, reason = MISTAKES[what]
    task = tiny.softmax(reference=changed) if isinstance(changed, str) else changed
    findings = check_task(task, server)
    *_, found = (finding for finding in findings if finding.check == check)
    assert (found.state, reason in found.detail) == ("failed", True), found


@pytest.mark.parametrize("what", HONEST)
def test_an_odd_task_passes(what: str, server: Isolation) -> None:
    findings = check_task(HONEST[what], server)
    assert {finding.state for finding in findings} == {"passed"}, findings


def test_findings_are_told_as_they_are_made_and_kept_when_a_later_check_ends_the_process(server: Isolation) -> None:
    ending = tiny.softmax(reference=GOOD + "\ndef baseline(x):\n    import os; os._exit(3)\n")
    told = list[Finding]()
    findings = check_task(ending, server, told.append)
    assert tuple(told) == findings
    assert states(findings) == dict.fromkeys(CHECKS[:8], "passed") | {CHECKS[8]: "failed"}


def test_inputs_that_are_no_numbers_are_the_same_again(server: Isolation) -> None:
    holed = GOOD.replace("def reference", "_made = inputs\ndef inputs(*given):\n    x = _made(*given)['x']\n"
                         "    return {'x': torch.where(x > 1, float('nan'), x)}\ndef reference")  # fmt: skip
    task = tiny.softmax(reference=holed.replace("softmax(x,", "softmax(torch.nan_to_num(x),"))
    assert {finding.state for finding in check_task(task, server)} == {"passed"}


def test_the_closest_floor_is_named_where_there_is_one(server: Isolation) -> None:
    found = {finding.check: finding for finding in check_task(tiny.softmax(reference=GOOD + FLOOR % 1), server)}
    assert found["the floor is below the baseline"].detail.startswith("3 workloads, closest at ")
    found = {finding.check: finding for finding in check_task(tiny.softmax(reference=GOOD), server)}
    assert found["floors"].detail == "none: nothing is refused for being too fast"
    assert "the floor is below the baseline" not in found
    on_gpu = tiny.softmax(reference=GOOD + FLOOR % 1).model_copy(update={"device": "cuda"})
    found = {finding.check: finding for finding in check_task(on_gpu, server)}
    assert found["floors"].detail == "told for 3 workloads"
    assert found["the floor is below the baseline"].state == "not checked"


def test_want_of_memory_is_told_with_the_sizes_and_what_a_reference_says_of_it_with_the_reference(
    server: Isolation,
) -> None:
    places = {"reference_at": "reference.py", "workloads_at": "task.toml"}
    workload = "workload 'small' (rows 64, cols 512)"
    for raised, told in (
        ("MemoryError()", f"task.toml: {workload} needs more memory than there is: MemoryError: "),
        ("OSError('wide needs more memory than there is')", "reference.py: OSError: wide needs more memory than"),
    ):
        text = GOOD.replace("return torch", f"raise {raised}\n    return torch")
        (found,) = check_task(tiny.softmax(reference=text).model_copy(update=places), server)
        assert found.state == "failed"
        assert found.detail.startswith(told), found
        assert set(found.model_dump()) == {"check", "state", "detail"}


def test_what_is_too_large_here_is_left_out_for_a_task_of_another_device(server: Isolation) -> None:
    slow = GOOD.replace("return torch", "if x.shape[1] == 1024:\n        while True: pass\n    return torch")
    vast = GOOD.replace("return torch", "x.shape[1] == 1024 and torch.empty(1 << 44)\n    return torch")
    for text, reason in ((slow, "reference() of wide: no end within 4 s"), (vast, "can't allocate memory")):
        task = tiny.softmax(4.0, text)
        found = {finding.check: finding for finding in check_task(task, server)}
        assert reason in found["the reference runs"].detail
        found = {f.check: f for f in check_task(task.model_copy(update={"device": "cuda"}), server)}
        assert found["the reference runs"].state == "passed"
        assert found["the reference runs"].detail.startswith(
            "2 of 3 workloads; the checks below are made on small, not"
        )
        assert found["the reference runs"].detail.endswith("not tried on this machine: wide")
    away = returning("x.cuda() if torch.cuda.is_available() else torch.zeros(1, device='cuda')", device="cuda")
    found = {finding.check: finding for finding in check_task(away, server)}
    assert list(found) == ["the reference runs"]
    assert found["the reference runs"].state == "not checked"
    assert found["the reference runs"].detail.startswith("needs the task's device: ")
    endless = tiny.softmax(2.0, ENDLESS).model_copy(update={"device": "cuda"})
    assert states(check_task(endless, server)) == {"the reference runs": "failed"}


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU and a build of torch for it")


@needs_gpu
def test_a_task_for_a_gpu_is_checked_and_timed_there() -> None:
    on_gpu = tiny.softmax(reference=GOOD + FLOOR % 1).model_copy(update={"device": "cuda"})
    findings = check_task(on_gpu)
    assert {finding.state for finding in findings} == {"passed"}, findings
    assert findings[-1].detail.startswith("3 workloads, closest at ")


@needs_gpu
@pytest.mark.parametrize("reference", ["moe_fp8_block_scale_ds_routing_topk8_ng8_kg4_e32_h7168_i2048", "trimul"])
def test_a_built_in_task_passes_on_its_device(reference: str) -> None:
    findings = check_task(resolve_task(reference))
    assert {finding.state for finding in findings} == {"passed"}, findings
