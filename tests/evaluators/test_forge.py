"""The zygote and its confined processes, many of them."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluators.worker import wire
from evaluators.worker.build import give_away
from evaluators.worker.failure import HarnessFault
from evaluators.worker.forge import Forge
from evaluators.worker.sandbox import Plan


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("forge")


@pytest.fixture
def forge(folder: Path) -> Iterator[Forge]:
    one = Forge(folder)
    one.wait_ready()
    yield one
    one.close()


def plan(folder: Path, name: str) -> Plan:
    work = folder / name
    work.mkdir()
    give_away(work)
    return Plan(str(work), (sys.base_prefix,), True, 1 << 30, 60, 1 << 20, 16)


def test_hundreds_of_processes_leave_nothing_behind(forge: Forge, folder: Path) -> None:
    before, idle = len(os.listdir("/proc/self/fd")), forge.strays()
    one = plan(folder, "work")
    for _ in range(200):
        child = forge.start(one, 1000)
        child.end()
    assert len(os.listdir("/proc/self/fd")) == before
    deadline = time.monotonic() + 120
    while forge.strays() != idle and time.monotonic() < deadline:
        time.sleep(0.05)
    assert forge.strays() == idle


def test_how_a_program_ended_and_what_it_printed(forge: Forge, folder: Path) -> None:
    child = forge.start(plan(folder, "a"), 1000, ["/bin/sh", "-c", "echo hello; exit 7"])
    assert child.wait_exit(time.monotonic() + 120) == 7
    assert child.output() == "hello\n"
    child.end()
    child = forge.start(plan(folder, "b"), 1000, ["/bin/sh", "-c", "kill -6 $$"])
    assert child.wait_exit(time.monotonic() + 120) == -6
    child.end()


def test_processor_clock_stands_still_while_a_process_sleeps(forge: Forge, folder: Path) -> None:
    child = forge.start(plan(folder, "work"), 1000)
    for _ in range(20):
        child.request(wire.INSPECT, {}, time.monotonic() + 120)
        first = child.cpu_ns()
        time.sleep(0.01)
        assert child.cpu_ns() == first > 0
    assert child.others(alone=True) == 0
    child.end()


def test_a_dead_zygote_is_a_harness_fault(forge: Forge, folder: Path) -> None:
    forge.close()
    with pytest.raises(HarnessFault, match="zygote ended"):
        forge.start(plan(folder, "work"), 1000)
