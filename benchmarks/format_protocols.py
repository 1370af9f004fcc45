"""Other formats' protocols on this machine's GPU: FlashInfer-Bench's and GPU MODE's. Run: `--help`.

Appends one JSON line per task, effort and repeat to a file and skips what is in it already: status, figures, notes, GPU
seconds and wall time. Programs are the tasks' seeds, a wrong one beside them.
"""

import argparse
import asyncio
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.flashinfer_errors import GQA, MLA, MOE, PREFILL
from evaluators.by_verdict import ByVerdict
from evaluators.errors import InfrastructureError, TaskError
from evaluators.evaluation import Effort, Evaluation
from evaluators.local import LocalEvaluator
from evaluators.resolve import resolve_task
from evaluators.solution import Language, Solution
from evaluators.task import Task, contract_solution

FIB = "?protocol=fib"
OFFICIAL, STRICT = "trimul_official", "trimul"


@dataclass(frozen=True)
class Row:
    """One evaluation."""

    part: str
    task: str
    effort: Effort
    language: Language = "triton"
    wrong: bool = False
    repeat: int = 1

    @property
    def key(self) -> str:
        """What tells it from others."""
        wrong = " wrong" if self.wrong else ""
        return f"{self.task} {self.language} {self.effort}{wrong} {self.repeat}"


ROWS = (
    Row("fib", GQA + FIB, "check"),
    Row("fib", GQA + FIB, "search"),
    Row("fib", GQA + FIB, "search", wrong=True),
    Row("fib", f"{GQA}@flashinfer{FIB}", "search"),
    Row("fib", MLA + FIB, "search"),
    Row("fib", f"{MOE}@triton{FIB}", "search"),
    Row("fib", PREFILL + FIB, "search"),
    Row("fib", GQA + FIB, "search", repeat=2),
    Row("fib", GQA + FIB, "search", repeat=3),
    Row("fib", GQA + FIB, "certify"),
    Row("gpumode", OFFICIAL, "check"),
    Row("gpumode", OFFICIAL, "search"),
    Row("gpumode", OFFICIAL, "search", wrong=True),
    Row("gpumode", OFFICIAL, "search", repeat=2),
    Row("gpumode", OFFICIAL, "certify"),
)
"""The cheapest first within each part."""


def program(task: Task, row: Row) -> Solution:
    """Return the seed program, or one that returns without writing anything."""
    contract = task.contracts[row.language]
    if row.wrong:
        body = f"def {contract.entry_point}(*arguments):\n    return arguments[0][0] if len(arguments) == 1 else None\n"
        return contract_solution(contract, row.language, {"wrong.py": body})
    seed = task.seed(row.language) or resolve_task(STRICT).seed(row.language)
    if seed is None:
        raise TaskError(f"{row.task} has no seed program in {row.language}")
    return contract_solution(contract, row.language, seed.files)


async def measured(evaluator: ByVerdict, row: Row) -> dict[str, Any]:
    """Return what became of a program, and what that cost."""
    started = time.monotonic()
    try:
        task = resolve_task(row.task)
        found = _facts(await evaluator.evaluate(task, program(task, row), row.effort))
    except (InfrastructureError, TaskError) as error:
        found = {"status": "error", "message": str(error)[:800]}
    return {**found, "took_s": round(time.monotonic() - started, 2)}


def _facts(result: Evaluation) -> dict[str, Any]:
    values = {"objective": result.objective, "provisional": result.provisional}
    figures = {
        name: None if value is None else [round(x, 5) for x in (value.value, value.low, value.high)]
        for name, value in values.items()
    }
    return {
        "status": result.status.value,
        "message": result.message,
        "log": result.log[-600:],
        "protocol": result.protocol,
        **figures,
        "workloads": {
            item.workload: [round(item.measurement.baseline_ms, 5), round(item.measurement.candidate_ms, 5)]
            for item in result.workloads
            if item.measurement is not None
        },
        "notes": list(result.notes),
        "device_s": round(result.device_s, 2),
    }


async def run(options: argparse.Namespace) -> None:
    """Evaluate what has no line yet, or only one of an error."""
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    seen = {row["key"] for row in map(json.loads, lines) if row["status"] != "error"}
    until = time.monotonic() + options.seconds
    evaluator = ByVerdict(LocalEvaluator())
    try:
        for row in ROWS:
            if row.part not in options.parts or row.key in seen or time.monotonic() > until:
                continue
            line = json.dumps({"part": row.part, "key": row.key, **await measured(evaluator, row)})
            with options.out.open("a") as file:
                file.write(line + "\n")
            print(line, flush=True)
    finally:
        await evaluator.close()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="JSON-lines file that rows are appended to")
    parser.add_argument("--parts", nargs="*", choices=["fib", "gpumode"], default=["fib", "gpumode"])
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing new after so long")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
