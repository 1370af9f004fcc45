"""Is timing in sibling processes sound? A/A ratios, agreement with timing in one process, seconds per evaluation.

    python -m benchmarks.timing [--repeats N] [--effort search|certify]

Prints JSON. For every size: the ratio of the baseline to itself (`same_value`), and the ratios of a C++ program and of
torch's softmax with `out=` to the baseline, from sibling processes (the evaluator) and from one process in which all
alternate on slots of their own (this file), on one thread. Run it on a quiet machine, or read `load` beside it.
"""

import argparse
import asyncio
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from evaluators.evaluation import Effort, Evaluation
from evaluators.jobs import job_data
from evaluators.local import LocalEvaluator
from evaluators.solution import Binding, Solution
from evaluators.task import Contract, Task, Tensor, Tolerance, Workload
from evaluators.worker.arena import Arena
from evaluators.worker.job import Job, decode
from evaluators.worker.layout import lay_out
from evaluators.worker.oracle import Oracle

SIZES = ((64, 256), (256, 512), (512, 1024), (2048, 1024))
REFERENCE = """
import torch

def inputs(axes, params, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(axes["rows"], axes["cols"], generator=generator)}

def reference(x):
    return torch.softmax(x, dim=1)
"""
CPP = """
#include <cmath>
#include <cstdint>
extern "C" void run(const float* x, float* y, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) {
        const float* a = x + r * cols;
        float* b = y + r * cols;
        float top = a[0], sum = 0;
        for (int64_t c = 1; c < cols; ++c) top = a[c] > top ? a[c] : top;
        for (int64_t c = 0; c < cols; ++c) sum += b[c] = expf(a[c] - top);
        float scale = 1 / sum;
        for (int64_t c = 0; c < cols; ++c) b[c] *= scale;
    }
}
"""
FLAGS = ("-O3", "-march=native", "-ffast-math")


def task(rows: int, cols: int) -> Task:
    """Return row softmax at one size."""
    matrix = Tensor(shape=("rows", "cols"), dtype="float32")
    return Task(
        name=f"softmax-{rows}x{cols}",
        description="Row softmax.",
        axes=("rows", "cols"),
        inputs={"x": matrix},
        outputs={"y": matrix},
        workloads=(Workload(name="only", axes={"rows": rows, "cols": cols}),),
        tolerance=Tolerance(rtol=1e-3, atol=1e-6),
        contracts={"cpp": Contract(entry_point="run", binding="plain_c", flags=FLAGS)},
        reference=REFERENCE,
    )


def python(text: str, binding: Binding) -> Solution:
    """Return a Python program."""
    return Solution(files={"kernel.py": text}, language="python", entry_point="run", binding=binding)


SAME_VALUE = python("import torch\n\ndef run(x):\n    return torch.softmax(x, dim=1)\n", "value")
WITH_OUT = python("import torch\n\ndef run(x, y):\n    torch.softmax(x, dim=1, out=y)\n", "dps")
FASTER = Solution(files={"kernel.cpp": CPP}, language="cpp", entry_point="run", binding="plain_c", flags=FLAGS)


def one_process(rows: int, cols: int, windows: int) -> dict[str, float]:
    """Return baseline / program for the `cpp` and `dps` programs, alternating in this process, thread time.

    Slots and the length of windows are those of the evaluator, so that the only difference is the process.
    """
    function = _compiled()
    spec = decode(Job, job_data(task(rows, cols), [FASTER], "search", ())).task
    layout, oracle = lay_out(spec, spec.cases[0]), Oracle(spec)
    x = torch.rand(rows, cols)
    slots = max(1, min(64, round(1_000_000 / max(1, _probe(x)))))
    arenas = [Arena(layout, slots) for _ in range(3)]
    examples = [oracle.example(spec.cases[0]) for _ in range(2 * slots)]
    xs = [[arena.tensor(slot, layout.inputs[0]) for slot in range(slots)] for arena in arenas]
    ys = [[arena.tensor(slot, layout.outputs[0]) for slot in range(slots)] for arena in arenas]
    results: list[torch.Tensor] = []
    arguments = [
        (ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_int64(rows), ctypes.c_int64(cols))
        for x, y in zip(xs[1], ys[1], strict=True)
    ]
    programs: dict[str, Callable[[int], object]] = {
        "baseline": lambda slot: results.append(torch.softmax(xs[0][slot], dim=1)),
        "cpp": lambda slot: function(*arguments[slot]),
        "dps": lambda slot: torch.softmax(xs[2][slot], dim=1, out=ys[2][slot]),
    }
    best = dict.fromkeys(programs, float("inf"))
    for turn in range(windows):
        for name in programs if turn % 2 == 0 else reversed(programs):
            call = programs[name]
            for slot in range(slots):
                arenas[list(programs).index(name)].fill(slot, examples[(turn * slots + slot) % len(examples)])
            started = time.thread_time_ns()
            for slot in range(slots):
                call(slot)
            best[name] = min(best[name], time.thread_time_ns() - started)
            results.clear()
    return {name: best["baseline"] / best[name] for name in ("cpp", "dps")}


def _compiled() -> Callable[..., None]:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
        source.write_text(CPP)
        subprocess.run(["g++", *FLAGS, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        function = ctypes.CDLL(str(library)).run
    function.restype = None
    return function


def _probe(x: torch.Tensor) -> int:
    took = []
    for _ in range(5):
        started = time.thread_time_ns()
        torch.softmax(x, dim=1)
        took.append(time.thread_time_ns() - started)
    return min(took)


def _fresh_one_process(rows: int, cols: int, estimates: int) -> list[dict[str, float]]:
    """Return estimates of `one_process`, each from a fresh interpreter, as the evaluator does."""
    code = f"""
import json, torch
from benchmarks.timing import one_process
torch.set_num_threads(1)
print(json.dumps(one_process({rows}, {cols}, 60)))"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_TRIM_THRESHOLD_": "2147483647"}
    environment["MALLOC_MMAP_THRESHOLD_"] = str(32 << 20)
    return [
        json.loads(
            subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
        )
        for _ in range(estimates)
    ]


def _ratio(result: Evaluation) -> dict[str, float]:
    if result.objective is None:
        raise SystemExit(f"{result.status.value}: {result.message}")
    measured = result.workloads[0].measurement
    assert measured is not None
    return {
        "ratio": round(result.objective.value, 4),
        "low": round(result.objective.low, 4),
        "high": round(result.objective.high, 4),
        "baseline_ms": round(measured.baseline_ms, 4),
        "candidate_ms": round(measured.candidate_ms, 4),
        "estimates": measured.estimates,
        "device_s": round(result.device_s, 2),
        "wall_s": round(result.wall_s, 2),
    }


async def measure(effort: Effort, repeats: int) -> dict[str, Any]:
    """Return all figures."""
    local = LocalEvaluator()
    rows_of_figures = []
    try:
        environment = await local.environment()
        for rows, cols in SIZES:
            one = task(rows, cols)
            figures: dict[str, Any] = {"rows": rows, "cols": cols}
            for name, program in (("same_value", SAME_VALUE), ("dps", WITH_OUT), ("cpp", FASTER)):
                results = [_ratio(await local.evaluate(one, program, effort)) for _ in range(repeats)]
                figures[name] = results
                figures[f"{name}_median"] = statistics.median(result["ratio"] for result in results)
            estimates = await asyncio.to_thread(_fresh_one_process, rows, cols, 5)
            for name in ("cpp", "dps"):
                figures[f"{name}_one_process"] = round(statistics.median(one[name] for one in estimates), 4)
            rows_of_figures.append(figures)
        checked = await local.evaluate(task(512, 512), FASTER, "check")
    finally:
        await local.close()
    return {
        "effort": effort,
        "environment": environment.model_dump(),
        "load": os.getloadavg(),
        "check": {"wall_s": round(checked.wall_s, 2), "build_s": round(checked.build_s, 2)},
        "sizes": rows_of_figures,
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--effort", choices=["search", "certify"], default="search")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.effort, options.repeats)), indent=2))


if __name__ == "__main__":
    main()
