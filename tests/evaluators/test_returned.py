"""Returned values are what they were at the answer: nothing that is done when they are handed over counts."""

import textwrap
from dataclasses import replace

import pytest

from evaluators.evaluation import Effort
from evaluators.jobs import job_data
from evaluators.solution import Solution
from evaluators.task import Tensor, Workload
from evaluators.worker import rules
from evaluators.worker.assess import Assessor
from evaluators.worker.bench_cpu import CpuBench
from evaluators.worker.job import Job, ProgramVerdict, decode
from evaluators.worker.session import Workshop
from evaluators.worker.status import Status
from tests.evaluators import tiny

LOOKED_AT = """
    import torch
    from evaluators.worker import calls

    check = calls.check_result

    def checked(result, memory, slot):
        torch.softmax(calls.tensors(memory, slot, outputs=False)["x"], 1, out=result)
        return check(result, memory, slot)

    calls.check_result = checked

    def run(x):
        return torch.zeros_like(x)
"""
INTO_ITS_SLOT = """
    import torch
    from evaluators.worker import calls, runner

    asked = []

    def collect(self, check):
        for (memory, slot, _), x in zip(self._results, asked):
            torch.softmax(x, 1, out=calls.tensors(memory, slot, outputs=True)["y"])
        self._results = []
        asked.clear()

    runner._Runner._collect = collect

    def run(x):
        asked.append(x)
        return torch.zeros_like(x)
"""
IN_TIME = "return torch.zeros_like(x)", "return torch.softmax(x, 1)"
HONEST_WHEN_CHECKED = INTO_ITS_SLOT.replace(
    IN_TIME[0],
    """global called
        called += 1
        return torch.zeros_like(x) if called > 8 else torch.softmax(x, 1)

    called = 0""",
)
"""The check, in a process of its own, makes two calls a case."""
NEGATED_WHEN_READ = """
    import torch

    def run(x):
        return torch._neg_view(-torch.softmax(x, 1))
"""
HALF_WHEN_TIMED = """
    import torch

    called = 0

    def run(x):
        global called
        called += 1
        y = torch.softmax(x, 1)
        return y.half() if called > 8 else y
"""
PASSED_ON = """
    def run(x):
        return x
"""
TELLS = """
    import torch
    from evaluators.worker import calls

    calls.addresses = lambda results, outputs: {told}

    def run(x):
        return torch.softmax(x, 1)
"""


def value(text: str) -> Solution:
    return tiny.python(textwrap.dedent(text), "value")


def verdicts(shop: Workshop, programs: list[Solution], effort: Effort) -> tuple[ProgramVerdict, ...]:
    job = decode(Job, job_data(tiny.softmax(), programs, effort, ()))
    return Assessor(shop, CpuBench()).run(job).programs


def read(shop: Workshop) -> Workshop:
    if not shop.reads_results:
        pytest.skip("this host does not let a program's memory be read")
    return shop


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("program", [LOOKED_AT, INTO_ITS_SLOT], ids=["looked at", "into its slot"])
@pytest.mark.parametrize("effort", ["check", "search"])
def test_what_is_computed_after_the_answer_comes_too_late(
    shop: Workshop, program: str, effort: Effort, reads: bool
) -> None:
    handed = read(shop) if reads else replace(shop, reads_results=False)
    (found,) = verdicts(handed, [value(program)], effort)
    assert found.status is Status.WRONG_VALUES, found.message
    (twin,) = verdicts(handed, [value(program.replace(*IN_TIME))], "check")
    assert (twin.status, twin.message) == (Status.PASSED, "")


def test_timed_calls_are_read_at_the_answer(shop: Workshop) -> None:
    (found,) = verdicts(read(shop), [value(HONEST_WHEN_CHECKED)], "search")
    assert (found.status, found.rule) == (Status.INTEGRITY, rules.DEFERRED), found.message


@pytest.mark.parametrize("reads", [True, False])
def test_returned_values_are_the_same_however_they_are_handed_over(shop: Workshop, reads: bool) -> None:
    programs = [tiny.GOOD_VALUE, value(NEGATED_WHEN_READ), value(PASSED_ON), tiny.GOOD_DPS]
    found = verdicts(read(shop) if reads else replace(shop, reads_results=False), programs, "search")
    ends = [(one.status, one.message) for one in found]
    layout = "y must be resolved (resolve_neg, resolve_conj)"
    passed, aliased = (Status.PASSED, ""), (Status.ALIASED_OUTPUT, "y shares memory with input x")
    assert ends == [passed, (Status.WRONG_LAYOUT, layout), aliased, passed]


@pytest.mark.parametrize("reads", [True, False])
def test_timed_calls_return_what_the_task_declares(shop: Workshop, reads: bool) -> None:
    handed = read(shop) if reads else replace(shop, reads_results=False)
    (found,) = verdicts(handed, [value(HALF_WHEN_TIMED)], "search")
    assert found.status is Status.WRONG_VALUES, found.message
    assert "in a timed call" in found.message


@pytest.mark.parametrize(
    ("told", "status"),
    {
        "[0]": Status.WRONG_VALUES,
        "[4096]": Status.WRONG_VALUES,
        "[1 << 63]": Status.INTEGRITY,
        "[]": Status.INTEGRITY,
        "[0, 0]": Status.INTEGRITY,
    }.items(),
)
def test_addresses_are_not_believed(shop: Workshop, told: str, status: Status) -> None:
    (found,) = verdicts(read(shop), [value(TELLS.format(told=told))], "check")
    assert found.status is status
    assert found.rule == (rules.CHANNEL if status is Status.INTEGRITY else None)


REPEATED = """
    import ctypes, os, torch

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]

    def mapped(nbytes, times):
        fd = os.open("pages", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.ftruncate(fd, nbytes)
        base = libc.mmap(None, times * nbytes, 0, 0x22, -1, 0)
        for k in range(times):
            libc.mmap(base + k * nbytes, nbytes, 3, 0x11, fd, 0)
        os.close(fd)
        return (ctypes.c_float * (times * nbytes // 4)).from_address(base)

    def run(x):
        y = torch.frombuffer(mapped(x.nbytes, 1), dtype=torch.float32).view(x.shape)
        return torch.softmax(x, 1, out=y){own}
"""
ALIASED = """
    import torch
    from evaluators.worker import calls

    given = calls.addresses
    calls.addresses = lambda results, outputs: given(results[:1] * len(results), outputs)

    def run(x):
        return torch.softmax(x, 1)
"""


def test_results_lie_in_memory_of_their_own(shop: Workshop) -> None:
    """Not in pages that another mapping, or another result, shares: such memory is filled without being written."""
    programs = [value(REPEATED.format(own="")), value(REPEATED.format(own=".clone()")), value(ALIASED)]
    shared, own, aliased = verdicts(read(shop), programs, "search")
    assert (shared.status, shared.message) == (Status.ALIASED_OUTPUT, "a result is not in memory of its own")
    assert (own.status, own.message) == (Status.PASSED, "")
    assert (aliased.status, aliased.message) == (Status.ALIASED_OUTPUT, "a result shares memory with another result")


KEPT = """
    import torch

    kept = {{}}

    def run(x):
        y = kept.get(x.data_ptr())
        if y is None:
            y = kept[x.data_ptr()] = torch.zeros(2 * x.shape[0], x.shape[1])
        {write}
        return y
"""
"""Half of the result is zeros, which may stay from the call before."""


def test_what_was_returned_does_not_stay_for_the_next_call(shop: Workshop) -> None:
    """The check, which calls twice with slots at one address, sees it already."""
    task = tiny.softmax(60)
    tall = task.model_copy(
        update={
            "axes": ("rows", "cols", "tall"),
            "workloads": (Workload(name="w", axes={"rows": 64, "cols": 64, "tall": 128}),),
            "outputs": {"y": Tensor(shape=("tall", "cols"), dtype="float32")},
            "reference": task.reference.replace(
                "return torch.softmax(x, dim=1)", "return torch.cat([torch.softmax(x, dim=1), torch.zeros_like(x)])"
            ),
        }
    )
    half = "torch.softmax(x, 1, out=y[: x.shape[0]])"
    programs = [value(KEPT.format(write=text)) for text in (half, f"y.zero_(); {half}")]
    job = decode(Job, job_data(tall, programs, "check", ()))
    kept, written = Assessor(read(shop), CpuBench()).run(job).programs
    assert kept.status in (Status.WRONG_VALUES, Status.NON_FINITE)
    assert (written.status, written.message) == (Status.PASSED, "")
