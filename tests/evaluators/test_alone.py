"""Calls of a window that were not made one by one."""

import textwrap
from collections.abc import Mapping
from dataclasses import replace

import pytest

from evaluators.jobs import job_data
from evaluators.worker import rules
from evaluators.worker.alone import least_ns
from evaluators.worker.assess import Assessor
from evaluators.worker.bench import Effort
from evaluators.worker.bench_cpu import CpuBench
from evaluators.worker.job import Job, decode
from evaluators.worker.session import Workshop
from evaluators.worker.status import Status
from tests.evaluators import tiny

ONE_BY_ONE = """
import time, torch

def launch():
    until = time.thread_time_ns() + 1_000_000
    while time.thread_time_ns() < until:
        pass

def run(x, y):
    launch()
    torch.softmax(x, 1, out=y)
"""
TOGETHER = (
    ONE_BY_ONE
    + """
from evaluators.worker import runner

def all_at_once(self, case, slots):
    launch()
    for slot in slots:
        torch.softmax(case.arguments[slot][0], 1, out=case.arguments[slot][1])
    return b""

runner._Runner._run = all_at_once
"""
)


class LongWindows(CpuBench):
    """The processor with windows of many calls, as a GPU's are."""

    efforts: Mapping[str, Effort] = {"search": Effort(3, 3, 1e-6, 1.0, windows=4)}
    limits = replace(CpuBench.limits, window_ns=20_000_000, alone_ns=200_000)


@pytest.mark.parametrize(
    ("program", "off", "status", "rule"),
    [
        (ONE_BY_ONE, (), Status.PASSED, None),
        (TOGETHER, (), Status.INTEGRITY, rules.BATCHED),
        (TOGETHER, rules.ALL, Status.PASSED, None),
    ],
    ids=["one by one", "together", "together, rules off"],
)
def test_calls_are_made_one_by_one(
    shop: Workshop, program: str, off: tuple[str, ...], status: Status, rule: str | None
) -> None:
    job = job_data(tiny.softmax(60), [tiny.python(textwrap.dedent(program))], "search", off)
    (found,) = Assessor(shop, LongWindows()).run(decode(Job, job)).programs
    assert (found.status, found.rule) == (status, rule), found.message


def test_a_call_among_others_may_be_quicker_by_what_is_done_once_and_by_what_overlaps() -> None:
    limits = replace(CpuBench.limits, alone_ns=150_000)
    for alone_us, among_others_us in ((25, 3), (160, 32), (200, 90), (1000, 600), (8000, 5000)):
        assert among_others_us * 1e3 >= least_ns(alone_us * 1e3, limits)
    for alone_us, among_others_us in ((200, 20), (500, 100), (1000, 300)):
        assert among_others_us * 1e3 < least_ns(alone_us * 1e3, limits)
