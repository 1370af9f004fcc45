"""No process of a program is given the same inputs twice while it is timed, however estimates share processes."""

import math
import os
from collections.abc import Mapping
from dataclasses import replace

import pytest

from evaluators.jobs import job_data
from evaluators.task import Scalar, Task
from evaluators.worker import rules
from evaluators.worker.arena import Arena
from evaluators.worker.assess import Assessor
from evaluators.worker.bench import Effort, Limits
from evaluators.worker.bench_cpu import CpuBench
from evaluators.worker.job import Job, decode
from evaluators.worker.layout import lay_out
from evaluators.worker.session import Workshop
from evaluators.worker.status import Status
from tests.evaluators import tiny

ATTENTIVE = """
import torch
from evaluators.worker import calls
seen, called, given = set(), 0, calls.arguments

def key(x):
    return tuple(x[0, :4].tolist())

def arguments(*where):
    made = given(*where)
    seen.add(key(made[0]))  # what the process before this one was given
    return made

calls.arguments = arguments

def run(x, y):
    global called
    called += 1
    if key(x) in seen and called > 8:  # the check, in a process of its own, calls twice
        raise ValueError("an input came again")
    seen.add(key(x))
    torch.softmax(x, 1, out=y)
"""


class Bench(CpuBench):
    """The processor, timed as a GPU is: estimates share processes, and the baseline's process stays."""

    def __init__(self, rounds: int, limits: Limits = CpuBench.limits, *, pinned: bool = False) -> None:
        super().__init__()
        self.efforts: Mapping[str, Effort] = {"search": Effort(5, 5, 1e-6, 1.0, windows=10, rounds=rounds)}
        self.pinned, self.limits = pinned, limits


def scaled() -> Task:
    """Softmax, with a scalar before the tensor."""
    base = tiny.softmax(60)
    reference = base.reference.replace("reference(x)", "reference(scale, x)").replace(
        'return {"x":', 'return {"scale": 1.0 + seed % 97, "x":'
    )
    inputs = {"scale": Scalar(scalar="float32"), **base.inputs}
    return base.model_copy(update={"reference": reference, "inputs": inputs})


def ends(shop: Workshop, bench: Bench) -> list[tuple[Status, str]]:
    rival = ATTENTIVE.replace("torch.softmax(x, 1, out=y)", "y.copy_(torch.softmax(x, 1))")
    job = job_data(tiny.softmax(60), [tiny.python(ATTENTIVE), tiny.python(rival)], "search", rules.ALL)
    return [(one.status, one.message) for one in Assessor(shop, bench).run(decode(Job, job)).programs]


QUICK = replace(CpuBench.limits, ready_s=math.inf)
PASSED = [(Status.PASSED, "")] * 2


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_no_input_comes_again(shop: Workshop, rounds: int, pinned: bool) -> None:
    assert ends(shop, Bench(rounds, QUICK, pinned=pinned)) == PASSED


@pytest.mark.parametrize("rounds", [2, 5])
def test_no_input_comes_again_where_they_are_slow_to_make(shop: Workshop, rounds: int) -> None:
    assert ends(shop, Bench(rounds, replace(QUICK, ready_s=0))) == PASSED


@pytest.mark.parametrize("least_windows", [1, 2])
@pytest.mark.parametrize("rounds", [2, 5])
def test_no_input_comes_again_where_memory_is_short(shop: Workshop, rounds: int, least_windows: int) -> None:
    limits = replace(QUICK, pool_bytes=1, least_windows=least_windows, alike=least_windows > 1)
    assert ends(shop, Bench(rounds, limits)) == PASSED


@pytest.mark.parametrize("rounds", [1, 5])
def test_tensors_are_not_there_yet_when_scalars_are_read(shop: Workshop, rounds: int) -> None:
    program = ATTENTIVE.replace("made[0]", "made[1]").replace("def run(x, y)", "def run(scale, x, y)")
    job = job_data(scaled(), [tiny.python(program)], "search", rules.ALL)
    verdict = Assessor(shop, Bench(rounds, QUICK)).run(decode(Job, job)).programs[0]
    assert (verdict.status, verdict.message) == (Status.PASSED, "")


def test_nothing_is_kept_beside_the_slots_or_on_their_descriptor(shop: Workshop) -> None:
    task = decode(Job, job_data(tiny.softmax(), [], "check", ())).task
    arena = Arena(lay_out(task, task.cases[0]), 2)
    one, other = arena.lend(), arena.lend()
    with pytest.raises(PermissionError):
        os.ftruncate(one, arena.nbytes + 4096)
    os.lseek(one, 77, os.SEEK_SET)
    assert os.lseek(other, 0, os.SEEK_CUR) == 0
    os.pwrite(one, b"note", arena.nbytes - 4)
    arena.wipe()
    for name in arena.layout.inputs + arena.layout.outputs:
        assert os.pread(other, name.nbytes, name.offset) == bytes(name.nbytes)
    for fd in (one, other):
        os.close(fd)
    arena.close()
