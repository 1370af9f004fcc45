"""One loaded program: a confined process with its slots, and the requests it is given."""

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from evaluators.worker import descendants, returned, rules, wire
from evaluators.worker.build import Built, give_away
from evaluators.worker.caches import restore
from evaluators.worker.child import Child, plain
from evaluators.worker.failure import NOT_GIVEN, CandidateFailure, HarnessFault, integrity
from evaluators.worker.forge import Forge, import_folders
from evaluators.worker.job import Case, TaskSpec
from evaluators.worker.sandbox import GPU_WORK_BYTES, WORK_BYTES, Plan
from evaluators.worker.slots import Slots
from evaluators.worker.standing import Standing
from evaluators.worker.status import Status

_FILE_BYTES = 64 << 20
_PROCESSES = 64
_OUTPUT_BYTES = 64 << 10
_AWAKE_S = 0.1
"""For how long an answer is waited for without sleeping when the time of waiting counts, on a GPU."""
_FALL_ASLEEP_S = 0.02
"""For how long a program's threads are waited for before it is noted how long they have run: one that is about to
sleep would otherwise seem to have worked."""
_STAND_STILL_S = 1.0
"""For how long a process that was stopped is waited for to stand still."""
_CONTINUED_NS = 2_000_000
"""What a thread may run in a window of a GPU: each is woken to be stopped, and to go on."""
T = TypeVar("T")


@dataclass(frozen=True)
class Workshop:
    """What every session of one supervisor shares."""

    forge: Forge
    folder: Path
    """Private folders are made below it."""
    memory_bytes: int
    """What a program may allocate."""
    layers: tuple[str, ...]
    """Sandbox layers that this host was found to have: every process must have them."""
    reads_results: bool
    """Whether the supervisor may read programs' memory."""

    def new_folder(self, name: str) -> Path:
        """Return a new folder that other users may pass through but not list."""
        path = self.folder / name
        path.mkdir(mode=0o711)
        return path


@dataclass(frozen=True)
class Window:
    """What one batch of calls took."""

    cpu_ns: int
    """What counts: processor time, on a GPU the wall time."""
    wall_ns: int
    idle_cpu_ns: int
    """Processor time used since the window before it; on a GPU, device time taken from others."""
    late_cpu_ns: int
    """Processor time used from the answer until the program slept; known only when it shares our processor."""
    other_threads_ns: int | None
    """Processor time of other threads than the main one, those that have ended included; None: not known."""
    asleep_ns: int | None
    """Wall time in which the program neither ran nor waited for a processor, nor did the supervisor."""
    read_ns: int = 0
    """Wall time of reading what it returned."""


class _Clocks(NamedTuple):
    cpu_ns: int
    main: descendants.Schedule | None


class Session:
    """A program in a fresh process. Every request raises CandidateFailure; `end` must always be called."""

    def __init__(
        self,
        shop: Workshop,
        task: TaskSpec,
        built: Built,
        arena_bytes: int,
        processors: frozenset[int] = frozenset(),
        *,
        results: bool,
    ) -> None:
        """Start the process, on `processors` or any; all requests together may take the task's time limit.

        `results`: whether what it returns is wanted in its slots.
        """
        self._task, self._built = task, built
        told = shop.reads_results and task.device == "cpu"
        self._results = "" if not results else wire.TOLD if told else wire.COPIED
        self._arenas: dict[int, Slots] = {}
        self._amiss: CandidateFailure | None = None
        """What reading results has found; what the program says itself when it is asked to check them comes first."""
        self.remaining_s = task.timeout_s
        self._idle_from = self._idle_ns = 0
        self._standing: Standing | None = None
        restore(built)
        work = shop.new_folder(f"run-{os.urandom(6).hex()}")
        give_away(work)
        readable = (built.folder, sys.prefix, sys.base_prefix, *import_folders(), str(shop.folder / "runner"))
        plan = Plan(
            work=str(work),
            readable=tuple(path for path in readable if path),
            keep_work=False,
            memory_bytes=None if task.device == "cuda" else shop.memory_bytes + arena_bytes,
            cpu_s=int(task.timeout_s) + 60,
            file_bytes=_FILE_BYTES,
            processes=_PROCESSES,
            processors=tuple(processors),
            gpu=task.device == "cuda",
            work_bytes=GPU_WORK_BYTES if task.device == "cuda" else WORK_BYTES,
            writable=(built.cache,) if built.cache else (),
        )
        self.started_s = 0.0
        self._known_threads: dict[int, int] = {}
        self._on_gpu, self._memory_bytes = task.device == "cuda", shop.memory_bytes
        self._awake_s = _AWAKE_S if self._on_gpu else 0.0
        self.child: Child = shop.forge.start(plan, _OUTPUT_BYTES, variables=built.variables)
        missing = set(shop.layers) - set(self.child.layers)
        if missing:
            raise HarnessFault(f"sandbox layers went missing: {', '.join(sorted(missing))}")
        if told and not returned.readable(self.child.pid):
            raise HarnessFault("the memory of a new process cannot be read")

    def load(self) -> None:
        """Start the device's context (`started_s` tells how long it took), then load the program."""
        if self._on_gpu:
            self._timed(lambda deadline: self.child.request(wire.START, {"memory_bytes": self._memory_bytes}, deadline))
            self.started_s = self._task.timeout_s - self.remaining_s
        body: dict[str, Any] = {
            "binding": self._built.binding,
            "path": self._built.path,
            "entry_point": self._built.entry_point,
            "results": self._results,
            "inputs": [argument.name for argument in self._task.inputs],
        }
        fds = []
        if self._built.binding == "baseline":
            fds = [os.memfd_create("source", os.MFD_CLOEXEC)]
            os.pwrite(fds[0], self._task.reference.encode(), 0)
        try:
            self._timed(lambda deadline: self.child.request(wire.LOAD, body, deadline, fds))
        finally:
            wire.close_all(fds)
        self.know_threads()

    def set_up(self, index: int, case: Case, arena: Slots) -> None:
        """Map the slots of one case into the process. Nothing that it should not know may be in them."""
        body = {
            "case": index,
            "layout": dataclasses.asdict(arena.layout),
            "slots": arena.slots,
            "axes": [case.axes[axis] for axis in self._task.axes],
            "nbytes": arena.nbytes,
        }
        self._arenas[index] = arena
        lent = arena.lend()
        try:
            self._timed(lambda deadline: self.child.request(wire.SETUP, body, deadline, [lent]))
        finally:
            os.close(lent)
        self.rest()

    def stop(self) -> None:
        """On a GPU, let the process do nothing until it is `running` again: it could keep the device from others."""
        if self._on_gpu and self.child.stop():
            self._standing = Standing(self.child, _STAND_STILL_S)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let a process that was stopped run meanwhile; its threads are noted before, when none of them can run.

        Raises CandidateFailure when it has not stood still: a timer or a child of it may have continued it.
        """
        if self._on_gpu:
            ran_ns = 0 if self._standing is None else self._standing.ran_ns()
            if ran_ns:
                raise integrity(rules.OFF_CLOCK, f"ran for {ran_ns / 1e6:.1f} ms while it was stopped")
            self._known_threads = descendants.thread_run_ns(self.child.pid)
            self.child.go_on()
        try:
            yield
        except BaseException:  # raised again; it may have ended, so that its clock, which `stop` reads, is not asked
            if self._on_gpu:
                self.child.stop()
            raise
        self.stop()

    @property
    def has_scalars(self) -> bool:
        """Whether `prepare` has something to do."""
        return any(argument.shape is None for argument in self._task.inputs)

    def prepare(self, index: int) -> int:
        """Have scalars read again, after slots were filled; return the processor nanoseconds it took (GPU: wall).

        Does nothing for tasks without scalars.
        """
        if not self.has_scalars:
            return 0
        return self._work(lambda deadline: self.child.call(index, [], deadline, wire.PREPARE, awake_s=self._awake_s))

    def call(self, index: int, slots: list[int], answered: Callable[[], None] | None = None) -> Window:
        """Call the program on `slots`, in this order; return what the calls took.

        `answered` is called at the answer, before the clocks are read: that waits until the program sleeps. Where the
        answer tells where returned values are, they are read before.
        """
        if self._on_gpu:
            return self._call_on_gpu(index, slots)
        before, own_before = self._clocks(), descendants.schedule("self")
        wall = time.perf_counter_ns()
        told = self._timed(lambda deadline: self.child.call(index, slots, deadline))
        wall = time.perf_counter_ns() - wall
        late_from = self.child.cpu_ns_now()
        main, own = descendants.schedule(self.child.pid), descendants.schedule("self")
        reading = self._read_results(index, slots, told) if slots and self._results == wire.TOLD else 0
        if answered is not None:
            answered()
        after = self._clocks()
        idle, self._idle_ns = self._idle_ns + before.cpu_ns - self._idle_from, 0
        self._idle_from = after.cpu_ns
        cpu, late = after.cpu_ns - before.cpu_ns, after.cpu_ns - late_from
        if before.main is None or main is None or after.main is None or own_before is None or own is None:
            return Window(cpu, wall, idle, late, None, None, reading)
        ran = late_from - before.cpu_ns
        # While the program ran, we may have waited for the processor that we share with it.
        waited = main.waited_ns - before.main.waited_ns + max(0, own.waited_ns - own_before.waited_ns - ran)
        others = cpu - (after.main.ran_ns - before.main.ran_ns)
        return Window(cpu, wall, idle, late, others, wall - ran - waited, reading)

    def _read_results(self, index: int, slots: list[int], addresses: list[int]) -> int:
        try:
            return returned.fetch(self.child.pid, self._arenas[index], slots, addresses)
        except CandidateFailure as failure:
            self._amiss = failure
            return 0

    def _call_on_gpu(self, index: int, slots: list[int]) -> Window:
        """Call the program; its answer comes when the device has nothing more to do for it."""
        wall = time.perf_counter_ns()
        self._timed(lambda deadline: self.child.call(index, slots, deadline, awake_s=self._awake_s))
        wall = time.perf_counter_ns() - wall
        return Window(wall, wall, 0, 0, None, None)

    def know_threads(self) -> None:
        """Take note of the threads that there are, and of how long each has run, once they sleep or are given up on.

        On a processor nothing is excused, so that nothing need be known.
        """
        if not self._on_gpu:
            return
        descendants.await_sleep(self.child.pid, _FALL_ASLEEP_S)
        self._known_threads = descendants.thread_run_ns(self.child.pid)

    def working_threads(self) -> list[str]:
        """Return the names of the threads that may have worked since they were noted, the GPU driver's left out."""
        working = descendants.worked_since(
            self.child.pid, self._known_threads, 0 if self._standing is None else _CONTINUED_NS
        )
        return [name for name in working if not name.startswith("cuda")]

    def empty_ns(self, index: int, tries: int) -> int:
        """Return what a window without calls takes: the shortest of several, the first of which wakes the process."""
        self.call(index, [])
        return min(self.call(index, []).cpu_ns for _ in range(tries))

    def collect(self, *, check: bool) -> int:
        """Have the program let go of what it returned, with `check` after seeing that it is what the task declares.

        Return the processor nanoseconds it took (GPU: wall).
        """
        body = {"check": check}
        taken = self._work(lambda deadline: self.child.request(wire.COLLECT, body, deadline, awake_s=self._awake_s))
        if self._amiss is not None:
            raise self._amiss
        return taken

    @property
    def copies(self) -> bool:
        """Whether the program copies what it returns into its slots within its windows."""
        return self._built.binding in ("value", "baseline") if self._on_gpu else self._results == wire.COPIED

    def patched(self) -> list[str]:
        """Return the names of clocks and torch functions that the program has replaced, as its process says."""
        told = self._timed(lambda deadline: self.child.request(wire.INSPECT, {}, deadline)).get("patched")
        if not isinstance(told, list):
            raise integrity(rules.CHANNEL, NOT_GIVEN)
        return [plain(name, 100) for name in told[:20]]

    def idle_ns(self) -> int:
        """Return the processor time used since the last window that nobody asked for."""
        return 0 if self._on_gpu else self._idle_ns + self.child.cpu_ns() - self._idle_from

    def rest(self) -> None:
        """Forget the processor time used so far: what is used from now until the next window is idle time."""
        if not self._on_gpu:
            self._idle_from, self._idle_ns = self.child.cpu_ns(), 0

    def _note_idle(self) -> None:
        """Before a request between windows: what the program did since the last one was not asked for."""
        if not self._on_gpu:
            now = self.child.cpu_ns()
            self._idle_ns, self._idle_from = self._idle_ns + now - self._idle_from, now

    def _work(self, request: Callable[[float], object]) -> int:
        """Make a request between windows; return the processor time it took, which is no idle time (GPU: wall time)."""
        self._note_idle()
        started = time.perf_counter_ns()
        self._timed(request)
        if self._on_gpu:
            return time.perf_counter_ns() - started
        now = self.child.cpu_ns()
        taken, self._idle_from = now - self._idle_from, now
        return taken

    def move(self, processors: frozenset[int]) -> None:
        """Let the main thread run on these from now on, where it may be moved; none: on any, as before."""
        if processors:
            # That it has ended is told by its next request.
            with suppress(ProcessLookupError, PermissionError):
                os.sched_setaffinity(self.child.pid, processors)

    def renew(self) -> None:
        """Give the requests to come the task's whole time limit again."""
        self.remaining_s = self._task.timeout_s

    def end(self) -> None:
        """Kill the process and everything it started; return when it is gone."""
        self.child.end()

    def _clocks(self) -> _Clocks:
        return _Clocks(self.child.cpu_ns(), descendants.schedule(self.child.pid))

    def _timed(self, request: Callable[[float], T]) -> T:
        started = time.monotonic()
        try:
            return request(started + self.remaining_s)
        except CandidateFailure as failure:
            if failure.status is Status.TIMEOUT:
                failure.message = f"no answer within the limit of {self._task.timeout_s:g} s"
            raise
        finally:
            self.remaining_s -= time.monotonic() - started
