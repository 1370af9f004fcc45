"""What the evaluator does on a GPU: cheats and honest programs, survival, cost, repeatability.

Usage: python -m benchmarks.gpu_evaluation RESULTS [--part NAME ...] [--seconds N] [--share K/N]

Appends one JSON line per measurement to the file RESULTS and leaves out what is there already, so that device time can
be spent in several visits; `--seconds` starts nothing new after so long. With `--share 0/3` it takes every third
measurement, so that three processes with a file each share a part (not survival, where waiting for others counts).
Prints a table of all that the file holds.
Parts, in this order: integrity, survival, cost, repeat, order, certified.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import gpu_trimul
from evaluators.errors import InfrastructureError, TaskError
from evaluators.evaluation import Effort, Evaluation
from evaluators.local import LocalEvaluator
from evaluators.solution import Solution
from evaluators.task import Scalar, Task
from evaluators.worker import rules
from tests.adversarial.gpu_corpus import CHEATS, HONEST
from tests.adversarial.gpu_survival import BAD, TIMEOUT_S
from tests.evaluators import tiny_cuda as tiny

Figures = dict[str, Any]
STREAM = """
#include <cstdint>
__global__ void copy(const float4* x, float4* y, int64_t n, int64_t more) {
    int64_t all = n + more;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < all; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t at = i < n ? i : i - n;
        float4 v = x[at];
        y[at] = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
    }
}
extern "C" void run(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    int64_t n = rows * cols / 4;
    copy<<<132 * 8, 256, 0, stream>>>((const float4*)x, (float4*)y, n, n / 1000 * MORE);
}
"""
"""Doubles every element; does MORE thousandths of the work twice."""
SCALED = """
#include <cstdint>
__global__ void k(const float* x, float scale, float* y, int64_t n) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = scale * x[i];
}
extern "C" void run(const float* x, float scale, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    k<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, scale, y, rows * cols);
}
"""
PAIRS, PAIRED = 20, (0, 20)
REPEATS = 10


class Results:
    """The results file."""

    def __init__(self, path: Path, seconds: float, share: tuple[int, int]) -> None:
        self._path, self._until, self._share, self._asked = path, time.monotonic() + seconds, share, 0
        text = path.read_text() if path.is_file() else ""
        self.lines: list[Figures] = [json.loads(line) for line in text.splitlines()]

    async def take(self, part: str, key: str, measure: Callable[[], Awaitable[Figures]]) -> None:
        """Measure unless it is another's, or has been measured, or time is up; keep going when it fails."""
        self._asked += 1
        if self._asked % self._share[1] != self._share[0]:
            return
        if any((line["part"], line["key"]) == (part, key) for line in self.lines) or time.monotonic() > self._until:
            return
        started = time.monotonic()
        try:
            figures = await measure()
        except (InfrastructureError, TaskError) as error:
            figures = {"error": str(error)[:600], "ok": False}
        line = {"part": part, "key": key, **figures, "took_s": round(time.monotonic() - started, 2)}
        self.lines.append(line)
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


def ended(result: Evaluation) -> str:
    """Return what became of a program, in one word."""
    return f"{result.status.value}:{result.rule}" if result.rule else result.status.value


def figures_of(result: Evaluation) -> Figures:
    """Return an evaluation's figures."""
    timed = {w.workload: w.measurement for w in result.workloads if w.measurement is not None}
    return {
        "end": ended(result),
        "message": result.message[:300],
        "tier": result.tier,
        "objective": None if result.objective is None else result.objective.model_dump(),
        "candidate_ms": {name: round(one.candidate_ms, 6) for name, one in timed.items()},
        "baseline_ms": {name: round(one.baseline_ms, 6) for name, one in timed.items()},
        "estimates": max((one.estimates for one in timed.values()), default=0),
        "build_s": round(result.build_s, 2),
        "device_s": round(result.device_s, 2),
        "wall_s": round(result.wall_s, 2),
        "notes": list(result.notes),
    }


async def evaluated(
    evaluator: LocalEvaluator, task: Task, program: Solution, effort: Effort, rival: Solution | None = None
) -> Figures:
    """Return the figures of one evaluation."""
    return figures_of(await evaluator.evaluate(task, program, effort, rival))


async def integrity(results: Results, evaluator: LocalEvaluator, lenient: LocalEvaluator) -> None:
    """Every cheat, with its rule on and (where there is one) off; every twin; every honest program."""
    task = tiny.softmax()
    for name, program in HONEST.items():
        await results.take("integrity", f"honest: {name}", partial(passing, evaluator, task, program, "search"))
    scaled = partial(passing, evaluator, scaling(), tiny.cuda(SCALED), "search")
    await results.take("integrity", "honest: a scalar, another one in each call", scaled)
    for name, cheat in CHEATS.items():

        async def measure(cheat: Any = cheat) -> Figures:
            figures = await evaluated(evaluator, cheat.task, cheat.program, cheat.effort)
            objective = figures["objective"] or {"value": 0.0}
            gained = cheat.most is not None and objective["value"] > cheat.most
            ok = figures["end"] in cheat.ends and not gained
            return {"ok": ok, "wanted": list(cheat.ends), "most": cheat.most, **figures}

        await results.take("integrity", f"cheat: {name}", measure)
        if cheat.unruled:

            async def unruled(cheat: Any = cheat) -> Figures:
                figures = await evaluated(lenient, cheat.task, cheat.program, cheat.effort)
                return {"ok": figures["end"] in cheat.unruled, "wanted": list(cheat.unruled), **figures}

            await results.take("integrity", f"rule off: {name}", unruled)
    twins = {cheat.twin.digest: (name, cheat) for name, cheat in CHEATS.items()}
    for name, cheat in twins.values():
        if cheat.twin not in HONEST.values():
            await results.take(
                "integrity", f"twin: {name}", partial(passing, evaluator, cheat.task, cheat.twin, cheat.effort)
            )
    await results.take("integrity", "cheat: faster than physics", lambda: too_fast(evaluator, lenient))


async def passing(evaluator: LocalEvaluator, task: Task, program: Solution, effort: Effort) -> Figures:
    """Evaluate a program that must pass."""
    figures = await evaluated(evaluator, task, program, effort)
    return {"ok": figures["end"] == "passed", **figures}


async def too_fast(evaluator: LocalEvaluator, lenient: LocalEvaluator) -> Figures:
    """The floor is raised to where an honest program is below it: what a program that skips work looks like."""
    task = tiny.softmax()
    raised = task.model_copy(update={"reference": task.reference.replace("8 * axes", "800 * axes")})
    figures = await evaluated(evaluator, raised, tiny.GOOD_CUDA, "search")
    without = await evaluated(lenient, raised, tiny.GOOD_CUDA, "search")
    ok = figures["end"] == f"integrity:{rules.FLOOR}" and without["end"] == "passed"
    return {"ok": ok, "without_rule": without["end"], **figures}


async def survival(results: Results, evaluator: LocalEvaluator) -> None:
    """Every harmful program, then an honest one. The evaluator has been started: that is not a verdict's time."""
    await evaluator.environment()
    for name, (program, statuses) in BAD.items():

        async def measure(program: Solution = program, statuses: Any = statuses) -> Figures:
            started = time.monotonic()
            figures = await evaluated(evaluator, tiny.softmax(TIMEOUT_S), program, "check")
            verdict_s = time.monotonic() - started
            after = await evaluated(evaluator, tiny.softmax(60), tiny.GOOD_DPS, "check")
            in_time = verdict_s - figures["build_s"] <= TIMEOUT_S + 5
            ok = figures["end"].partition(":")[0] in [status.value for status in statuses] and in_time
            return {"ok": ok and after["end"] == "passed", "verdict_s": verdict_s, "after": after["end"], **figures}

        await results.take("survival", name, measure)


async def cost(results: Results, evaluator: LocalEvaluator) -> None:
    """GPU-seconds of a Triton TriMul program: search, certification, a broken one."""
    task, program = gpu_trimul.task(), gpu_trimul.program()
    await results.take("cost", "broken", lambda: evaluated(evaluator, task, gpu_trimul.BROKEN, "search"))
    await results.take("cost", "search, first", lambda: evaluated(evaluator, task, program, "search"))
    await results.take("cost", "search, again", lambda: evaluated(evaluator, task, program, "search"))
    changed = gpu_trimul.program(gpu_trimul.PROGRAM.replace("num_warps=4", "num_warps=8"))
    await results.take("cost", "certify", lambda: evaluated(evaluator, task, program, "certify", changed))


async def repeat(results: Results, evaluator: LocalEvaluator) -> None:
    """The same program again and again, in fresh processes."""
    trimul, stream = gpu_trimul.task(checks=2), doubling()
    for number in range(REPEATS):
        await results.take(
            "repeat", f"trimul {number}", lambda: evaluated(evaluator, trimul, gpu_trimul.program(), "search")
        )
        await results.take("repeat", f"stream {number}", lambda: evaluated(evaluator, stream, doubler(0), "search"))


async def certified(results: Results, evaluator: LocalEvaluator) -> None:
    """The same program certified again and again."""
    for number in range(REPEATS):
        await results.take(
            "certified",
            f"trimul {number}",
            lambda: evaluated(evaluator, gpu_trimul.task(checks=2), gpu_trimul.program(), "certify"),
        )


async def order(results: Results, evaluator: LocalEvaluator) -> None:
    """Two programs whose work differs by two hundredths, compared again and again."""
    task = doubling()
    for number in range(PAIRS):

        async def measure() -> Figures:
            both = await evaluator.compare(task, [doubler(more) for more in PAIRED], "search")
            ratio = next((pair.ratio for pair in both.pairs), None)
            ends = [ended(one) for one in both.evaluations]
            device_s = round(sum(one.device_s for one in both.evaluations), 2)
            right = ratio is not None and ratio.value > 1
            return {
                "ok": right,
                "ends": ends,
                "ratio": None if ratio is None else ratio.model_dump(),
                "device_s": device_s,
            }

        await results.take("order", f"pair {number}", measure)


def scaling() -> Task:
    """Return a task with a scalar among its inputs."""
    base = tiny.softmax()
    reference = base.reference.replace("reference(x)", "reference(x, scale)").replace(
        "torch.softmax(x, dim=1)", "x * scale"
    )
    reference = reference.replace('return {"x":', 'return {"scale": 1.0 + seed % 97, "x":')
    inputs = {**base.inputs, "scale": Scalar(scalar="float32")}
    return base.model_copy(update={"name": "scaled-gpu", "reference": reference, "inputs": inputs})


def doubling() -> Task:
    """Return a task that streams 1 GiB."""
    base = tiny.softmax(rows=16384, cols=8192)
    reference = base.reference.replace("torch.softmax(x, dim=1)", "x * 2")
    return base.model_copy(update={"reference": reference, "workloads": base.workloads[:1]})


def doubler(more: int) -> Solution:
    """Return a program for `doubling` that does `more` thousandths of the work twice."""
    return tiny.cuda(STREAM.replace("MORE", str(more)))


@asynccontextmanager
async def local(**options: Any) -> AsyncIterator[LocalEvaluator]:
    """Run with an evaluator, and end it."""
    evaluator = LocalEvaluator(**options)
    try:
        yield evaluator
    finally:
        await evaluator.close()


def summary(lines: list[Figures]) -> None:
    """Print a table of all that the file holds."""
    for line in lines:
        if line["part"] in ("integrity", "survival"):
            verdict = "ok " if line.get("ok") else "BAD"
            print(f"{verdict} {line['part']:<10}{line['key']:<50}{str(line.get('end', line.get('error')))[:60]}")
    for part in ("integrity", "survival", "order"):
        of = [line for line in lines if line["part"] == part]
        if of:
            print(f"{part}: {sum(bool(line.get('ok')) for line in of)} of {len(of)} as wanted")
    for line in lines:
        if line["part"] == "cost":
            print(f"cost, {line['key']}: {line.get('end')}, {line.get('device_s')} GPU-s, wall {line['took_s']} s")
    for part, name in (("repeat", "trimul"), ("repeat", "stream"), ("certified", "trimul")):
        of = [line for line in lines if line["part"] == part and line["key"].startswith(name)]
        objectives: list[Figures] = [line["objective"] for line in of if line.get("objective") is not None]
        values = [float(objective["value"]) for objective in objectives]
        if len(values) > 1:
            middle = statistics.median(values)
            spread = max(abs(value / middle - 1) for value in values)
            print(f"{part}, {name}: n={len(values)}, median {middle:.4f}, farthest {100 * spread:.2f} %")


async def run(results: Results, parts: list[str]) -> None:
    """Measure the parts."""
    async with local() as evaluator, local(rules_off=rules.ALL) as lenient:
        if "integrity" in parts:
            await integrity(results, evaluator, lenient)
        await lenient.close()
        steps = {"survival": survival, "cost": cost, "repeat": repeat, "order": order, "certified": certified}
        for part, step in steps.items():
            if part in parts:
                await step(results, evaluator)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--part", action="append", default=None)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--share", type=lambda text: tuple(map(int, text.split("/"))), default=(0, 1), metavar="K/N")
    arguments = parser.parse_args()
    results = Results(arguments.results, arguments.seconds, arguments.share)
    parts = arguments.part or ["integrity", "survival", "cost", "repeat", "order", "certified"]
    asyncio.run(run(results, parts))
    summary(results.lines)


if __name__ == "__main__":
    main()
