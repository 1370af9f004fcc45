"""A process that was stopped stands still, and its children with it; one that makes itself go on is found out."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from evaluators.jobs import job_data
from evaluators.worker import descendants, rules
from evaluators.worker.build import build
from evaluators.worker.failure import CandidateFailure
from evaluators.worker.job import Job, decode
from evaluators.worker.session import Session, Workshop
from evaluators.worker.status import Status
from tests.evaluators import tiny

IDLE = "def run(x, y):\n    pass\n"
CONTINUED_BY_A_TIMER = f"""
import ctypes, signal, threading, time

class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("kind", ctypes.c_int), ("x", ctypes.c_char * 48)]

signal.signal(signal.SIGCONT, lambda *arguments: None)
libc, timer = ctypes.CDLL(None), ctypes.c_void_p()
event = Event(None, signal.SIGCONT, 0, b"")
assert libc.timer_create(1, ctypes.byref(event), ctypes.byref(timer)) == 0

def arm():
    while True:
        libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 0, 5_000_000), None)
        time.sleep(0.0001)

threading.Thread(target=arm, daemon=True).start()
{IDLE}
"""
WITH_A_THREAD = f"""
import threading, time
threading.Thread(target=lambda: [time.sleep(0.001) for _ in range(1000000)], daemon=True).start()
{IDLE}
"""
WITH_A_CHILD = f"""
import os
if os.fork() == 0:
    while True:
        pass
{IDLE}
"""


@contextmanager
def stopped(shop: Workshop, program: str) -> Iterator[Session]:
    """Give a loaded program that stands still as it does on a GPU."""
    job = decode(Job, job_data(tiny.softmax(), [tiny.python(program)], "search", ()))
    built = build(job.programs[0], shop.forge, shop.new_folder(f"still-{time.monotonic_ns()}"))
    session = Session(shop, job.task, built, 0, results=False)
    try:
        session.load()
        session._on_gpu = True  # the only thing of a GPU's that is tried here
        session.stop()
        yield session
    finally:
        session.end()


def test_a_program_stands_still_and_goes_on(shop: Workshop) -> None:
    with stopped(shop, IDLE) as session:
        for _ in range(5):
            before = session.child.cpu_ns_now()
            time.sleep(0.02)
            assert session.child.cpu_ns_now() == before
            with session.running():
                assert session.patched() == []
                assert session.working_threads() == []
            assert session.child.cpu_ns_now() > before


def test_a_timer_that_continues_its_program_is_an_offence(shop: Workshop) -> None:
    with stopped(shop, CONTINUED_BY_A_TIMER) as session:
        time.sleep(0.3)
        with pytest.raises(CandidateFailure, match="while it was stopped") as caught, session.running():
            pass
        assert (caught.value.status, caught.value.rule) == (Status.INTEGRITY, rules.OFF_CLOCK)


def test_one_that_ran_for_a_moment_is_found_out(shop: Workshop) -> None:
    with stopped(shop, WITH_A_THREAD) as session:
        session.child.go_on()
        time.sleep(0.01)
        session.child.stop()
        descendants.await_stop(session.child.pid, 1)
        with pytest.raises(CandidateFailure, match="while it was stopped"), session.running():
            pass


def test_one_thread_that_was_late_to_leave_its_processor_is_no_offence(shop: Workshop) -> None:
    with stopped(shop, WITH_A_THREAD) as session:
        standing = session._standing
        assert standing is not None
        turns = dict(standing._turns)
        assert len(turns) >= 2
        standing._cpu_ns -= 100_000  # as it would have read before the main thread left
        standing._turns = turns | {session.child.pid: turns[session.child.pid] - 1}
        assert standing.ran_ns() == 0
        standing._turns = {tid: count - 1 for tid, count in turns.items()}  # all were given a processor: continued
        assert standing.ran_ns() == 100_000
        standing._turns = {}  # as on a kernel without such accounts
        assert standing.ran_ns() == 100_000


def test_children_stand_still_for_good(shop: Workshop) -> None:
    with stopped(shop, WITH_A_CHILD) as session:
        if not session.child.holder:
            pytest.skip("this host gives no PID namespaces")
        (child,) = descendants.in_namespace_of(session.child.pid) - {session.child.pid, session.child.holder}
        for _ in range(2):
            assert descendants.await_stop(child, 10), "it stops when it is next given a processor"
            ran = descendants.thread_run_ns(child)
            time.sleep(0.1)
            assert descendants.thread_run_ns(child) == ran
            with session.running():
                session.patched()


def test_a_program_that_ends_while_it_is_stopped_fails_alone(shop: Workshop) -> None:
    with stopped(shop, IDLE) as session:
        session.child.abandon()
        time.sleep(0.1)
        with pytest.raises(CandidateFailure), session.running():
            session.patched()
        session.stop()
