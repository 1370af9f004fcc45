"""The task under examination: its reference module's functions, called within a limit, where the task's device is."""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from evaluators.worker.failure import lacks_memory
from evaluators.worker.source import load_source

Tensors = dict[str, Any]
_DEVICE_WORDS = ("CUDA", "cudaGetDeviceCount", "NVIDIA", "active drivers")
"""What torch and Triton say where there is no GPU, or none that may be seen."""
_ENDLESS = "no end within"
_LEAST_TIMES, _MOST_TIMES, _TIMING_S = 3, 50, 0.2


class Refused(Exception):
    """A check failed; the message says why."""


class Subject:
    """A task's functions. What they make lies on `device`: the GPU when the task is for one and one is in sight."""

    def __init__(self, task: dict[str, Any]) -> None:
        """`task`: the job's form. Nothing of it runs yet."""
        self._task, self._at, self._until = task, "", math.inf
        self.workload = ""
        """That at which it ran last, with its sizes."""
        self.names: dict[str, Any] = {}
        self.device = "cuda" if task["device"] == "cuda" and torch.cuda.is_available() else "cpu"

    @property
    def at_home(self) -> bool:
        """Whether this is the device that the task is for, so that it can be timed."""
        return self.device == str(self._task["device"])

    def begin(self) -> None:
        """Begin a check: without the task's device, all of one may take no longer than a check of a program may."""
        self._until = math.inf if self.at_home else time.monotonic() + self._task["timeout_s"]

    def load(self) -> None:
        """Run the source of the reference module. Raises Refused, and whatever that raises."""
        torch.empty(0, device=self.device)  # What starting a GPU takes is not the source's fault.
        with self._limited("its source"):
            self.names = vars(load_source(self._task["reference"]))

    def too_large(self, reason: str, *, has_run: bool) -> bool:
        """Return whether a failure is for want of what another device has: memory, and speed if the task `has_run`.

        Of a reference that does not return at its smallest workload, want of speed is not believed.
        """
        too_slow = has_run and not self.at_home and _ENDLESS in reason
        return self._task["device"] != "cpu" and (too_slow or lacks_memory(reason))

    def lacks_memory(self, reason: str) -> bool:
        """Return whether a failure at a workload is for want of memory."""
        return self.workload != "" and lacks_memory(reason)

    def is_elsewhere(self, reason: str) -> bool:
        """Return whether a failure is for want of the task's device, which is not in sight."""
        return not self.at_home and any(words in reason for words in _DEVICE_WORDS)

    def inputs(self, case: dict[str, Any], seed: int) -> Tensors:
        """Return inputs by name."""
        torch.manual_seed(seed)
        sizes = ", ".join(f"{axis} {size}" for axis, size in case["axes"].items())
        self._at, self.workload = case["name"], f"workload {case['name']!r} ({sizes})"
        with self._limited(f"inputs() of {case['name']}"):
            made = self.names["inputs"](dict(case["axes"]), dict(case["params"]), seed)
        if not isinstance(made, dict):
            raise Refused(f"inputs() returned a {type(made).__name__}, not a dict")
        return self._placed(self._declared(made, "inputs"))

    def reference(self, made: Tensors) -> Tensors:
        """Return the right outputs by name."""
        with torch.no_grad(), self._limited(f"reference() of {self._at}"):
            return self._outputs(self.names["reference"](**made))

    def baseline(self, made: Tensors) -> Tensors:
        """Return what the baseline gives for these inputs, by name."""
        with torch.no_grad(), self._limited(f"the baseline at {self._at}"):
            return self._outputs(self._baseline(copied(made))())

    def fastest_ns(self, made: Tensors) -> int:
        """Return the least time of one call of the baseline, nanoseconds; a GPU has ended its work by then."""
        times: list[int] = []
        with torch.no_grad(), self._limited(f"the baseline at {self._at}"):
            call = self._baseline(copied(made))
            call()
            self._rest()
            until = time.monotonic() + _TIMING_S
            while len(times) < _LEAST_TIMES or (time.monotonic() < until and len(times) < _MOST_TIMES):
                started = time.perf_counter_ns()
                call()
                self._rest()
                times.append(time.perf_counter_ns() - started)
        return max(1, min(times))

    def _baseline(self, made: Tensors) -> Callable[[], Any]:
        if "planned_baseline" in self.names:
            planned: Callable[[], Any] = self.names["planned_baseline"](**made)
            return planned
        function = self.names.get("baseline", self.names["reference"])
        return lambda: function(**made)

    def _outputs(self, answer: Any) -> Tensors:
        """Return what a function returned by output name."""
        if not isinstance(answer, dict):
            items = answer if isinstance(answer, tuple | list) else [answer]
            names = [argument["name"] for argument in self._task["outputs"]]
            if len(items) != len(names):
                raise Refused(f"returned {len(items)} values for the outputs {', '.join(names)}")
            answer = dict(zip(names, items, strict=True))
        return self._placed(self._declared(answer, "outputs"))

    def _declared(self, made: Tensors, group: str) -> Tensors:
        """Return what a function gave when its names are those that the task declares."""
        names = {argument["name"] for argument in self._task[group]}
        if set(made) != names:
            got, declared = (", ".join(sorted(map(str, some))) for some in (made, names))
            raise Refused(f"gave the {group} {got}; the task declares {declared}")
        return made

    def _placed(self, made: Tensors) -> Tensors:
        """Return tensors where the task's arguments are: the generator and the reference may make them anywhere."""
        moved = {name: value.to(self.device) for name, value in made.items() if isinstance(value, torch.Tensor)}
        return {**made, **moved}

    def _rest(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    @contextmanager
    def _limited(self, what: str) -> Iterator[None]:
        """Raise Refused within the block when it takes longer than a check of a program may."""
        limit_s = self._task["timeout_s"]

        def expired(number: int, frame: object) -> None:
            raise Refused(f"{what}: {_ENDLESS} {limit_s:g} s")

        left_s = min(limit_s, self._until - time.monotonic())
        if left_s <= 0:
            expired(0, None)
        signal.signal(signal.SIGALRM, expired)
        signal.setitimer(signal.ITIMER_REAL, left_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def caught(outcome: list[str], wanted: Callable[[str], bool] = bool) -> Iterator[None]:
    """Add what untrusted code raises to `outcome`, where it is `wanted`."""
    try:
        yield
    except Exception as error:  # the task's code may raise anything: told as a finding
        own = isinstance(error, Refused)
        reason = str(error) if own else f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
        if not wanted(reason):
            raise
        outcome.append(reason)


def copied(made: Tensors) -> Tensors:
    """Return the same with tensors of its own."""
    return {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in made.items()}
