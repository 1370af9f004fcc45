"""Returned values are what they were at the answer: nothing that is done when they are handed over counts."""

import textwrap
from dataclasses import replace

import pytest

from evaluators.evaluation import Effort
from evaluators.jobs import job_data
from evaluators.solution import Solution
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

    def checked(result, memory, inputs, earlier):
        for _ in range({times}):
            torch.softmax(inputs["x"], 1, out=result)
        return check(result, memory, inputs, earlier)

    calls.check_result = checked

    def run(x):
        return torch.zeros_like(x)
"""
INTO_ITS_SLOT = """
    import torch
    from evaluators.worker import calls, runner

    def collect(self):
        results, self._results = self._results, []
        for memory, slot, x in results:
            torch.softmax(x, 1, out=calls.tensors(memory, slot, outputs=True)["y"])

    runner._Runner._collect = collect

    def run(x):
        return x
"""
HONEST_WHEN_CHECKED = """
    import torch
    from evaluators.worker import calls, runner

    called = 0

    def collect(self):
        results, self._results = self._results, []
        for memory, slot, x in results:
            if called > 8:
                torch.softmax(x, 1, out=calls.tensors(memory, slot, outputs=True)["y"])

    runner._Runner._collect = collect

    def run(x):
        global called
        called += 1
        return x if called > 8 else torch.softmax(x, 1)
"""
"""The check, in a process of its own, makes two calls a case."""
NEGATED_WHEN_READ = """
    import torch

    def run(x):
        return torch._neg_view(-torch.softmax(x, 1))
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


@pytest.mark.parametrize("program", [LOOKED_AT.format(times=1), INTO_ITS_SLOT], ids=["looked at", "into its slot"])
@pytest.mark.parametrize("effort", ["check", "search"])
def test_what_is_computed_after_the_answer_comes_too_late(shop: Workshop, program: str, effort: Effort) -> None:
    (found,) = verdicts(read(shop), [value(program)], effort)
    assert found.status is Status.WRONG_VALUES, found.message


def test_timed_calls_are_read_at_the_answer(shop: Workshop) -> None:
    (found,) = verdicts(read(shop), [value(HONEST_WHEN_CHECKED)], "search")
    assert (found.status, found.rule) == (Status.INTEGRITY, rules.DEFERRED), found.message


@pytest.mark.parametrize("reads", [True, False])
def test_returned_values_are_the_same_however_they_are_handed_over(shop: Workshop, reads: bool) -> None:
    programs = [tiny.GOOD_VALUE, value(NEGATED_WHEN_READ), tiny.GOOD_DPS]
    found = verdicts(replace(shop, reads_results=reads and shop.reads_results), programs, "search")
    ends = [(one.status, one.message) for one in found]
    layout = "y must be a contiguous CPU tensor"
    assert ends == [(Status.PASSED, ""), (Status.WRONG_LAYOUT, layout), (Status.PASSED, "")]


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


def test_work_done_while_results_are_copied_is_on_the_clock(shop: Workshop) -> None:
    """Where a program's memory cannot be read, what copying takes longer than for the baseline is charged."""
    blind = replace(shop, reads_results=False)
    honest, cheat = verdicts(blind, [tiny.GOOD_VALUE, value(LOOKED_AT.format(times=4))], "search")
    assert honest.objective is not None, honest.message
    assert cheat.objective is None or cheat.objective.value < honest.objective.value
