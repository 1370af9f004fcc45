"""The matrix of cheats: what becomes of each, at which tier it is stopped, by which rule, and whether its twin passes.

Usage: python -m benchmarks.integrity [--only TEXT]

Runs the corpus of this machine's CPU, and that of its GPU when there is one. Ends with 1 when a cheat was accepted that
must not be, or an honest program was rejected.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from evaluators.evaluation import Effort, Evaluation
from evaluators.local import LocalEvaluator
from evaluators.solution import Solution
from evaluators.task import Task
from tests.adversarial import gpu_corpus
from tests.adversarial.test_cpu_cheats import CHEATS
from tests.evaluators import tiny, tiny_cuda


@dataclass(frozen=True)
class Row:
    """One program and how it may end."""

    name: str
    device: str
    task: Task
    program: Solution
    effort: Effort
    ends: tuple[str, ...]
    twin: Solution | None = None
    reason: str = ""


def rows() -> Iterator[Row]:
    """Give the cheats of this machine's devices, then the honest programs."""
    for name, cheat in CHEATS.items():
        end = f"{cheat.status.value}:{cheat.rule}" if cheat.rule else cheat.status.value
        yield Row(name, "cpu", tiny.softmax(), cheat.program, cheat.effort, (end,), cheat.twin)
    if not torch.cuda.is_available():
        return
    for name, trick in gpu_corpus.CHEATS.items():
        yield Row(name, "gpu", trick.task, trick.program, trick.effort, trick.ends, trick.twin, trick.reason)
    for name, program in gpu_corpus.HONEST.items():
        yield Row(f"honest: {name}", "gpu", tiny_cuda.softmax(), program, "search", ("passed",))


def ended(result: Evaluation) -> str:
    """Return what became of a program, in one word."""
    return f"{result.status.value}:{result.rule}" if result.rule else result.status.value


async def judge(evaluator: LocalEvaluator, row: Row) -> bool:
    """Print a row of the matrix; return whether it is as it must be."""
    result = await evaluator.evaluate(row.task, row.program, row.effort)
    end, ok = ended(result), ended(result) in row.ends
    twin = "-"
    if row.twin is not None:
        twin = ended(await evaluator.evaluate(row.task, row.twin, row.effort))
        ok = ok and twin == "passed"
    tier = "" if result.passed else f"after {result.tier}"
    print(
        f"{'ok' if ok else 'BAD':<4}{row.device:<5}{row.name:<46}{end:<24}{tier:<15}{twin:<9}{row.reason}", flush=True
    )
    return ok


async def run(only: str) -> int:
    """Judge every row; return how many are not as they must be."""
    print(f"{'':<4}{'on':<5}{'cheat':<46}{'ends as':<24}{'stopped':<15}{'twin':<9}why that is no harm")
    evaluator, bad = LocalEvaluator(), 0
    try:
        for row in rows():
            if only in row.name:
                bad += not await judge(evaluator, row)
    finally:
        await evaluator.close()
    if not torch.cuda.is_available():
        print(f"{len(gpu_corpus.CHEATS)} cheats on a GPU: not run, this machine has none that torch can use")
    return bad


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    bad = asyncio.run(run(parser.parse_args().only))
    print(f"{bad} rows are not as they must be" if bad else "every row is as it must be")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
