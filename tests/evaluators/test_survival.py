"""Programs that crash, hang, flood and fork: each gets its status, and the next evaluation is unaffected."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from evaluators.evaluation import Evaluation
from evaluators.local import LocalEvaluator
from evaluators.solution import Solution
from evaluators.worker.status import Status
from tests.evaluators import tiny

TIMEOUT_S = 3.0


@pytest_asyncio.fixture(scope="module")
async def evaluator() -> AsyncIterator[LocalEvaluator]:
    local = LocalEvaluator()
    yield local
    await local.close()


def c(body: str, extra: str = "") -> Solution:
    """Return a C++ program whose function has `body`."""
    return tiny.cpp(f'#include <cstdlib>\n#include <cstdio>\n{extra}\nextern "C" void run() {{ {body} }}', ("-O1",))


BAD: dict[str, tuple[Solution, Status, str]] = {
    "endless C++ loop": (c("for (volatile int i = 0;; ++i);"), Status.TIMEOUT, "limit of 3 s"),
    "endless Python loop": (tiny.python("def run(x, y):\n    while True: pass"), Status.TIMEOUT, "limit of 3 s"),
    "endless import": (tiny.python("while True: pass"), Status.TIMEOUT, "limit of 3 s"),
    "sleeps": (tiny.python("import time\n\ndef run(x, y):\n    time.sleep(1000)"), Status.TIMEOUT, "limit of 3 s"),
    "ignores signals": (
        tiny.python(
            "import signal\n\ndef run(x, y):\n    for n in range(1, 32):\n        if n not in (9, 19):\n"
            "            signal.signal(n, signal.SIG_IGN)\n    while True: pass"
        ),
        Status.TIMEOUT,
        "limit of 3 s",
    ),
    "segmentation fault": (c("*(volatile int*)8 = 1;"), Status.CRASHED, "SIGSEGV"),
    "abort": (c("abort();"), Status.CRASHED, "SIGABRT"),
    "exception": (c("throw 1;"), Status.CRASHED, "SIGABRT"),
    "stack overflow": (
        c(
            'printf("%d", deep(1));',
            "static int deep(int n) { volatile char pad[4096]; pad[n % 9] = 1; return deep(n + 1) + pad[0]; }",
        ),
        Status.CRASHED,
        "SIGSEGV",
    ),
    "division by zero": (c('volatile int one = 1, zero = 0; printf("%d", one / zero);'), Status.CRASHED, "SIGFPE"),
    "exit 0": (c("exit(0);"), Status.CRASHED, "exited with code 0"),
    "os._exit(0)": (tiny.python("import os\n\ndef run(x, y):\n    os._exit(0)"), Status.CRASHED, "code 0"),
    "kills itself": (
        tiny.python("import os, signal\n\ndef run(x, y):\n    os.kill(os.getpid(), signal.SIGKILL)"),
        Status.CRASHED,
        "SIGKILL",
    ),
    "10 GB vector": (
        c('std::vector<char> v(10000000000ull, 1); printf("%d", v[5]);', "#include <vector>"),
        Status.OUT_OF_MEMORY,
        "bad_alloc",
    ),
    "10 GB tensor": (
        tiny.python("import torch\n\ndef run(x, y):\n    torch.ones(10_000_000_000, dtype=torch.uint8)"),
        Status.OUT_OF_MEMORY,
        "memory",
    ),
    "10 GB bytes": (tiny.python("def run(x, y):\n    b'a' * 10_000_000_000"), Status.OUT_OF_MEMORY, "MemoryError"),
    "output flood": (c('for (;;) puts("0123456789012345678901234567890123456789");'), Status.OUTPUT_LIMIT, "64 KiB"),
    "Python output flood": (
        tiny.python("def run(x, y):\n    while True: print('x' * 1000, flush=True)"),
        Status.OUTPUT_LIMIT,
        "64 KiB",
    ),
}


async def assert_unharmed(evaluator: LocalEvaluator) -> None:
    after = await evaluator.evaluate(tiny.softmax(TIMEOUT_S * 5), tiny.GOOD_DPS, "check")
    assert after.passed, after.message


@pytest.mark.parametrize("name", BAD)
async def test_bad_program_gets_its_status_and_harms_nobody(evaluator: LocalEvaluator, name: str) -> None:
    program, status, words = BAD[name]
    result = await evaluator.evaluate(tiny.softmax(TIMEOUT_S), program, "check")
    assert result.status is status, result.message
    assert words in result.message
    await assert_unharmed(evaluator)


async def test_output_is_kept_for_the_coder(evaluator: LocalEvaluator) -> None:
    result = await evaluator.evaluate(tiny.softmax(TIMEOUT_S), c('fprintf(stderr, "row 3 is odd"); abort();'), "check")
    assert result.status is Status.CRASHED
    assert "row 3 is odd" in result.log


async def _result_with_layers(evaluator: LocalEvaluator, program: Solution, *layers: str) -> Evaluation:
    result = await evaluator.evaluate(tiny.softmax(TIMEOUT_S), program, "check")
    assert result.environment is not None
    missing = set(layers) - set(result.environment.sandbox)
    if missing:
        pytest.skip(f"this host lacks the layers {sorted(missing)}")
    return result


async def test_fork_loop_is_contained(evaluator: LocalEvaluator) -> None:
    text = "import os\n\ndef run(x, y):\n    while True:\n        if os.fork() == 0:\n            while True: pass"
    result = await _result_with_layers(evaluator, tiny.python(text), "unprivileged_user")
    # The first fork beyond the limit fails, or the children it got leave it no time to come to that.
    assert result.status in (Status.RUNTIME_ERROR, Status.TIMEOUT), result.message
    await assert_unharmed(evaluator)


async def test_thread_loop_is_contained(evaluator: LocalEvaluator) -> None:
    text = "import threading, time\n\ndef run(x, y):\n    while True:\n"
    text += "        threading.Thread(target=time.sleep, args=(9,)).start()"
    result = await _result_with_layers(evaluator, tiny.python(text), "unprivileged_user")
    assert result.status is Status.RUNTIME_ERROR
    assert "thread" in result.message
    await assert_unharmed(evaluator)


async def test_writes_outside_the_private_folder_are_refused(evaluator: LocalEvaluator, tmp_path: Path) -> None:
    target = tmp_path / "written"
    tmp_path.chmod(0o777)
    text = f"def run(x, y):\n    open({str(target)!r}, 'w').write('here')"
    result = await _result_with_layers(evaluator, tiny.python(text), "landlock")
    assert result.status is Status.RUNTIME_ERROR
    assert "Error" in result.message
    assert not target.exists()


async def test_a_private_folder_is_there_and_empty_each_time(evaluator: LocalEvaluator) -> None:
    text = """
import os, tempfile
import torch

def run(x, y):
    assert os.getcwd() == os.environ["HOME"] == tempfile.gettempdir()
    torch.softmax(x, 1, out=y)

assert os.listdir(".") == []
open("kept", "w").write("for the next run")
"""
    for _ in range(2):
        result = await evaluator.evaluate(tiny.softmax(), tiny.python(text), "check")
        assert result.passed, result.message


async def test_there_is_no_network(evaluator: LocalEvaluator) -> None:
    text = "import socket\n\ndef run(x, y):\n    socket.create_connection(('127.0.0.1', 9))"
    result = await _result_with_layers(evaluator, tiny.python(text), "seccomp")
    assert result.status is Status.RUNTIME_ERROR
    assert "PermissionError" in result.message


async def test_system_calls_that_reach_further_are_refused(evaluator: LocalEvaluator) -> None:
    text = """
import ctypes, errno, mmap, os

libc = ctypes.CDLL(None, use_errno=True)
memory = mmap.mmap(-1, 4 << 20)
place = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
huge, collapse, pages = ctypes.c_size_t(4 << 20), 25, mmap.MADV_DONTNEED

def refused(call, *arguments):
    ctypes.set_errno(0)
    return call(*arguments) == -1 and ctypes.get_errno() == errno.EPERM

def run(x, y):
    found = {
        "collapse": refused(libc.madvise, place, huge, collapse),
        "other advice": refused(libc.madvise, place, huge, pages),
        "ptrace": refused(libc.ptrace, 0, 0, None, None),
        "process_vm_readv": refused(libc.process_vm_readv, os.getpid(), None, 0, None, 0, 0),
        "memfd_create": refused(libc.memfd_create, b"hidden", 0),
        "shmget": refused(libc.shmget, 0, huge, 0o1600),
        "timerfd_create": refused(libc.timerfd_create, 1, 0),
        "namespaces": refused(libc.unshare, 0x10000000),
    }
    raise ValueError(str([name for name, is_refused in found.items() if not is_refused]))
"""
    result = await _result_with_layers(evaluator, tiny.python(text), "seccomp")
    assert result.message == "ValueError: ['other advice']"


async def test_only_a_few_timers_can_be_armed(evaluator: LocalEvaluator) -> None:
    """Thousands, spread over what follows a program's window, would slow whoever is next on its processor."""
    text = """
import ctypes
libc, made = ctypes.CDLL(None), []

def run(x, y):
    while len(made) < 100 and libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())) == 0:
        made.append(1)
    raise ValueError(f"made {len(made)}")
"""
    result = await evaluator.evaluate(tiny.softmax(), tiny.python(text), "check")
    made = int(result.message.removeprefix("ValueError: made "))
    assert 1 <= made <= 16  # those of other programs of the same user count, too


async def test_large_files_are_refused(evaluator: LocalEvaluator) -> None:
    text = (
        "def run(x, y):\n    with open('big', 'wb') as file:\n        for _ in range(1000): file.write(bytes(1 << 20))"
    )
    result = await evaluator.evaluate(tiny.softmax(TIMEOUT_S), tiny.python(text), "check")
    assert result.status in (Status.RUNTIME_ERROR, Status.CRASHED)
    assert "OSError" in result.message or "SIGXFSZ" in result.message
    await assert_unharmed(evaluator)
