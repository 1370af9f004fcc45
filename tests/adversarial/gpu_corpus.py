"""Cheats and honest programs for the evaluator on a GPU, one per kind of the catalogue. Data: nothing here runs."""

import textwrap
from dataclasses import dataclass, field

from evaluators.evaluation import Effort
from evaluators.solution import Solution
from evaluators.task import Task
from evaluators.worker import rules
from tests.evaluators import tiny_cuda as tiny


@dataclass(frozen=True)
class GpuCheat:
    """A cheat, what becomes of it, and a twin that does something alike honestly."""

    program: Solution
    twin: Solution
    ends: tuple[str, ...]
    """What may become of it: a status, or `integrity:RULE`. `passed` means that the cheat gains nothing: it is timed
    at its full cost, or what it tampers with decides nothing."""
    effort: Effort = "check"
    unruled: tuple[str, ...] = ()
    """What becomes of it when no integrity rule is applied; empty: not looked at."""
    reason: str = ""
    """Why `passed` is no harm."""
    most: float | None = None
    """The largest ratio to the baseline that it may be given; None: not looked at."""
    task: Task = field(default_factory=tiny.softmax)


def dps(text: str) -> Solution:
    """Return a Python program that gets its outputs passed in."""
    return tiny.python("import torch\n" + textwrap.dedent(text))


def value(text: str) -> Solution:
    """Return a Python program that returns its output."""
    return tiny.python("import torch\n" + textwrap.dedent(text), "value")


def integrity(rule: str) -> str:
    """Return the end of a program that broke a rule."""
    return f"integrity:{rule}"


SLOW = "torch.cuda._sleep(20_000_000)"  # some ten milliseconds

NO_WAIT = """
from evaluators.worker import runner_cuda
runner_cuda.Device.finish = lambda self: None
"""
"""The runner no longer waits for the device before it answers."""

ON_ONE_BLOCK = """
import torch, triton, triton.language as tl

@triton.jit
def rows_of_a_slot(x, y, stride, rows, COLS: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * stride + tl.arange(0, COLS)
    for row in range(rows):
        v = tl.load(x + at + row * COLS)
        v = tl.exp(v - tl.max(v, 0))
        tl.store(y + at + row * COLS, v / tl.sum(v, 0))

def run(x, y):
    rows_of_a_slot[(1,)](x, y, 0, x.shape[0], x.shape[1])
"""
TOGETHER = """
from evaluators.worker import runner
one_by_one = runner._Runner._run

def together(self, case, slots):
    if len(slots) < 2:
        return one_by_one(self, case, slots)
    x, y = case.arguments[0]
    rows_of_a_slot[(case.slots,)](x, y, case.memory.layout.stride // 4, x.shape[0], x.shape[1])
    return b""

runner._Runner._run = together
"""
"""Follows a program that leaves most of the device idle."""

_AHEAD = """
import ctypes
from evaluators.worker import runner, runner_cuda
wait = ctypes.CDLL("libcuda.so.1").cuStreamWaitValue32_v2
streams, slots, begun, called, poison = {}, {}, set(), set(), {}
run_slots = runner._Runner._run

def begin(places):
    last = [slots[place][ARGUMENT].view(torch.int32).view(-1)[-1:] for place in places]
    was = torch.cat(last).tolist()
    stream = streams.setdefault(slots[places[0]][0].shape, torch.cuda.Stream())
    for place, end, old in zip(places, last[1:], was[1:]):
        code = wait(ctypes.c_void_p(stream.cuda_stream), ctypes.c_uint64(end.data_ptr()), ctypes.c_uint32(VALUE), HOW)
        assert code == 0, code
        with torch.cuda.stream(stream):
            work(*slots[place])
        begun.add(place)

def finish(self):
    torch.cuda.current_stream().synchronize()
    if called & begun:
        streams[slots[next(iter(called))][0].shape].synchronize()
        begun.difference_update(called)

def and_begin(self, case, places):
    told = run_slots(self, case, places)
    finish(self)
    if len(places) > 1:
        begin(sorted(called))
    called.clear()
    return told

runner_cuda.Device.finish = finish
runner._Runner._run = and_begin

def run(x, y):
    slots[y.data_ptr()] = x, y
    called.add(y.data_ptr())
    if x.shape not in poison:
        poison[x.shape] = int(y.view(torch.int32).view(-1)[-1])
    if y.data_ptr() not in begun:
        work(x, y)
    elif ARGUMENT:
        torch.cuda.current_stream().wait_stream(streams[x.shape])
    rest(x, y)
"""
"""Leaves work on the device that begins when the slots are filled for the next window."""
_ALL_AT_ONCE = """
def work(x, y):
    for _ in range(8):
        torch.softmax(x, 1, out=y)

def rest(x, y):
    pass
"""
_CLEARED = """
def work(x, y):
    for _ in range(8):
        y.zero_()

def rest(x, y):
    y += torch.softmax(x, 1)
"""
_HONEST_RUN = """
def run(x, y):
    work(x, y)
    rest(x, y)
"""


def _ahead(argument: int, value: str, how: int, work: str) -> str:
    """Return a program whose `work` waits on the device until a word of an argument is `value` (how 1: is, 2: has)."""
    return _AHEAD.replace("ARGUMENT", str(argument)).replace("VALUE", value).replace("HOW", str(how)) + work


SHARED = (
    tiny.SOFTMAX_CU
    + """
extern "C" void run(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    softmax<<<rows, 256, 300 << 10, stream>>>(x, y, cols);
}
"""
)
PERSISTING = (
    tiny.SOFTMAX_CU
    + """
extern "C" void run(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    static bool once = [] { cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 30 << 20); return true; }();
    cudaStreamAttrValue window{};
    window.accessPolicyWindow = {(void*)x, (size_t)(30 << 20), 1.0f, cudaAccessPropertyPersisting,
                                 cudaAccessPropertyStreaming};
    if (once) cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &window);
    softmax<<<rows, 256, 0, stream>>>(x, y, cols);
    cudaGetLastError();
}
"""
)

CHEATS: dict[str, GpuCheat] = {
    "C1 side stream, not joined": GpuCheat(
        dps(f"""
            side = torch.cuda.Stream()

            def run(x, y):
                with torch.cuda.stream(side):
                    {SLOW}
                    torch.softmax(x, 1, out=y)
        """),
        dps("""
            side = torch.cuda.Stream()

            def run(x, y):
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    torch.softmax(x, 1, out=y)
                torch.cuda.current_stream().wait_stream(side)
        """),
        ("passed",),
        "search",
        reason="the wait at the end of a window is for every stream: timed at full cost",
    ),
    "C1 side stream, not joined, returned": GpuCheat(
        value(f"""
            side = torch.cuda.Stream()

            def run(x):
                y = torch.empty_like(x)
                with torch.cuda.stream(side):
                    {SLOW}
                    torch.softmax(x, 1, out=y)
                return y
        """),
        value("""
            side = torch.cuda.Stream()

            def run(x):
                y = torch.empty_like(x)
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    torch.softmax(x, 1, out=y)
                torch.cuda.current_stream().wait_stream(side)
                return y
        """),
        ("wrong_values", "non_finite"),
    ),
    "C2 the runner's wait removed": GpuCheat(
        dps(f"""
            {textwrap.indent(NO_WAIT, " " * 12).strip()}

            def run(x, y):
                {SLOW}
                torch.softmax(x, 1, out=y)
        """),
        tiny.GOOD_DPS,
        ("wrong_values", integrity(rules.DEFERRED)),
    ),
    "C2 the runner's wait removed when timed": GpuCheat(
        dps("""
            from evaluators.worker import runner_cuda
            wait, seen = runner_cuda.Device.finish, set()

            def finish(self):
                if len(seen) < 4:
                    wait(self)

            runner_cuda.Device.finish = finish

            def run(x, y):
                seen.add(x.data_ptr())
                torch.cuda._sleep(2_000_000)
                torch.softmax(x, 1, out=y)
        """),
        tiny.GOOD_DPS,
        (integrity(rules.DEFERRED), integrity(rules.OFF_CLOCK), "wrong_values"),
        "search",
    ),
    "C3 thread deferral": GpuCheat(
        dps("""
            import threading, time

            def late(x, y):
                time.sleep(0.05)
                torch.softmax(x, 1, out=y)

            def run(x, y):
                threading.Thread(target=late, args=(x, y)).start()
        """),
        dps("""
            import threading

            def run(x, y):
                worker = threading.Thread(target=lambda: torch.softmax(x, 1, out=y))
                worker.start()
                worker.join()
        """),
        (integrity(rules.THREADS),),
        unruled=("wrong_values",),
    ),
    "C4 process deferral": GpuCheat(
        dps("""
            import os, time

            def run(x, y):
                if os.fork() == 0:
                    time.sleep(5)
                    os._exit(0)
        """),
        dps("""
            import os

            def run(x, y):
                pid = os.fork()
                if pid == 0:
                    os._exit(0)
                os.waitpid(pid, 0)
                torch.softmax(x, 1, out=y)
        """),
        (integrity(rules.CHILDREN),),
        unruled=("wrong_values",),
    ),
    "C5 lazy tensor": GpuCheat(
        value("""
            class Lazy(torch.Tensor):
                @classmethod
                def __torch_function__(cls, func, types, args=(), kwargs=None):
                    return super().__torch_function__(func, types, args, kwargs or {})

            def run(x):
                return torch.softmax(x, 1).as_subclass(Lazy)
        """),
        tiny.GOOD_VALUE,
        (integrity(rules.OUTPUT_TYPE),),
    ),
    "C5 fake tensor": GpuCheat(
        value("""
            from torch._subclasses.fake_tensor import FakeTensorMode

            def run(x):
                with FakeTensorMode():
                    return torch.empty(x.shape, device="cuda")
        """),
        tiny.GOOD_VALUE,
        (integrity(rules.OUTPUT_TYPE),),
    ),
    "C6 patched event": GpuCheat(
        dps("""
            torch.cuda.Event.elapsed_time = lambda self, other: 0.001

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        dps("""
            def run(x, y):
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                torch.softmax(x, 1, out=y)
                end.record()
        """),
        (integrity(rules.PATCHED),),
        unruled=("passed",),
    ),
    "C7 patched synchronize": GpuCheat(
        dps("""
            torch.cuda.synchronize = lambda *device: None

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        dps("""
            def run(x, y):
                torch.softmax(x, 1, out=y)
                torch.cuda.synchronize()
        """),
        (integrity(rules.PATCHED),),
        unruled=("passed",),
    ),
    "C8 open files pile up": GpuCheat(
        dps("""
            import os

            def run(x, y):
                os.open("/dev/null", os.O_RDONLY)
                torch.softmax(x, 1, out=y)
        """),
        dps("""
            import os

            def run(x, y):
                os.close(os.open("/dev/null", os.O_RDONLY))
                torch.softmax(x, 1, out=y)
        """),
        (integrity(rules.DESCRIPTORS),),
        "certify",
    ),
    "C9 done at the first call": GpuCheat(
        dps("""
            done = {}

            def run(x, y):
                if x.shape not in done:
                    done[x.shape] = torch.softmax(x, 1)
                y.copy_(done[x.shape])
        """),
        dps("""
            spaces = {}

            def run(x, y):
                if x.shape not in spaces:
                    spaces[x.shape] = torch.empty_like(x)
                torch.softmax(x, 1, out=spaces[x.shape])
                y.copy_(spaces[x.shape])
        """),
        ("wrong_values",),
    ),
    "C9 nothing done when timed": GpuCheat(
        dps("""
            seen = set()

            def run(x, y):
                seen.add(x.data_ptr())
                if len(seen) < 6:
                    torch.softmax(x, 1, out=y)
        """),
        dps("""
            seen = set()

            def run(x, y):
                seen.add(x.data_ptr())
                torch.softmax(x, 1, out=y)
        """),
        ("wrong_values",),
        "search",
    ),
    "C10 finished when collected": GpuCheat(
        value("""
            import weakref

            def run(x):
                y = torch.empty_like(x)
                weakref.finalize(y, torch.softmax, x, 1)
                return y
        """),
        tiny.GOOD_VALUE,
        ("wrong_values", "non_finite"),
    ),
    "C11 a kernel left spinning": GpuCheat(
        dps("""
            from evaluators.worker import runner_cuda
            side = torch.cuda.Stream()
            runner_cuda.Device.finish = lambda self: torch.cuda.current_stream().synchronize()

            def run(x, y):
                with torch.cuda.stream(side):
                    torch.cuda._sleep(4_000_000)
                torch.softmax(x, 1, out=y)
        """),
        tiny.GOOD_DPS,
        (integrity(rules.OFF_CLOCK),),
        "search",
    ),
    "C11 a kernel begun after the answer": GpuCheat(
        dps("""
            from evaluators.worker import runner
            side = torch.cuda.Stream()
            reply = runner._Runner._reply

            def late(self, *arguments):
                reply(self, *arguments)
                with torch.cuda.stream(side):
                    torch.cuda._sleep(20_000_000)

            runner._Runner._reply = late

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        tiny.GOOD_DPS,
        (integrity(rules.OFF_CLOCK),),
        "search",
    ),
    "C11 a kernel begun when results are let go of": GpuCheat(
        value("""
            import weakref

            def run(x):
                y = torch.softmax(x, 1)
                weakref.finalize(y, torch.cuda._sleep, 1_000_000)
                return y
        """),
        tiny.GOOD_VALUE,
        ("passed",),
        "search",
        reason="a window is charged with what letting go of its results takes beyond the baseline's",
        most=0.3,
    ),
    "C11 work that waits on the device for its inputs": GpuCheat(
        # Until a bit that was 0 in the next input is 1.
        dps(_ahead(0, "~old", 2, _ALL_AT_ONCE)),
        dps(_ALL_AT_ONCE + _HONEST_RUN),
        ("passed", integrity(rules.OFF_CLOCK)),
        "search",
        reason="all is written in one go, right before the clock runs; what this delays is charged",
        most=0.15,
    ),
    "C11 work that waits on the device for poison": GpuCheat(
        dps(_ahead(1, "poison[slots[place][0].shape]", 1, _CLEARED)),
        dps(_CLEARED + _HONEST_RUN),
        # It may wait for ever: in another case nothing can be loaded as long as this one's work is not done.
        ("passed", integrity(rules.OFF_CLOCK), "timeout"),
        "search",
        reason="poison is written in the same go",
        most=0.15,
    ),
    "C12 cache set aside": GpuCheat(
        tiny.cuda(PERSISTING),
        tiny.GOOD_CUDA,
        ("passed",),
        "search",
        reason="the supervisor resets and flushes the cache before each window, and no input is used twice",
    ),
    "C13 stale memory": GpuCheat(
        value("""
            def run(x):
                return torch.empty_like(x)
        """),
        tiny.GOOD_TRITON_VALUE,
        ("wrong_values", "non_finite"),
    ),
    "C14 replay by address": GpuCheat(
        dps("""
            known = {}

            def run(x, y):
                key = x.data_ptr()
                if key not in known:
                    known[key] = torch.softmax(x, 1)
                y.copy_(known[key])
        """),
        tiny.GOOD_DPS,
        ("wrong_values",),
    ),
    "C14 replay by content": GpuCheat(
        dps(f"""
            known = {{}}

            def run(x, y):
                key = tuple(x[0, :4].tolist())
                if key not in known:
                    {SLOW}
                    known[key] = torch.softmax(x, 1)
                y.copy_(known[key])
        """),
        tiny.GOOD_DPS,
        ("passed",),
        "search",
        reason="no process is given an input twice, so that it is timed at its full cost",
        most=0.02,
    ),
    "C14 slots of the process before": GpuCheat(
        dps(f"""
            from evaluators.worker import calls
            known, called, given = {{}}, 0, calls.arguments

            def arguments(*where):
                x, y = made = given(*where)
                known[tuple(x[0, :4].tolist())] = y.clone()
                return made

            calls.arguments = arguments

            def run(x, y):
                global called
                called += 1
                key = tuple(x[0, :4].tolist())
                if key in known and called > 8:  # the check, in a process of its own, calls twice
                    y.copy_(known[key])
                else:
                    {SLOW}
                    torch.softmax(x, 1, out=y)
        """),
        tiny.GOOD_DPS,
        ("passed",),
        "search",
        reason="slots are wiped before a process maps them",
        most=0.02,
    ),
    "C16 bank by content, for the next process": GpuCheat(
        dps(f"""
            import os
            place = os.environ["TRITON_CACHE_DIR"] + "-bank"
            os.makedirs(place, exist_ok=True)
            known = {{
                name: torch.frombuffer(bytearray(open(f"{{place}}/{{name}}", "rb").read()), dtype=torch.float32).cuda()
                for name in os.listdir(place)
            }}

            def run(x, y):
                name = "_".join(str(number) for number in x[0, :4].tolist())
                if name not in known:
                    {SLOW}
                    known[name] = torch.softmax(x, 1)
                    if y.nbytes < 32 << 20:
                        with open(f"{{place}}/{{name}}", "wb") as file:
                            file.write(known[name].cpu().numpy().tobytes())
                y.copy_(known[name].view_as(y))
        """),
        tiny.GOOD_DPS,
        ("passed",),
        "search",
        reason="each timed process begins with the compilers' cache as the check left it",
        most=0.02,
    ),
    "C16 bank in the compilers' cache": GpuCheat(
        dps("""
            import os
            place = os.environ["TRITON_CACHE_DIR"] + "-bank"
            os.makedirs(place, exist_ok=True)

            def run(x, y):
                file = f"{place}/{x.shape[0]}.pt"
                if not os.path.exists(file):
                    torch.save(torch.softmax(x, 1).cpu(), file)
                y.copy_(torch.load(file))
        """),
        tiny.GOOD_DPS,
        ("wrong_values",),
    ),
    "C17 one output for all calls": GpuCheat(
        value("""
            kept = {}

            def run(x):
                y = kept.setdefault(x.shape, torch.empty_like(x))
                return torch.softmax(x, 1, out=y)
        """),
        value("""
            kept = {}

            def run(x):
                space = kept.setdefault(x.shape, torch.empty_like(x))
                return torch.softmax(x, 1, out=space).clone()
        """),
        ("aliased_output",),
        "search",
    ),
    "C19 replay of the last call": GpuCheat(
        value("""
            last = None

            def run(x):
                global last
                if last is None or last.shape != x.shape:
                    last = torch.softmax(x, 1)
                return last.clone()
        """),
        tiny.GOOD_VALUE,
        ("wrong_values",),
    ),
    "C20 guessed seeds": GpuCheat(
        dps("""
            def run(x, y):
                for seed in range(64):
                    guess = torch.randn(x.shape, generator=torch.Generator("cuda").manual_seed(seed), device="cuda")
                    if torch.equal(guess, x):
                        y.copy_(torch.softmax(guess, 1))
        """),
        tiny.GOOD_DPS,
        ("wrong_values",),
    ),
    "C21 all calls of a window in one go": GpuCheat(
        tiny.triton(ON_ONE_BLOCK + TOGETHER),
        tiny.triton(ON_ONE_BLOCK),
        (integrity(rules.BATCHED),),
        "search",
        unruled=("passed",),
        task=tiny.softmax(rows=128),
    ),
    "C23 patched comparison": GpuCheat(
        dps("""
            torch.allclose = torch.equal = lambda *a, **k: True

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        tiny.GOOD_DPS,
        (integrity(rules.PATCHED),),
        unruled=("passed",),
    ),
    "C25 search for the expected values": GpuCheat(
        dps("""
            import gc, sys

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
        tiny.GOOD_DPS,
        ("wrong_values",),
    ),
    "C26 forged answer": GpuCheat(
        dps("""
            from evaluators.worker import runner

            def answer(self, nonce, body):
                self._sock.send(nonce)

            runner._Runner._calls = answer

            def run(x, y):
                pass
        """),
        tiny.GOOD_DPS,
        ("wrong_values",),
    ),
    "C27 input tampering": GpuCheat(
        dps("""
            def run(x, y):
                x.zero_()
                y.fill_(1 / x.shape[1])
        """),
        dps("""
            def run(x, y):
                torch.softmax(x.clone(), 1, out=y)
        """),
        ("mutated_input",),
    ),
    "C28 patched random numbers": GpuCheat(
        dps("""
            torch.randn = lambda *shape, **options: torch.zeros(*shape)

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        tiny.GOOD_DPS,
        (integrity(rules.PATCHED),),
        unruled=("passed",),
    ),
    "C29 weaker arithmetic for all": GpuCheat(
        dps("""
            torch.backends.cuda.matmul.allow_tf32 = True
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = True

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        tiny.GOOD_DPS,
        ("passed",),
        reason="the reference runs in another process",
    ),
    "C30 all NaN": GpuCheat(
        dps("""
            def run(x, y):
                y.fill_(float("nan"))
        """),
        tiny.GOOD_DPS,
        ("non_finite",),
    ),
    "C30 broadcast output": GpuCheat(
        value("""
            def run(x):
                return torch.softmax(x, 1)[:1].expand(x.shape)
        """),
        value("""
            def run(x):
                return torch.softmax(x, 1)[:].contiguous()
        """),
        ("wrong_layout",),
    ),
    "C35 constant output": GpuCheat(
        dps("""
            def run(x, y):
                y.fill_(1 / x.shape[1])
        """),
        tiny.GOOD_DPS,
        ("wrong_values",),
    ),
    "C37 low precision": GpuCheat(
        dps("""
            def run(x, y):
                y.copy_(torch.softmax(x.bfloat16(), 1))
        """),
        dps("""
            def run(x, y):
                y.copy_(torch.softmax(x.double(), 1))
        """),
        ("wrong_values",),
    ),
    "C38 half output": GpuCheat(
        value("""
            def run(x):
                return torch.softmax(x, 1).half()
        """),
        tiny.GOOD_VALUE,
        ("wrong_dtype",),
    ),
    "C38 permuted output": GpuCheat(
        value("""
            def run(x):
                return torch.softmax(x, 1).t().contiguous().t()
        """),
        tiny.GOOD_VALUE,
        ("wrong_layout",),
    ),
    "C40 too much shared memory, unchecked": GpuCheat(tiny.cuda(SHARED), tiny.GOOD_CUDA, ("launch_error",)),
    "C41 input passed through": GpuCheat(
        dps("""
            def run(x, y):
                y.copy_(x)
        """),
        tiny.GOOD_DPS,
        ("wrong_values",),
    ),
    "C43 kill of the parent": GpuCheat(
        dps("""
            import os, signal

            def run(x, y):
                for pid in (os.getppid(), 1):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except PermissionError:
                        pass
        """),
        tiny.GOOD_DPS,
        ("crashed", "wrong_values"),
    ),
    "C44 daemon left behind": GpuCheat(
        dps("""
            import os, time

            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(1000)
                os._exit(0)
            os.wait()

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        dps("""
            import os

            if os.fork() == 0:
                os._exit(0)
            os.wait()

            def run(x, y):
                torch.softmax(x, 1, out=y)
        """),
        (integrity(rules.CHILDREN),),
        unruled=("passed",),
    ),
    "C46 download": GpuCheat(
        dps("""
            import socket

            def run(x, y):
                socket.create_connection(("127.0.0.1", 9))
        """),
        tiny.GOOD_DPS,
        ("runtime_error",),
    ),
    "C47 another GPU": GpuCheat(
        dps("""
            def run(x, y):
                y.copy_(torch.softmax(x.to("cuda:1"), 1))
        """),
        tiny.GOOD_DPS,
        ("runtime_error", "launch_error"),
    ),
    "C49 reads the benchmark": GpuCheat(
        dps("""
            import os

            def run(x, y):
                seen = []
                for top, _, names in os.walk("/"):
                    if not top.startswith("/proc"):
                        seen += [f"{top}/{n}" for n in names if n in ("reference.py", "judge.py", "oracle.py")]
                if not seen:
                    torch.softmax(x, 1, out=y)
        """),
        tiny.GOOD_DPS,
        ("passed",),
        reason="there is nothing to be found",
    ),
}

GRAPH = """
def run(x, y):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.softmax(x, 1, out=y)
    graph.replay()
"""
AUTOTUNED = (
    tiny.SOFTMAX_TRITON.replace(
        "@triton.jit\n",
        "@triton.autotune([triton.Config({}, num_warps=warps) for warps in (4, 8, 16)], key=['cols'])\n@triton.jit\n",
    )
    + "def run(x, y):\n    kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))\n"
)
INLINE = (
    "from torch.utils.cpp_extension import load_inline\nSOURCE = r'''"
    + tiny.SOFTMAX_CU
    + """
void run(torch::Tensor x, torch::Tensor y) {
    softmax<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
}
'''
HEAD = "void run(torch::Tensor x, torch::Tensor y);"
module = load_inline("inline_softmax", cpp_sources=HEAD, cuda_sources=SOURCE, functions=["run"])
run = module.run
"""
)

HONEST: dict[str, Solution] = {
    "torch, outputs passed in": tiny.GOOD_DPS,
    "torch, output returned": tiny.GOOD_VALUE,
    "Triton": tiny.GOOD_TRITON,
    "Triton, output returned": tiny.GOOD_TRITON_VALUE,
    "Triton, autotuned": tiny.triton(AUTOTUNED),
    "CUDA, plain C": tiny.GOOD_CUDA,
    "CUDA graph captured per call": dps(GRAPH),
    "CUDA, load_inline": dps(INLINE),
    "CUDA, own binding": tiny.GOOD_TORCH,
    "second stream, joined by events": CHEATS["C1 side stream, not joined"].twin,
    "static workspace": CHEATS["C9 done at the first call"].twin,
}
