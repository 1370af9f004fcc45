"""The task's reference, in the trusted process: makes secret inputs and knows the right answers."""

import faulthandler
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from evaluators.worker.dtypes import DTYPES
from evaluators.worker.failure import TaskFault, lacks_memory
from evaluators.worker.job import Argument, Case, TaskSpec
from evaluators.worker.slots import Bytes
from evaluators.worker.source import load_source

_SCALAR_TYPES = {"float32": np.float32, "float64": np.float64, "int32": np.int32, "int64": np.int64}
_LONGEST = 400
"""Characters of what a reference raises."""
_GRACE, _GRACE_S = 0.1, 1.0
"""How much longer than its limit a reference may go on, as a share of that and in seconds, before it is stopped."""


@dataclass(frozen=True)
class Example:
    """One secret input of one case with its right answer."""

    inputs: dict[str, Bytes]
    """Input name -> its bytes (a scalar: one item)."""
    expected: dict[str, torch.Tensor]

    @property
    def nbytes(self) -> int:
        """Memory held."""
        inputs = sum(data.nbytes for data in self.inputs.values())
        return inputs + sum(tensor.nbytes for tensor in self.expected.values())


class Oracle:
    """A task's reference module. Raises TaskFault when it does not fit its task."""

    def __init__(self, task: TaskSpec) -> None:
        """Load the reference's source."""
        self._task = task
        with _blame(task, "its source", task.timeout_s):
            self._names = vars(load_source(task.reference))
        self._inputs, self._reference = self._function("inputs"), self._function("reference")

    def example(self, case: Case) -> Example:
        """Return a new secret input (its seed comes from the operating system) with its right answer."""
        seed = secrets.randbits(62)
        if self._task.device == "cuda":
            torch.manual_seed(seed)
        else:
            # The other notes for a GPU that there may not be where it was called, which takes longer than small inputs.
            torch.default_generator.manual_seed(seed)
        with _blame(self._task, f"inputs() for {case.name}", self._task.timeout_s):
            made = self._inputs(dict(case.axes), dict(case.params), seed)
        values = self._named(made, self._task.inputs, "inputs()")
        values = {name: self._placed(value) for name, value in values.items()}
        inputs = {argument.name: self._bytes(values[argument.name], argument, case) for argument in self._task.inputs}
        with _blame(self._task, f"reference() for {case.name}", self._task.timeout_s), torch.no_grad():
            answer = self._reference(**values)
        if not isinstance(answer, dict):
            answer = answer if isinstance(answer, (tuple, list)) else (answer,)
            answer = dict(zip((argument.name for argument in self._task.outputs), answer, strict=False))
        outputs = self._named(answer, self._task.outputs, "reference()")
        for argument in self._task.outputs:
            self._check(outputs[argument.name], argument, case, "reference()")
        expected = {name: self._placed(tensor.detach()).clone() for name, tensor in outputs.items()}
        if self._task.device == "cuda":
            # Otherwise it would be made during whatever comes next, and seem to have cost nothing.
            torch.cuda.synchronize()
        return Example(inputs, expected)

    @property
    def plans(self) -> bool:
        """Whether the baseline is planned outside of its timed calls."""
        return "planned_baseline" in self._names

    def floor(self, case: Case) -> tuple[int, int] | None:
        """Return the least bytes moved and operations done for `case`, None when the task does not say."""
        if "floor" not in self._names:
            return None
        with _blame(self._task, "floor()", self._task.timeout_s):
            floor = self._names["floor"](dict(case.axes))
            return int(floor.get("bytes", 0)), int(floor.get("operations", 0))

    def practical_ns(self, case: Case) -> float | None:
        """Return the practical floor of `case`, nanoseconds, None when the task does not say."""
        if "floor" not in self._names:
            return None
        with _blame(self._task, "floor()", self._task.timeout_s):
            practical_us = self._names["floor"](dict(case.axes)).get("practical_us")
            return None if practical_us is None else 1e3 * float(practical_us)

    def _function(self, name: str) -> Callable[..., Any]:
        function = self._names.get(name)
        if not callable(function):
            raise TaskFault(f"task {self._task.name}: reference.py defines no function {name}")
        return function  # type: ignore[no-any-return]

    def _named(self, values: Any, arguments: tuple[Argument, ...], what: str) -> dict[str, Any]:
        names = [argument.name for argument in arguments]
        if not isinstance(values, dict) or set(values) != set(names):
            got = sorted(values) if isinstance(values, dict) else type(values).__name__
            raise TaskFault(f"task {self._task.name}: {what} gave {got}, the task declares {sorted(names)}")
        return {name: values[name] for name in names}

    def _placed(self, value: Any) -> Any:
        """Return a tensor where the task's arguments are: the generator and the reference may make it anywhere."""
        return value.to(self._task.device) if isinstance(value, torch.Tensor) else value

    def _bytes(self, value: Any, argument: Argument, case: Case) -> Bytes:
        if argument.shape is None:
            item = self._number(value, argument, case).view(np.uint8)
            return item if self._task.device == "cpu" else torch.from_numpy(item).to(self._task.device)
        self._check(value, argument, case, "inputs()")
        data: torch.Tensor = value.detach().contiguous().view(-1).view(torch.uint8)
        return data.numpy().copy() if self._task.device == "cpu" else data.clone()

    def _number(self, value: Any, argument: Argument, case: Case) -> "np.ndarray[Any, Any]":
        """Return a number as an array of one item. Raises TaskFault for one that its type cannot hold."""
        kind = np.dtype(_SCALAR_TYPES[argument.dtype])
        try:
            item = np.array([value], dtype=kind)
        except (OverflowError, TypeError, ValueError) as error:
            raise TaskFault(f"task {self._task.name}: inputs() for {case.name}: {argument.name}: {error}") from error
        if kind.kind == "i" and item[0] != value:
            raise TaskFault(f"task {self._task.name}: inputs() for {case.name}: {argument.name} is {value}, no {kind}")
        return item

    def _check(self, value: Any, argument: Argument, case: Case, what: str) -> None:
        shape = tuple(case.axes[axis] for axis in argument.shape or ())
        if not isinstance(value, torch.Tensor) or tuple(value.shape) != shape or value.dtype != DTYPES[argument.dtype]:
            got = f"{value.dtype} {list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
            wanted = f"{DTYPES[argument.dtype]} {list(shape)}"
            raise TaskFault(f"task {self._task.name}: {what} gave {argument.name} as {got}, declared is {wanted}")


@contextmanager
def _blame(task: TaskSpec, what: str, limit_s: float) -> Iterator[None]:
    """Turn whatever the reference raises, and taking longer than `limit_s`, into a TaskFault."""
    try:
        with _limited(limit_s):
            yield
    except TaskFault:
        raise
    except (Exception, SystemExit) as error:  # a reference may raise anything: told as the task's fault
        words = " ".join(str(error).split())[:_LONGEST]
        told = task.workloads_at and lacks_memory(error)
        advice = f"; the workloads' sizes are in {task.workloads_at}" if told else ""
        raise TaskFault(f"task {task.name}: {what} failed: {type(error).__name__}: {words}{advice}") from error


@contextmanager
def _limited(limit_s: float) -> Iterator[None]:
    """Raise TimeoutError in the block after `limit_s`, where this is the main thread.

    Code that goes on all the same, because it passes over exceptions or never comes back to Python, ends the process,
    which says so in its log (`launch.went_on`).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def expired(number: int, frame: object) -> None:
        raise TimeoutError(f"took more than {limit_s:.0f} s")

    previous = signal.signal(signal.SIGALRM, expired)
    faulthandler.dump_traceback_later(limit_s * (1 + _GRACE) + _GRACE_S, exit=True)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
