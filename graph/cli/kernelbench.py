"""`evaluate` for KernelBench: programs beside torch.compile, and fast_p over a folder of problems."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluators.errors import UsageError
from graph.report.figures import one_line

if TYPE_CHECKING:
    from evaluators.solution import Solution
    from evaluators.task import Task

PREFIX = "kernelbench:"
COMPILED = "torch.compile"
"""What the model under torch.compile is called among programs."""
SPEEDUPS = (0.0, 1.0, 2.0)
"""fast_p is told for these p: the share of problems that are right and more than p times as fast as eager."""


def with_compiled(
    reference: str, task: "Task", programs: "Sequence[tuple[str, Solution]]"
) -> "list[tuple[str, Solution]]":
    """Return the programs, and for a KernelBench problem its model under torch.compile as one more."""
    from evaluators.adapters.kernelbench import compiled_program

    return [*programs, *([(COMPILED, compiled_program(task))] if reference.startswith(PREFIX) else [])]


def pairs_of(reference: str, files: Sequence[Path]) -> list[tuple[str, Path]] | None:
    """Return (reference, program) for each problem of a folder that a program is there for; None for one problem.

    Raises UsageError when programs are not one folder, or fit no problem.
    """
    problems = Path(reference.removeprefix(PREFIX))
    if not reference.startswith(PREFIX) or not problems.is_dir():
        return None
    if len(files) != 1 or not files[0].is_dir():
        raise UsageError(f"{problems} is a folder of problems: name one folder of programs, of the same file names")
    found = [(f"{PREFIX}{problem}", files[0] / problem.name) for problem in sorted(problems.glob("*.py"))]
    if not any(program.is_file() for _, program in found):
        raise UsageError(f"{files[0]}: has no program that is named like a problem in {problems}")
    return found


def fast_p(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the shares of all problems that are right and more than p times as fast as eager, and as torch.compile."""
    return {
        "problems": len(results),
        "fast": [
            {
                "p": p,
                "eager": _share(results, "ratio", p),
                "torch_compile": _share(results, "ratio_to_compiled", p) if p else None,
            }
            for p in SPEEDUPS
        ],
        "results": list(results),
    }


def _share(results: Sequence[Mapping[str, Any]], key: str, p: float) -> float:
    if p == 0.0:
        return sum(1 for result in results if result["status"] == "passed") / len(results)
    return sum(1 for result in results if result[key] is not None and result[key] > p) / len(results)


def result_of(problem: str, facts: Mapping[str, Any] | None, failure: str = "") -> dict[str, Any]:
    """Return what came of one problem; `facts` as `ksearch evaluate --json` tells them, None without a program."""
    if facts is None:
        return {
            "problem": problem,
            "status": "not judged",
            "message": failure,
            "ratio": None,
            "ratio_to_compiled": None,
        }
    program = facts["programs"][0]
    pair = next(iter(facts["pairs"]), None)
    return {
        "problem": problem,
        "status": program["status"],
        "message": program["message"],
        "ratio": program["ratio"],
        "ratio_to_compiled": None if pair is None else pair["ratio"],
    }


def fast_p_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for people; `facts` as `fast_p` returns them."""
    for result in facts["results"]:
        message = f": {one_line(result['message'])}" if result["message"] else ""
        ratio = "" if result["ratio"] is None else f", {result['ratio']:.2f}x against eager"
        compiled = result["ratio_to_compiled"]
        against = "" if compiled is None else f", {compiled:.2f}x against torch.compile"
        yield f"{result['problem']}: {result['status']}{message}{ratio}{against}"
    for share in facts["fast"]:
        compiled = "" if share["torch_compile"] is None else f" ({share['torch_compile']:.0%} against torch.compile)"
        yield f"fast_{share['p']:g}: {share['eager']:.0%} of {facts['problems']} problems{compiled}"


def compiled_line(facts: Mapping[str, Any]) -> str | None:
    """Return how the programs stand against torch.compile where it did not run; the pairs tell it where it did."""
    compiled = next((item for item in facts["programs"] if item["file"] == COMPILED), None)
    if compiled is None or compiled["status"] == "passed":
        return None
    return f"{COMPILED} does not run here: {one_line(compiled['message'], 200)}"
