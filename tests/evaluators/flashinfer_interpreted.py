"""Runs the Triton programs of the FlashInfer-Bench tasks in Triton's interpreter; prints a word for each that is right.

A program of its own: whether kernels are interpreted is settled when triton is imported.
"""

import importlib.util
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from benchmarks.flashinfer_errors import MOE, TASKS
from evaluators.task_file import builtin_tasks
from evaluators.worker.status import Status
from tests.evaluators.flashinfer_cases import SMALL, expected, findings, make

_interpreted_dot = interpreter.InterpreterBuilder.create_dot


def _dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
    """The interpreter multiplies the bits of bfloat16 as integers; float32 operands have the same values."""
    return _interpreted_dot(self, _wide(a), _wide(b), *rest)


def _wide(operand: Any) -> Any:
    if operand.dtype.scalar != tl.bfloat16:
        return operand
    return interpreter.TensorHandle((operand.data.astype(np.uint32) << 16).view(np.float32), tl.float32)


def _module(name: str, file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("program", builtin_tasks()[name] / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Check the seeds, then the Triton baseline."""
    interpreter.InterpreterBuilder.create_dot = _dot
    warnings.simplefilter("ignore", RuntimeWarning)  # numpy's, from exponentials that overflow as they should
    for name in TASKS:
        seed = _module(name, "seed_triton.py")
        for axes in SMALL[name][-2:]:
            values = make(name, axes, offset=8)
            want = expected(name, values)
            got = tuple(torch.full_like(tensor, torch.nan) for tensor in want)
            seed.run(*values.values(), *got)
            _report(name, got, want)
    baseline = _module(MOE, "baseline_triton.py").baseline
    for axes, routing in zip(SMALL[MOE], ("spread", "remote", "local"), strict=True):
        values = make(MOE, axes, routing=routing)
        _report(MOE, baseline(**values), expected(MOE, values))


def _report(name: str, got: Any, want: Any) -> None:
    # The interpreter cuts bfloat16 off where hardware rounds: twice the error, so that a few elements are outside.
    for finding in findings(name, got, want, matched=0.999 if name != MOE else 0.9):
        if finding.status is not Status.PASSED:
            raise SystemExit(f"{name}: {finding.message}")
    print("right")  # noqa: T201


main()
