"""Building programs for a GPU where there is none: nvcc, extensions, Triton kernels compiled ahead."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from evaluators.errors import InfrastructureError
from evaluators.jobs import job_data
from evaluators.local import LocalEvaluator
from evaluators.solution import Solution
from evaluators.worker.ahead import compile_ahead
from evaluators.worker.build import Built
from evaluators.worker.build_cuda import architecture, build_for_gpu, extension_variables, resources, toolkit_or_none
from evaluators.worker.cuda_errors import failure_of, status_of
from evaluators.worker.failure import CandidateFailure
from evaluators.worker.flags import refused
from evaluators.worker.forge import Forge
from evaluators.worker.job import Job, decode
from evaluators.worker.status import Status
from tests.evaluators import tiny_cuda as tiny

needs_nvcc = pytest.mark.skipif(toolkit_or_none() is None, reason="needs nvcc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("build")


@pytest.fixture(scope="module")
def forge(folder: Path) -> Iterator[Forge]:
    one = Forge(folder, "0")
    one.wait_ready()
    yield one
    one.close()


def build(forge: Forge, folder: Path, program: Solution, name: str, limit_s: int = 120) -> tuple[Job, Built, Path]:
    job = decode(Job, job_data(tiny.softmax(), [program], "check", ()))
    place = folder / "jobs" / name
    place.mkdir(mode=0o711, parents=True)
    return job, build_for_gpu(job.programs[0], forge, place, "90a", limit_s), place


@needs_nvcc
def test_a_plain_function_is_built_for_the_architecture(forge: Forge, folder: Path) -> None:
    _, built, _ = build(forge, folder, tiny.GOOD_CUDA, "plain")
    assert "registers" in built.log
    assert "spills 0 bytes stored, 0 loaded" in built.log
    names = subprocess.run(
        ["nm", "-D", "--defined-only", built.path], capture_output=True, text=True, check=True
    ).stdout
    assert " T run" in names
    assert "ksearch_last_error" in names


@needs_nvcc
def test_errors_are_trimmed_to_the_first(forge: Forge, folder: Path) -> None:
    with pytest.raises(CandidateFailure) as caught:
        build(forge, folder, tiny.cuda(tiny.SOFTMAX_CU + "void f() { nonsense(); }"), "wrong")
    assert caught.value.status is Status.BUILD_ERROR
    assert "nonsense" in caught.value.message
    assert str(folder) not in caught.value.log


@needs_nvcc
def test_a_compiler_that_does_not_end_is_stopped(forge: Forge, folder: Path) -> None:
    endless = "constexpr int f(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i % 7; return s; }\n"
    endless += "".join(f"template <int N> struct A{k} {{ static constexpr int v = f(N + 900000); }};" for k in range(9))
    endless += "int all() { return " + " + ".join(f"A{k}<{n}>::v" for k in range(9) for n in range(99)) + "; }"
    with pytest.raises(CandidateFailure, match="compiling took more than 3 s") as caught:
        build(forge, folder, tiny.cuda(tiny.SOFTMAX_CU + endless + tiny.RUN_CU), "endless", 3)
    assert caught.value.status is Status.BUILD_ERROR


@needs_nvcc
def test_a_lock_that_a_killed_builder_left_keeps_nobody_waiting(forge: Forge, folder: Path) -> None:
    text = """
import os
place = os.path.join(os.environ["TORCH_EXTENSIONS_DIR"], "stale")
os.makedirs(place)  # fails when another program's build has been here
open(os.path.join(place, "lock"), "w").close()
from torch.utils.file_baton import FileBaton
FileBaton(os.path.join(place, "lock")).wait()  # load_inline does this: here, for ever
"""
    for name in ("lock-a", "lock-b"):
        with pytest.raises(CandidateFailure, match="compiling took more than 4 s"):
            build(forge, folder, tiny.python(text), name, 4)
    job, built, _ = build(forge, folder, tiny.GOOD_DPS, "after-lock")
    assert job.task.device == "cuda"
    assert built.seconds < 4


def test_triton_kernels_are_compiled_ahead(forge: Forge, folder: Path) -> None:
    job, built, place = build(forge, folder, tiny.GOOD_TRITON_VALUE, "triton")
    note = compile_ahead(forge, job.task, built, list(job.task.cases), (9, 0), place)
    assert note == "compiled ahead: 2 kernels"
    assert len(list(Path(built.cache).rglob("kernel.cubin"))) == 2


def test_what_cannot_be_compiled_ahead_is_left_to_the_first_call(forge: Forge, folder: Path) -> None:
    text = tiny.SOFTMAX_TRITON + "def run(x, y):\n    if x.sum().item() > 0:\n        pass\n"
    job, built, place = build(forge, folder, tiny.triton(text), "data")
    note = compile_ahead(forge, job.task, built, list(job.task.cases)[:1], (9, 0), place)
    assert note.startswith("compiled ahead: 0 kernels; ")


def test_only_flags_that_change_code_are_allowed() -> None:
    good = ("-O3", "-std=c++20", "--use_fast_math", "-maxrregcount=64", "-DBLOCK=128", "-Xptxas=-dlcm=cg", "-lineinfo")
    assert refused(good, "cuda") == []
    bad = (
        "-ccbin=/tmp/x",
        "--compiler-options=-fplugin=x",
        "-include",
        "/etc/passwd",
        "-I/",
        "-dlink",
        "-o/tmp/x",
        "-x",
    )
    assert refused(bad, "cuda") == list(bad)


def test_architectures_by_nvcc_and_torch() -> None:
    assert [architecture(one) for one in ((8, 0), (8, 9), (9, 0), (10, 0))] == ["80", "89", "90a", "100a"]
    found = [extension_variables(None, arch)["TORCH_CUDA_ARCH_LIST"] for arch in ("80", "90a", "100a")]
    assert found == ["8.0", "9.0a", "10.0a"]


def test_what_the_assembler_says_is_one_line_a_kernel() -> None:
    log = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90a'
ptxas info    : Function properties for _Z1kPf
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 1024 bytes smem
"""
    found = resources(log + "kernel.cu(3): warning #177-D: never used")
    used = "_Z1kPf: 255 registers, spills 4 bytes stored, 4 loaded, 1024 bytes of shared memory"
    assert found == f"{used}\nkernel.cu(3): warning #177-D: never used"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("CUDA error: an illegal memory access was encountered", Status.ILLEGAL_ACCESS),
        ("CUDA error: device-side assert triggered", Status.RUNTIME_ERROR),
        ("CUDA out of memory. Tried to allocate", Status.OUT_OF_MEMORY),
        ("out of resource: shared memory, Required: 300000, Hardware limit: 232448", Status.LAUNCH_ERROR),
        ("ValueError: x", None),
    ],
)
def test_the_words_of_errors_give_a_status(words: str, status: Status | None) -> None:
    assert status_of(words) is status


def test_unknown_codes_are_still_failures() -> None:
    assert failure_of("CUDA_ERROR_ECC", launching=False).status is Status.RUNTIME_ERROR
    assert failure_of("something new", launching=True).status is Status.LAUNCH_ERROR


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
async def test_a_gpu_task_without_a_gpu_says_what_is_missing() -> None:
    local = LocalEvaluator()
    try:
        with pytest.raises(InfrastructureError, match="no GPU was found"):
            await local.evaluate(tiny.softmax(), tiny.GOOD_DPS, "check")
    finally:
        await local.close()
