"""The cheats that apply to CPU programs. Each is stopped by the named status or rule; its honest twin passes."""

import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from evaluators.evaluation import Effort
from evaluators.local import LocalEvaluator
from evaluators.solution import Solution
from evaluators.worker import plans, rules
from evaluators.worker.status import Status
from tests.evaluators import tiny

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Cheat:
    """A cheat, what stops it, and a twin that does something alike honestly."""

    program: Solution
    twin: Solution
    status: Status
    rule: str | None = None
    words: str = ""
    effort: Effort = "check"
    without_rules: Status | None = None
    """What becomes of it when no integrity rule is applied; None: not looked at."""
    layer: str | None = None
    """The sandbox layer without which it ends otherwise (never in a pass)."""


def py(text: str) -> Solution:
    """Return a Python program that gets its outputs passed in."""
    return tiny.python(textwrap.dedent(text))


def value(text: str) -> Solution:
    """Return a Python program that returns its output."""
    return tiny.python(textwrap.dedent(text), "value")


def timed_cheat(body: str, extra: str = "") -> Solution:
    """Return a C++ softmax that is honest as long as only checked, and runs `body` once it is timed.

    A timed process is told by its slots: it sees many different addresses of x, a checked one only one per case.
    """
    return tiny.cpp(
        tiny.SOFTMAX_CPP.replace('extern "C" void run(', "static void honest(")
        + f"""
#include <csignal>
#include <cstring>
#include <sys/time.h>
#include <thread>
#include <unistd.h>
static const float* seen[4];
static bool is_timed(const float* x) {{
    for (auto& one : seen) {{
        if (one == x) return false;
        if (one == nullptr) {{ one = x; return false; }}
    }}
    return true;
}}
{extra}
extern "C" void run(const float* x, float* y, int64_t rows, int64_t cols) {{
    if (!is_timed(x)) {{ honest(x, y, rows, cols); return; }}
    {body}
}}
""",
        ("-O2", "-pthread"),
    )


TWO_THREADS = tiny.cpp(
    tiny.SOFTMAX_CPP.replace('extern "C" void run(', "static void part(")
    + """
#include <thread>
extern "C" void run(const float* x, float* y, int64_t rows, int64_t cols) {
    int64_t half = rows / 2;
    std::thread other(part, x + half * cols, y + half * cols, rows - half, cols);
    part(x, y, half, cols);
    other.join();
}
""",
    ("-O2", "-pthread"),
)
ONE_THREAD = tiny.cpp(
    tiny.SOFTMAX_CPP.replace('extern "C" void run(', "static void part(")
    + """
extern "C" void run(const float* x, float* y, int64_t rows, int64_t cols) {
    int64_t half = rows / 2;
    #pragma omp parallel for
    for (int64_t k = 0; k < 2; ++k)
        part(x + k * half * cols, y + k * half * cols, k ? rows - half : half, cols);
}
""",
    ("-O2", "-fopenmp"),
)

CHEATS: dict[str, Cheat] = {
    "C3 thread deferral": Cheat(
        py("""
            import threading, time, torch

            def late(x, y):
                time.sleep(0.05)
                torch.softmax(x, 1, out=y)

            def run(x, y):
                threading.Thread(target=late, args=(x, y)).start()
        """),
        py("""
            import threading, torch

            def run(x, y):
                worker = threading.Thread(target=lambda: torch.softmax(x, 1, out=y))
                worker.start()
                worker.join()
        """),
        Status.INTEGRITY,
        rules.THREADS,
        without_rules=Status.WRONG_VALUES,
    ),
    "C4 process deferral": Cheat(
        py("""
            import os, time, torch

            def run(x, y):
                if os.fork() == 0:
                    time.sleep(0.05)
                    torch.softmax(x, 1, out=y)
                    time.sleep(5)
                    os._exit(0)
        """),
        py("""
            import os, torch

            def run(x, y):
                pid = os.fork()
                if pid == 0:
                    torch.softmax(x, 1, out=y)
                    os._exit(0)
                os.waitpid(pid, 0)
        """),
        Status.INTEGRITY,
        rules.CHILDREN,
        without_rules=Status.WRONG_VALUES,
    ),
    "C5 lazy tensor": Cheat(
        value("""
            import torch

            class Lazy(torch.Tensor):
                @classmethod
                def __torch_function__(cls, func, types, args=(), kwargs=None):
                    return super().__torch_function__(func, types, args, kwargs or {})

            def run(x):
                return torch.softmax(x, 1).as_subclass(Lazy)
        """),
        tiny.GOOD_VALUE,
        Status.INTEGRITY,
        rules.OUTPUT_TYPE,
    ),
    "C7 patched clock": Cheat(
        py("""
            import time, torch
            time.perf_counter = time.perf_counter_ns = lambda: 0

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        py("""
            import time, torch
            clock = time.perf_counter
            started = clock()

            def run(x, y):
                assert clock() >= started
                torch.softmax(x, 1, out=y)
        """),
        Status.INTEGRITY,
        rules.PATCHED,
        "perf_counter",
        without_rules=Status.PASSED,
    ),
    "C28 patched random numbers": Cheat(
        py("""
            import torch
            torch.randn = lambda *shape, **options: torch.zeros(*shape)

            def run(x, y):
                y.fill_(1 / x.shape[1])
        """),
        tiny.GOOD_DPS,
        Status.INTEGRITY,
        rules.PATCHED,
        "randn",
        without_rules=Status.WRONG_VALUES,
    ),
    "C23 patched comparison": Cheat(
        py("""
            import torch
            torch.allclose = torch.equal = lambda *a, **k: True
            torch.testing.assert_close = lambda *a, **k: None

            def run(x, y):
                y.zero_()
        """),
        tiny.GOOD_DPS,
        Status.INTEGRITY,
        rules.PATCHED,
        "allclose",
        without_rules=Status.WRONG_VALUES,
    ),
    "C10 work after the answer, at exit": Cheat(
        py("""
            import atexit, torch

            def run(x, y):
                atexit.register(lambda: torch.softmax(x, 1, out=y))
        """),
        py("""
            import atexit, torch
            atexit.register(lambda: None)

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        Status.WRONG_VALUES,
        words="never written",
    ),
    "C13 stale memory": Cheat(
        value("""
            import torch

            def run(x):
                return torch.empty_like(x).nan_to_num_(0, 0, 0)
        """),
        value("""
            import torch

            def run(x):
                y = torch.empty_like(x)
                return torch.softmax(x, 1, out=y)
        """),
        Status.WRONG_VALUES,
    ),
    "C14 replay by address": Cheat(
        py("""
            import torch
            known = {}

            def run(x, y):
                key = x.data_ptr()
                if key not in known:
                    known[key] = torch.softmax(x, 1)
                y.copy_(known[key])
        """),
        py("""
            import torch
            spaces = {}

            def run(x, y):
                space = spaces.setdefault(x.shape, torch.empty_like(x))
                torch.softmax(x, 1, out=space)
                y.copy_(space)
        """),
        Status.WRONG_VALUES,
    ),
    "C19 replay of the last call": Cheat(
        value("""
            import torch
            last = None

            def run(x):
                global last
                if last is None or last.shape != x.shape:
                    last = torch.softmax(x, 1)
                return last.clone()
        """),
        tiny.GOOD_VALUE,
        Status.WRONG_VALUES,
    ),
    "C25 search for the expected values": Cheat(
        py("""
            import gc, sys, torch

            def run(x, y):
                frame = sys._getframe()
                found = [o for o in gc.get_objects() if type(o) is torch.Tensor]
                while frame is not None:
                    found += [o for o in frame.f_locals.values() if type(o) is torch.Tensor]
                    frame = frame.f_back
                for tensor in found:
                    if tensor.shape == y.shape and tensor.data_ptr() not in (x.data_ptr(), y.data_ptr()):
                        y.copy_(tensor)
        """),
        py("""
            import gc, torch
            gc.collect()

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        Status.WRONG_VALUES,
    ),
    "C26 forged result": Cheat(
        py("""
            import os

            def run(x, y):
                for fd in range(64):
                    try:
                        os.write(fd, b"check: pass\\n")
                    except OSError:
                        pass
                os._exit(0)
        """),
        py("""
            import torch

            def run(x, y):
                print("check: pass", flush=True)
                torch.softmax(x, 1, out=y)
        """),
        Status.INTEGRITY,
        rules.CHANNEL,
    ),
    "C26 forged answer from inside": Cheat(
        py("""
            from evaluators.worker import runner

            def answer(self, nonce, body):
                self._sock.send(nonce)

            runner._Runner._calls = answer

            def run(x, y):
                pass
        """),
        tiny.GOOD_DPS,
        Status.WRONG_VALUES,
        words="never written",
    ),
    "C27 input tampering": Cheat(
        py("""
            def run(x, y):
                x.zero_()
                y.fill_(1 / x.shape[1])
        """),
        py("""
            import torch

            def run(x, y):
                torch.softmax(x.clone(), 1, out=y)
        """),
        Status.MUTATED_INPUT,
    ),
    "C30 broadcast output": Cheat(
        value("""
            import torch

            def run(x):
                return torch.softmax(x, 1)[:1].expand(x.shape)
        """),
        value("""
            import torch

            def run(x):
                return torch.softmax(x, 1)[:].contiguous()
        """),
        Status.WRONG_LAYOUT,
    ),
    "C30 all NaN": Cheat(
        py("""
            def run(x, y):
                y.fill_(float("nan"))
        """),
        tiny.GOOD_DPS,
        Status.NON_FINITE,
    ),
    "C35 constant output": Cheat(
        py("""
            def run(x, y):
                y.fill_(1 / x.shape[1])
        """),
        tiny.GOOD_DPS,
        Status.WRONG_VALUES,
    ),
    "C37 low precision": Cheat(
        py("""
            import torch

            def run(x, y):
                y.copy_(torch.softmax(x.bfloat16(), 1))
        """),
        py("""
            import torch

            def run(x, y):
                y.copy_(torch.softmax(x.double(), 1))
        """),
        Status.WRONG_VALUES,
    ),
    "C41 input passed through": Cheat(
        py("""
            def run(x, y):
                y.copy_(x)
        """),
        tiny.GOOD_DPS,
        Status.WRONG_VALUES,
    ),
    "C43 kill of the parent": Cheat(
        py("""
            import os, signal

            def run(x, y):
                for pid in (os.getppid(), 1):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except PermissionError:
                        pass
        """),
        py("""
            import os, torch
            os.getppid()

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        Status.CRASHED,
        words="SIGKILL",
        layer="pid_namespace",
    ),
    "C44 daemon left behind": Cheat(
        py("""
            import os, time, torch

            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(1000)
                os._exit(0)
            os.wait()

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        py("""
            import os, torch

            if os.fork() == 0:
                os._exit(0)
            os.wait()

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        Status.INTEGRITY,
        rules.CHILDREN,
        without_rules=Status.PASSED,
    ),
    "C47 a second thread": Cheat(
        TWO_THREADS, ONE_THREAD, Status.INTEGRITY, rules.THREADS, effort="search", without_rules=Status.PASSED
    ),
    "C47 a thread that waits": Cheat(
        py("""
            import threading, torch
            threading.Thread(target=threading.Event().wait, daemon=True).start()

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        tiny.GOOD_DPS,
        Status.INTEGRITY,
        rules.THREADS,
        without_rules=Status.PASSED,
    ),
    "C1 wrong only when timed": Cheat(
        timed_cheat("memset(y, 0, 4 * rows * cols);"),
        timed_cheat("honest(x, y, rows, cols);"),
        Status.WRONG_VALUES,
        words="in a timed call",
        effort="search",
    ),
    "C9 half the work when timed": Cheat(
        timed_cheat("honest(x, y, rows / 2, cols);"),
        timed_cheat(
            "honest(x, y, rows / 2, cols); honest(x + rows / 2 * cols, y + rows / 2 * cols, rows - rows / 2, cols);"
        ),
        Status.WRONG_VALUES,
        words="were never written",
        effort="search",
    ),
    "C10 work after the answer, by a timer": Cheat(
        timed_cheat(
            "job = {x, y, rows, cols}; signal(SIGALRM, fire); itimerval in{{0, 0}, {0, 5000}}; "
            "setitimer(ITIMER_REAL, &in, nullptr);",
            "struct Job { const float* x; float* y; int64_t rows, cols; }; static Job job;\n"
            "static void fire(int) { honest(job.x, job.y, job.rows, job.cols); }",
        ),
        timed_cheat(
            "job = {x, y, rows, cols}; signal(SIGALRM, fire); raise(SIGALRM);",
            "struct Job { const float* x; float* y; int64_t rows, cols; }; static Job job;\n"
            "static void fire(int) { honest(job.x, job.y, job.rows, job.cols); }",
        ),
        Status.INTEGRITY,
        rules.DEFERRED,
        effort="search",
    ),
    "C20 work ahead between calls": Cheat(
        timed_cheat(
            "honest(x, y, rows, cols); signal(SIGALRM, fire); itimerval in{{0, 0}, {0, 300}}; "
            "setitimer(ITIMER_REAL, &in, nullptr);",
            "static void fire(int) { for (volatile int i = 0; i < 2000000; ++i); }",
        ),
        timed_cheat(
            "honest(x, y, rows, cols); signal(SIGALRM, fire); itimerval in{{0, 0}, {0, 300}}; "
            "setitimer(ITIMER_REAL, &in, nullptr);",
            "static void fire(int) {}",
        ),
        Status.INTEGRITY,
        rules.OFF_CLOCK,
        effort="search",
        without_rules=Status.PASSED,
    ),
    "C47 the work of few calls in a process that ends within the call": Cheat(
        timed_cheat(
            "static int n; ++n; if (n & (n - 1)) { honest(x, y, rows, cols); return; } "
            "job = {x, y, rows, cols}; alignas(64) static char stack[1 << 20]; "
            "waitpid(clone(work, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr), nullptr, 0);",
            "#include <sched.h>\n#include <sys/wait.h>\n"
            "struct Job { const float* x; float* y; int64_t rows, cols; }; static Job job;\n"
            "static int work(void*) { honest(job.x, job.y, job.rows, job.cols); return 0; }",
        ),
        timed_cheat(
            "job = {x, y, rows, cols}; work(nullptr);",
            "struct Job { const float* x; float* y; int64_t rows, cols; }; static Job job;\n"
            "static int work(void*) { honest(job.x, job.y, job.rows, job.cols); return 0; }",
        ),
        Status.INTEGRITY,
        rules.CHILDREN,
        effort="search",
        layer="pid_namespace",
        without_rules=Status.PASSED,
    ),
    "C47 all work in another thread": Cheat(
        timed_cheat(
            "std::thread(honest, x, y, rows, cols).join();",
        ),
        timed_cheat("honest(x, y, rows, cols);"),
        Status.INTEGRITY,
        rules.THREADS,
        effort="search",
        without_rules=Status.PASSED,
    ),
    "C8 open files pile up": Cheat(
        py("""
            import os, torch

            def run(x, y):
                os.open("/dev/null", os.O_RDONLY)
                torch.softmax(x, 1, out=y)
        """),
        py("""
            import os, torch

            def run(x, y):
                os.close(os.open("/dev/null", os.O_RDONLY))
                torch.softmax(x, 1, out=y)
        """),
        Status.INTEGRITY,
        rules.DESCRIPTORS,
        effort="certify",
        without_rules=Status.PASSED,
    ),
}


@pytest.mark.parametrize("name", CHEATS)
async def test_cheat_is_stopped_by_the_named_rule(evaluator: LocalEvaluator, name: str) -> None:
    cheat = CHEATS[name]
    result = await evaluator.evaluate(tiny.softmax(), cheat.program, cheat.effort)
    if cheat.layer is not None and cheat.layer not in (await evaluator.environment()).sandbox:
        assert not result.passed
        return
    assert (result.status, result.rule) == (cheat.status, cheat.rule), result.message
    assert cheat.words in result.message
    assert result.objective is None


TWINS = {cheat.twin.digest: (name, cheat) for name, cheat in CHEATS.items()}


@pytest.mark.parametrize("digest", TWINS, ids=[name for name, _ in TWINS.values()])
async def test_honest_twin_passes(evaluator: LocalEvaluator, digest: str) -> None:
    cheat = TWINS[digest][1]
    result = await evaluator.evaluate(tiny.softmax(), cheat.twin, cheat.effort)
    assert (result.status, result.message) == (Status.PASSED, "")


@pytest.mark.parametrize("name", [name for name, cheat in CHEATS.items() if cheat.without_rules is not None])
async def test_without_its_rule_the_verdict_is_another(lenient: LocalEvaluator, name: str) -> None:
    cheat = CHEATS[name]
    result = await lenient.evaluate(tiny.softmax(), cheat.program, cheat.effort)
    assert result.status is cheat.without_rules, result.message
    assert any("switched off" in note for note in result.notes)


FLOOR = "\n\ndef floor(axes):\n    return {{'bytes': {} * axes['rows'] * axes['cols'], 'operations': 0}}\n"


async def test_faster_than_physics_is_rejected(evaluator: LocalEvaluator, lenient: LocalEvaluator) -> None:
    """The floor is raised to where the honest program is below it: what a program that skips work looks like."""
    impossible = tiny.softmax(reference=tiny.SOFTMAX_REFERENCE + FLOOR.format(100_000))
    result = await evaluator.evaluate(impossible, tiny.GOOD_CPP, "search")
    assert (result.status, result.rule) == (Status.INTEGRITY, rules.FLOOR)
    assert "physical floor" in result.message
    assert (await lenient.evaluate(impossible, tiny.GOOD_CPP, "search")).passed
    possible = tiny.softmax(reference=tiny.SOFTMAX_REFERENCE + FLOOR.format(8))
    assert (await evaluator.evaluate(possible, tiny.GOOD_CPP, "search")).passed


def test_no_example_is_dealt_twice_to_a_process() -> None:
    """C19: what was answered once can be answered from memory, whatever its address."""
    plan = plans.CasePlan(windows=40, calls=8, warm=True)
    for made in (3, 10, 24, 85, 329, 1000):
        kept = plans.without_repeats(plan, made, 2)
        assert plans.examples_wanted(kept) <= made
        assert kept.windows >= 2
    assert plans.without_repeats(plan, 1000, 2) == plan


async def test_nothing_of_the_benchmark_can_be_read(evaluator: LocalEvaluator) -> None:
    """C49: neither the reference, nor the judge, nor other processes' memory or environment."""
    paths = [str(ROOT / "evaluators" / "worker" / "judge.py"), str(ROOT / "pyproject.toml"), "/proc/1/environ"]
    program = py(f"""
        import os

        def run(x, y):
            seen = [path for path in {paths!r} if readable(path)]
            for top, _, names in os.walk("/"):
                if not top.startswith("/proc"):
                    seen += [f"{{top}}/{{n}}" for n in names if n in ("reference.py", "judge.py", "oracle.py")]
            seen += [p for p in os.listdir("/proc") if p.isdigit() and p != "1" and int(p) != os.getpid()]
            raise RuntimeError(f"saw {{seen}}")

        def readable(path):
            try:
                return bool(open(path, "rb").read())
            except OSError:
                return False
    """)
    result = await evaluator.evaluate(tiny.softmax(60), program, "check")
    assert result.environment is not None
    if {"landlock", "pid_namespace", "private_proc"} - set(result.environment.sandbox):
        pytest.skip("this host lacks the layers that hide files and processes")
    assert (result.status, result.message) == (Status.RUNTIME_ERROR, "RuntimeError: saw []")


async def test_no_bank_survives_from_one_process_to_the_next(evaluator: LocalEvaluator) -> None:
    """C16: a result saved anywhere is not there in the next process."""
    program = py("""
        import os, torch
        places = ["/dev/shm", "/tmp", "/var/tmp", os.environ["HOME"], os.getcwd(), os.path.dirname(__file__)]
        banked = any(os.path.exists(f"{place}/ksearch-test-bank") for place in places)
        for place in places:
            try:
                open(f"{place}/ksearch-test-bank", "w").write("result")
            except OSError:
                pass

        def run(x, y):
            if banked:
                raise RuntimeError("found the bank")
            torch.softmax(x, 1, out=y)
    """)
    for _ in range(2):
        result = await evaluator.evaluate(tiny.softmax(), program, "search")
        assert (result.status, result.message) == (Status.PASSED, "")


async def test_compiler_options_cannot_run_or_read_anything(evaluator: LocalEvaluator) -> None:
    for flag in ("-fplugin=/tmp/x.so", "-Wl,-rpath,/tmp", "@/etc/passwd", "-B/tmp", "-include/etc/passwd", "-I/", "-x"):
        program = tiny.cpp(tiny.SOFTMAX_CPP, (flag,))
        result = await evaluator.evaluate(tiny.softmax(), program, "check")
        assert result.status is Status.BUILD_ERROR
        assert "not allowed" in result.message
