"""What one evaluation of a seed program of the GPU tasks says and costs on this machine's GPU. Run: `--help`.

Appends one JSON line per task, effort and language to a file and skips what is in it without an error: status, ratio to
the baseline, times, GPU seconds (the device held, its context's start excluded), and the wall time. GPU MODE's official
protocols judge the seed of `trimul`; a KernelBench problem's model is compared with itself under torch.compile. With
`--wrong` it is a program that computes nothing, which every protocol must refuse.
"""

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any, get_args

from benchmarks.flashinfer_errors import GQA, MLA, MOE, PREFILL
from evaluators.adapters.kernelbench import compiled_program
from evaluators.by_verdict import ByVerdict
from evaluators.errors import InfrastructureError, TaskError
from evaluators.evaluation import Comparison, Effort, Evaluation
from evaluators.local import LocalEvaluator
from evaluators.resolve import resolve_task
from evaluators.solution import Language, Solution
from evaluators.task import Task, contract_solution

HERE = Path(__file__).parent
OFFICIAL = "trimul_official"
PROBLEMS = tuple(f"kernelbench:{path}" for path in sorted((HERE / "kernelbench").glob("*.py")))
FOLDER = f"gpumode:{HERE.parent / 'evaluators' / 'tasks' / OFFICIAL}"
DEFAULT = (
    *(GQA, MLA, PREFILL, f"{MOE}@triton", f"{GQA}@flashinfer", f"{MLA}@flashinfer", f"{PREFILL}@flashinfer", MOE),
    *("trimul", "trimul?output=float16", OFFICIAL, FOLDER, *PROBLEMS),
    *(f"{name}?protocol=fib" for name in (GQA, MLA, f"{MOE}@triton", PREFILL)),
)
ROUNDED = """
full = custom_kernel


def custom_kernel(data):
    return full(data).half()
"""
"""Follows a seed of `trimul`."""
WRONG = "def {name}(*arguments):\n    return arguments[0]\n"


def program_of(task: Task, language: Language, *, wrong: bool) -> Solution | None:
    """Return the task's seed, for a problem of GPU MODE the seed of `trimul`, rounded where it wants half precision.

    Or a `wrong` program.
    """
    contract = task.contracts.get(language)
    if contract is None:
        return None
    if wrong:
        return contract_solution(contract, language, {"wrong.py": WRONG.format(name=contract.entry_point)})
    if contract.entry_point == "custom_kernel" and contract.seed is None:
        files = resolve_task("trimul").contracts[language].seed
        if files is None:
            return None
        if any(output.dtype == "float16" for output in task.outputs.values()):
            files = {path: text + ROUNDED for path, text in files.items()}
        return contract_solution(contract, language, files)
    return task.seed(language)


async def evaluate(
    evaluator: ByVerdict, reference: str, language: Language, effort: Effort, *, wrong: bool
) -> dict[str, Any]:
    """Return what became of a task's program, and what that cost."""
    started = time.monotonic()
    try:
        task = resolve_task(reference)
        program = program_of(task, language, wrong=wrong)
        if program is None:
            return {"status": "no seed"}
        if reference in PROBLEMS:
            return compared(await evaluator.compare(task, [program, compiled_program(task)], effort), started)
        return told(await evaluator.evaluate(task, program, effort), started)
    except (InfrastructureError, TaskError) as error:
        return {"status": "error", "message": str(error)[:500], "took_s": round(time.monotonic() - started, 2)}


def told(result: Evaluation, started: float) -> dict[str, Any]:
    """Return an evaluation's facts."""
    objective = result.objective
    return {
        "status": result.status.value,
        "message": result.message,
        "log": result.log[-1500:],
        "objective": None if objective is None else [objective.value, objective.low, objective.high],
        "searched": None if result.searched is None else result.searched.value,
        "workloads": {
            item.workload: [round(item.measurement.baseline_ms, 5), round(item.measurement.candidate_ms, 5)]
            for item in result.workloads
            if item.measurement is not None
        },
        "protocol": result.protocol,
        "tier": result.tier,
        "notes": list(result.notes),
        "device_s": round(result.device_s, 3),
        "build_s": round(result.build_s, 3),
        "wall_s": round(result.wall_s, 3),
        "took_s": round(time.monotonic() - started, 2),
    }


def compared(result: Comparison, started: float) -> dict[str, Any]:
    """Return the facts of a program beside its model under torch.compile."""
    ratio = next((pair.ratio for pair in result.pairs), None)
    return {
        **told(result.evaluations[0], started),
        "torch_compile": told(result.evaluations[1], started),
        "compiled_against_it": None if ratio is None else [ratio.value, ratio.low, ratio.high],
    }


async def run(options: argparse.Namespace) -> None:
    """Evaluate what has no line yet."""
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    rows = [row for row in map(json.loads, lines) if row["status"] != "error"]
    seen = {(row["task"], row["language"], row["effort"], row["wrong"]) for row in rows}
    until = time.monotonic() + options.seconds
    evaluator = ByVerdict(LocalEvaluator())
    try:
        for effort in options.efforts:
            for reference in options.tasks:
                language: Language = "python" if reference in PROBLEMS else options.language
                if (reference, language, effort, options.wrong) in seen or time.monotonic() > until:
                    continue
                row = await evaluate(evaluator, reference, language, effort, wrong=options.wrong)
                what = {"task": reference, "language": language, "effort": effort, "wrong": options.wrong}
                line = json.dumps({**what, **row})
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
    parser.add_argument("--wrong", action="store_true", help="judge programs that compute nothing")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing new after so long")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
