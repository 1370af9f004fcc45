"""Several devices as one evaluator: real processors of this machine, one that does not exist, and real deaths."""

import asyncio
import os
import signal

import pytest

from evaluators.devices import Device, PinnedEvaluator, parse_devices
from evaluators.errors import InfrastructureError, UsageError
from evaluators.local import LocalEvaluator
from evaluators.pool import PoolEvaluator
from evaluators.worker.status import Status
from tests.evaluators import tiny

HERE = sorted(os.sched_getaffinity(0))
ABSENT = "cpu:4000"
"""A processor that no machine of today has: a device that fails when it is first used."""
WRONG = tiny.python("def run(x, y):\n    y.zero_()\n")


async def test_a_device_that_does_not_work_is_taken_out_and_no_program_is_blamed() -> None:
    pool = PoolEvaluator(parse_devices(f"{ABSENT},cpu:{HERE[0]}"))
    try:
        verdicts = await asyncio.gather(
            *(pool.evaluate(tiny.softmax(), program, "check") for program in (tiny.GOOD_CPP, tiny.GOOD_DPS, WRONG))
        )
        assert [verdict.status for verdict in verdicts] == [Status.PASSED, Status.PASSED, Status.WRONG_VALUES]
        assert list(pool.sick) == [ABSENT]
        assert "does not give us processors 4000" in pool.sick[ABSENT]
    finally:
        await pool.close()


async def test_without_a_device_the_machine_is_named_and_not_the_program() -> None:
    pool = PoolEvaluator(parse_devices(ABSENT))
    with pytest.raises(InfrastructureError, match=f"no device is left \\({ABSENT}: this machine"):
        await pool.evaluate(tiny.softmax(), tiny.GOOD_CPP, "check")
    await pool.close()


class Ailing(PinnedEvaluator):
    """A device that falls ill when a program runs on it: from then on its processor is gone."""

    async def fall_ill(self) -> None:
        assert self._process is not None
        self._processors = frozenset({4000})
        os.kill(self._process.pid, signal.SIGKILL)


async def test_a_device_that_falls_ill_takes_no_verdict_with_it() -> None:
    ailing = Ailing(frozenset({HERE[0]}))
    devices = [Device("ailing", "cpu", lambda: ailing), *parse_devices(f"cpu:{HERE[-1]}")]
    pool = PoolEvaluator(devices)
    try:
        assert (await pool.evaluate(tiny.softmax(), tiny.GOOD_DPS, "check")).passed
        await pool.evaluate(tiny.softmax(), tiny.GOOD_DPS, "check")
        await ailing.fall_ill()
        verdict = await pool.evaluate(tiny.softmax(), WRONG, "check")
        assert verdict.status is Status.WRONG_VALUES
        (note,) = [note for note in verdict.notes if "taken out" in note]
        assert note.startswith("device ailing was taken out: this machine does not give us processors 4000")
        assert list(pool.sick) == ["ailing"]
    finally:
        await pool.close()


async def test_a_supervisor_that_dies_is_replaced_and_its_device_stays() -> None:
    lone = LocalEvaluator()
    pool = PoolEvaluator([Device("cpu", "cpu", lambda: lone)])
    try:
        assert (await pool.evaluate(tiny.softmax(), tiny.GOOD_DPS, "check")).passed
        assert lone._process is not None
        os.kill(lone._process.pid, signal.SIGKILL)
        verdict = await pool.evaluate(tiny.softmax(), tiny.GOOD_DPS, "check")
        assert (verdict.status, verdict.notes, pool.sick) == (Status.PASSED, (), {})
    finally:
        await pool.close()


async def test_a_device_with_two_lanes_has_two_programs_under_way() -> None:
    pool = PoolEvaluator(parse_devices("cpu"), lanes=2)
    try:
        programs = [tiny.GOOD_CPP, tiny.GOOD_DPS, tiny.GOOD_VALUE]
        verdicts = await asyncio.gather(*(pool.evaluate(tiny.softmax(), program, "check") for program in programs))
        assert all(verdict.passed for verdict in verdicts)
        started = [lane.judge._process is not None for lane in pool._lanes]
        assert started == [True, True]
    finally:
        await pool.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' names none"),
        ("cpu:x", "'cpu:x' names none"),
        ("cpu:3-1", "the range is empty"),
        ("cpu,cpu", "cpu is named twice"),
        ("cuda,gpu:0", "cuda:0 is named twice"),
        ("gpu:x", "'gpu:x' names none"),
        ("1", "'1' names none"),
    ],
)
def test_names_of_devices(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_devices(text)
