"""What one evaluation of a seed program of the FlashInfer-Bench tasks costs on this machine's GPU. Run: `--help`.

Appends one JSON line per task and program to a file and skips what is in it already: status, ratios to the baseline,
GPU seconds (the device held, its context's start excluded), and the wall time.
"""

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any, get_args

from benchmarks.flashinfer_errors import GQA, MLA, MOE, PREFILL
from evaluators.errors import InfrastructureError, TaskError
from evaluators.evaluation import Effort
from evaluators.local import LocalEvaluator
from evaluators.resolve import resolve_task
from evaluators.solution import Language

DEFAULT = (GQA, MLA, PREFILL, f"{MOE}@triton", f"{GQA}@flashinfer", f"{MLA}@flashinfer", f"{PREFILL}@flashinfer", MOE)


async def evaluate(evaluator: LocalEvaluator, reference: str, language: Language, effort: Effort) -> dict[str, Any]:
    """Return what became of a task's seed program, and what that cost."""
    task = resolve_task(reference)
    seed = task.seed(language)
    if seed is None:
        return {"status": "no seed"}
    started = time.monotonic()
    try:
        result = await evaluator.evaluate(task, seed, effort)
    except (InfrastructureError, TaskError) as error:
        return {"status": "error", "message": str(error)[:500], "took_s": round(time.monotonic() - started, 2)}
    return {
        "status": result.status.value,
        "message": result.message,
        "ratio": None if result.objective is None else round(result.objective.value, 4),
        "workloads": {
            item.workload: [round(item.measurement.baseline_ms, 5), round(item.measurement.candidate_ms, 5)]
            for item in result.workloads
            if item.measurement is not None
        },
        "protocol": result.protocol,
        "device_s": round(result.device_s, 3),
        "build_s": round(result.build_s, 3),
        "wall_s": round(result.wall_s, 3),
        "took_s": round(time.monotonic() - started, 2),
    }


async def run(options: argparse.Namespace) -> None:
    """Evaluate what has no line yet."""
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    seen = {(row["task"], row["language"], row["effort"]) for row in map(json.loads, lines)}
    until = time.monotonic() + options.seconds
    evaluator = LocalEvaluator()
    try:
        for effort in options.efforts:
            for reference in options.tasks:
                if (reference, options.language, effort) in seen or time.monotonic() > until:
                    continue
                row = await evaluate(evaluator, reference, options.language, effort)
                line = json.dumps({"task": reference, "language": options.language, "effort": effort, **row})
                with options.out.open("a") as file:
                    file.write(line + "\n")
                print(line, flush=True)
    finally:
        await evaluator.close()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="JSON-lines file that rows are appended to")
    parser.add_argument("--tasks", nargs="*", default=list(DEFAULT), help="references, such as NAME@flashinfer")
    parser.add_argument("--language", choices=get_args(Language), default="triton")
    parser.add_argument("--efforts", nargs="*", choices=get_args(Effort), default=["check", "search"])
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing new after so long")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
