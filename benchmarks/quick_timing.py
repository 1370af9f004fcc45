"""C++ programs of a task, built, checked and timed in this process: quick figures for work on seed programs.

Not an evaluator: nothing is confined and the program is trusted. One thread; baseline and program take turns A B B A
on a few rotated inputs; a figure is the geometric mean over the search split of the ratio of minimum thread CPU times.
"""

import ctypes
import math
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from evaluators.solution import Solution
from evaluators.task import Task, Tensor, Workload

Call = Callable[..., Any]
_POOL = 4
_MOST_CALLS = 200
_SCALARS: dict[str, Any] = {
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
}


class BuildFailure(Exception):
    """The compiler refused a program; carries what it said."""


def load_reference(task: Task) -> ModuleType:
    """Return the task's reference as a module."""
    module = ModuleType("reference")
    exec(compile(task.reference, "reference.py", "exec"), vars(module))
    return module


def build(solution: Solution, folder: Path, extra_flags: tuple[str, ...] = ()) -> tuple[Call, float]:
    """Return the C++ program's entry point and the compiler's processor time, seconds. Raises BuildFailure."""
    name = solution.digest[:16]
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    source.write_text(solution.files[solution.main_file])
    command = ["g++", *solution.flags, *extra_flags, "-shared", "-fPIC", "-o", str(library), str(source)]
    started = _children_s()
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildFailure(result.stderr)
    seconds = _children_s() - started
    function = getattr(ctypes.CDLL(str(library)), solution.entry_point)
    function.restype = None
    return function, seconds


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass
class Case:
    """One input of one workload, with an output to write into and the right answer."""

    inputs: dict[str, Any]
    output: dict[str, torch.Tensor]
    expected: dict[str, torch.Tensor]
    sizes: list[int]
    """Variable axes in order."""

    def arguments(self) -> list[Any]:
        """Return what the plain C function is called with."""
        values = [*self.inputs.values(), *self.output.values()]
        pointers = [ctypes.c_void_p(value.data_ptr()) if isinstance(value, torch.Tensor) else value for value in values]
        return [*pointers, *(ctypes.c_int64(size) for size in self.sizes)]


def make_case(task: Task, reference: ModuleType, workload: Workload, seed: int) -> Case:
    """Return one case with its expected outputs; the outputs to write into hold NaN."""
    axes = dict(task.sizes(workload))
    made = reference.inputs(axes, dict(workload.params), seed)
    answer = reference.reference(**made)
    expected = answer if isinstance(answer, dict) else {next(iter(task.outputs)): answer}
    inputs = {}
    for name, declared in task.inputs.items():
        value = made[name]
        inputs[name] = value if isinstance(declared, Tensor) else _SCALARS[declared.scalar](value)
    output = {name: torch.full_like(tensor, math.nan) for name, tensor in expected.items()}
    return Case(inputs, output, expected, [workload.axes[axis] for axis in task.axes])


def worst_error(task: Task, case: Case) -> float:
    """Return the largest |got - expected| / (atol + rtol |expected|), infinite where something is no number."""
    worst = 0.0
    for name, expected in case.expected.items():
        got, want = case.output[name].double(), expected.double()
        error = (got - want).abs() / (task.tolerance.atol + task.tolerance.rtol * want.abs())
        worst = max(worst, float(torch.nan_to_num(error, nan=math.inf).max()))
    return worst


@dataclass
class Figures:
    """What is known of one program."""

    ratio: float
    """Baseline time / program time, geometric mean over the search split; 0 when it is wrong or does not build."""
    per_workload: dict[str, float] = field(default_factory=dict)
    baseline_ms: dict[str, float] = field(default_factory=dict)
    worst: float = math.inf
    """Worst error over all workloads, both splits, in tolerances."""
    build_s: float = 0.0
    """Processor time of the compiler."""


class QuickTimer:
    """Builds, checks and times programs of one task."""

    def __init__(self, task: Task, seconds: float) -> None:
        """Make the inputs. `seconds`: about how long one program is timed on each workload."""
        torch.set_num_threads(1)
        self.task, self.seconds = task, seconds
        self.reference = load_reference(task)
        self.cases = {
            workload.name: [make_case(task, self.reference, workload, seed) for seed in range(_POOL)]
            for workload in task.workloads
        }
        self._folder = tempfile.TemporaryDirectory()

    def close(self) -> None:
        """Remove the built programs."""
        self._folder.cleanup()

    def check(self, solution: Solution, extra_flags: tuple[str, ...] = ()) -> tuple[Call, Figures]:
        """Return the program and its worst error on one input of every workload. Raises BuildFailure."""
        function, seconds = build(solution, Path(self._folder.name), extra_flags)
        worst = 0.0
        for cases in self.cases.values():
            for output in cases[0].output.values():
                output.fill_(math.nan)
            function(*cases[0].arguments())
            worst = max(worst, worst_error(self.task, cases[0]))
        return function, Figures(ratio=0.0, worst=worst, build_s=seconds)

    def measure(self, solution: Solution) -> Figures:
        """Return the program's figures; those of a program that is wrong or does not build have ratio 0."""
        try:
            function, figures = self.check(solution)
        except BuildFailure:
            return Figures(ratio=0.0)
        if figures.worst > 1.0:
            return figures
        for workload in self.task.split("search"):
            baseline, candidate = self._times(function, self.cases[workload.name])
            figures.baseline_ms[workload.name] = baseline * 1e3
            figures.per_workload[workload.name] = baseline / candidate
        figures.ratio = math.exp(sum(map(math.log, figures.per_workload.values())) / len(figures.per_workload))
        return figures

    def _times(self, function: Call, cases: list[Case]) -> tuple[float, float]:
        """Return the least thread CPU seconds of a call of the baseline, and of the program."""
        arguments = [case.arguments() for case in cases]
        best = {"baseline": math.inf, "candidate": math.inf}
        end = time.monotonic() + self.seconds
        for number in range(_MOST_CALLS):
            case = number % len(cases)
            for who in ("baseline", "candidate", "candidate", "baseline"):
                started = time.thread_time()
                if who == "baseline":
                    self.reference.baseline(**cases[case].inputs)
                else:
                    function(*arguments[case])
                best[who] = min(best[who], time.thread_time() - started)
            if time.monotonic() > end and number >= _POOL:
                break
        return best["baseline"], best["candidate"]
