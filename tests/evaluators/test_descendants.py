"""Which threads of a process have worked meanwhile."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evaluators.worker import descendants

PROGRAM = """
import sys, threading

wake = threading.Event()
started = []


def wait():
    started.append(1)
    wake.wait()
    while True:
        pass


threading.Thread(target=wait, daemon=True).start()
while not started:
    pass
for line in sys.stdin:
    if line == "wake\\n":
        wake.set()
    if line == "another\\n":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    print("done", flush=True)
"""


@pytest.fixture
def program() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def ask(program: "subprocess.Popen[str]", word: str) -> None:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(f"{word}\n")
    program.stdin.flush()
    assert program.stdout.readline() == "done\n"


def rest(program: "subprocess.Popen[str]") -> None:
    """Wait until all threads of the program sleep.

    The main thread is looked at first: once it sleeps, another does so of its own will, not for want of the lock that
    Python's threads take turns with.
    """
    assert until(lambda: state(program.pid) == "S")
    assert descendants.await_sleep(program.pid, 30)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds()


def test_a_thread_that_sleeps_has_not_worked(program: "subprocess.Popen[str]") -> None:
    ask(program, "nothing")
    rest(program)
    known = descendants.thread_run_ns(program.pid)
    assert len(known) == 2
    for _ in range(20):
        ask(program, "nothing")
    assert descendants.worked_since(program.pid, known) == []


@pytest.mark.parametrize("word", ["wake", "another"])
def test_one_that_wakes_or_is_new_has(program: "subprocess.Popen[str]", word: str) -> None:
    ask(program, "nothing")
    rest(program)
    known = descendants.thread_run_ns(program.pid)
    ask(program, word)
    assert until(lambda: len(descendants.worked_since(program.pid, known)) == 1)


def test_a_thread_that_goes_on_working_is_not_waited_for(program: "subprocess.Popen[str]") -> None:
    ask(program, "wake")
    assert until(lambda: state(program.pid) == "S")
    assert not descendants.await_sleep(program.pid, 0.5)


def test_one_without_an_account_counts(program: "subprocess.Popen[str]") -> None:
    ask(program, "nothing")
    assert len(descendants.worked_since(program.pid, {})) == 1


HEADLESS = """
import ctypes, sys, threading, time

threading.Thread(target=time.sleep, args=(600,)).start()
print("now", flush=True)
ctypes.CDLL(None).syscall(60 if sys.argv[1] == "x86_64" else 93, 0)  # exit: of this thread alone
"""


def test_a_process_whose_main_thread_has_ended_lives_on_in_its_others() -> None:
    with subprocess.Popen([sys.executable, "-c", HEADLESS, os.uname().machine], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        deadline = time.monotonic() + 60
        while "State:\tZ" not in Path(f"/proc/{process.pid}/status").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert process.pid in descendants.below(os.getpid())
        process.kill()


CONFINED = """
import ctypes, sys, threading
from evaluators.worker import seccomp, syscalls

libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
seccomp.restrict()
clone = seccomp._CLONE[0 if sys.argv[1] == "x86_64" else 1]
for flags in (0x10000000, 0x20000000, 0x00020000):
    assert libc.syscall(clone, flags | 17, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1, flags
assert libc.syscall(435, 0, 0) == -1 and ctypes.get_errno() == 38
done = []
thread = threading.Thread(target=done.append, args=(1,))
thread.start()
thread.join()
import os
child = os.fork()
if child == 0:
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print("fine", done)
"""


def test_no_process_begins_namespaces_of_its_own() -> None:
    command = [sys.executable, "-c", CONFINED, os.uname().machine]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "fine [1]\n", done.stderr
