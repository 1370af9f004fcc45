"""No process of a program is given the same inputs twice while it is timed, however estimates share processes."""

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
from evaluators.worker.layout import Layout, lay_out
from evaluators.worker.session import Workshop
from evaluators.worker.slots import Content, Slots
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


LOOKING = """
from evaluators.worker import runner
prepare = runner._Runner._prepare

def look(self, index):
    prepare(self, index)
    for arguments in self._cases[index].arguments:
        seen.add(key(arguments[1]))

runner._Runner._prepare = look
"""
"""What is in the slots when scalars are read."""


class Recorded(Arena):
    """Slots that note what is written into them, by the visit for whose processes they were wiped."""

    def __init__(self, layout: Layout, slots: int) -> None:
        super().__init__(layout, slots)
        self.visits: list[list[bytes]] = [[]]

    def wipe(self) -> None:
        super().wipe()
        self.visits.append([])

    def fill(self, slot: int, example: Content) -> None:
        super().fill(slot, example)
        self.visits[-1].append(b"".join(bytes(data) for data in example.inputs.values()))


class Recording(CpuBench):
    """The processor, with slots that note what is written into them."""

    efforts: Mapping[str, Effort] = {"search": Effort(3, 3, 1e-6, 0.3, windows=4)}

    def __init__(self) -> None:
        super().__init__()
        self.arenas: list[Recorded] = []

    def slots(self, layout: Layout, count: int) -> Slots:
        self.arenas.append(Recorded(layout, count))
        return self.arenas[-1]


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


@pytest.mark.parametrize(("most_s", "estimates"), [(0.0, 5), (60.0, 7)])
def test_after_a_while_no_more_estimates_are_taken_than_at_least(shop: Workshop, most_s: float, estimates: int) -> None:
    bench = Recording()
    bench.efforts = {"search": Effort(5, 7, 1e-6, 0.3, windows=4, most_s=most_s)}
    job = decode(Job, job_data(tiny.softmax(60), [tiny.GOOD_DPS], "search", ()))
    (verdict,) = Assessor(shop, bench).run(job).programs
    assert {case.timed.estimates for case in verdict.cases if case.timed is not None} == {estimates}


def ends(shop: Workshop, bench: Bench) -> list[tuple[Status, str]]:
    rival = ATTENTIVE.replace("torch.softmax(x, 1, out=y)", "y.copy_(torch.softmax(x, 1))")
    job = job_data(tiny.softmax(60), [tiny.python(ATTENTIVE), tiny.python(rival)], "search", rules.ALL)
    return [(one.status, one.message) for one in Assessor(shop, bench).run(decode(Job, job)).programs]


PASSED = [(Status.PASSED, "")] * 2


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_no_input_comes_again(shop: Workshop, rounds: int, pinned: bool) -> None:
    assert ends(shop, Bench(rounds, pinned=pinned)) == PASSED


@pytest.mark.parametrize("rounds", [2, 5])
def test_no_input_comes_again_where_they_are_slow_to_make(shop: Workshop, rounds: int) -> None:
    assert ends(shop, Bench(rounds, replace(CpuBench.limits, examples_s=0.0))) == PASSED


@pytest.mark.parametrize("least_windows", [1, 2])
@pytest.mark.parametrize("rounds", [2, 5])
def test_no_input_comes_again_where_memory_is_short(shop: Workshop, rounds: int, least_windows: int) -> None:
    limits = replace(CpuBench.limits, pool_bytes=1, least_windows=least_windows, alike=least_windows > 1)
    assert ends(shop, Bench(rounds, limits)) == PASSED


def test_no_two_visits_and_no_two_jobs_are_given_the_same_inputs(shop: Workshop) -> None:
    bench = Recording()
    assessor = Assessor(shop, bench)
    job = decode(Job, job_data(tiny.softmax(60), [tiny.GOOD_DPS], "search", ()))
    given = []
    for _ in range(2):
        bench.arenas = []
        assert assessor.run(job).programs[0].status is Status.PASSED
        timed = [arena for arena in bench.arenas if len(arena.visits) > 1]
        assert len(timed) == 2 * len(job.task.cases) - 2
        assert {len(arena.visits) for arena in timed} == {4}
        # The baseline's slots and the program's hold the same in a visit, and something new in each.
        visits = [{data for arena in timed for data in arena.visits[number]} for number in range(1, 4)]
        assert all(visits)
        given += visits
    assert len(set().union(*given)) == sum(map(len, given))


@pytest.mark.parametrize("rounds", [1, 5])
def test_tensors_are_not_there_yet_when_scalars_are_read(shop: Workshop, rounds: int) -> None:
    program = ATTENTIVE.replace("made[0]", "made[1]").replace("def run(x, y)", "def run(scale, x, y)") + LOOKING
    job = job_data(scaled(), [tiny.python(program)], "search", rules.ALL)
    verdict = Assessor(shop, Bench(rounds)).run(decode(Job, job)).programs[0]
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
