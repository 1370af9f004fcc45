"""Is a device well? A tiny task whose answer is exact, judged the way that programs are."""

from evaluators.errors import InfrastructureError, TaskError
from evaluators.evaluator import Evaluator
from evaluators.solution import Solution
from evaluators.task import Contract, Task, Tensor, Tolerance, Workload
from evaluators.worker.status import Status

DOUBTFUL = frozenset(
    {
        Status.CRASHED,
        Status.ILLEGAL_ACCESS,
        Status.INFRASTRUCTURE,
        Status.LAUNCH_ERROR,
        Status.OUT_OF_MEMORY,
        Status.RUNTIME_ERROR,
        Status.TIMEOUT,
        Status.NON_FINITE,
        Status.WRONG_VALUES,
    }
)
"""Verdicts that a sick device could have brought about. One that passed is itself a sign of health."""

_REFERENCE = '''"""A matrix product of small whole numbers: exact in every arithmetic."""

import torch


def inputs(axes, params, seed):
    generator = torch.Generator().manual_seed(seed)
    shape = (axes["n"], axes["n"])
    return {name: torch.randint(0, 4, shape, generator=generator).to(torch.float32) for name in ("a", "b")}


def reference(a, b):
    return a @ b
'''
_MATRIX = Tensor(shape=("n", "n"), dtype="float32")
_PROGRAM = Solution(
    files={"probe.py": "def run(a, b):\n    return a @ b\n"}, language="python", entry_point="run", binding="value"
)


def probe_task(device: str) -> Task:
    """Return the task for a device of this kind (`cpu`, `cuda`)."""
    return Task(
        name="health-probe",
        description="Multiply two matrices of small whole numbers.",
        device="cuda" if device == "cuda" else "cpu",
        axes=("n",),
        inputs={"a": _MATRIX, "b": _MATRIX},
        outputs={"c": _MATRIX},
        workloads=(Workload(name="small", axes={"n": 128}), Workload(name="larger", axes={"n": 512})),
        tolerance=Tolerance(rtol=0.0, atol=0.0),
        contracts={"python": Contract(entry_point="run", binding="value")},
        reference=_REFERENCE,
        timeout_s=60.0,
    )


async def problem_of(evaluator: Evaluator, device: str) -> str:
    """Return what is wrong with the device behind `evaluator`, empty when it is well."""
    try:
        verdict = await evaluator.evaluate(probe_task(device), _PROGRAM, "check")
    except (InfrastructureError, TaskError) as error:
        return str(error)
    return "" if verdict.passed else f"the health probe was {verdict.status.value}: {verdict.message}"
