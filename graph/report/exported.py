"""The page that goes with an exported program. Pure."""

from collections.abc import Iterator

from evaluators.evaluation import Evaluation
from evaluators.protocols import is_brought, protocol_of
from evaluators.solution import Solution
from evaluators.task import Task
from graph.report.figures import BY_WHOM, one_line, quantity, shown
from graph.report.ratios import ratios, ratios_text
from graph.report.summary import Run, best_text
from graph.report.tree import tree_rows


def readme(run: Run, solution: Solution) -> str:
    """Return Markdown that says what the program is, how it was measured and how the search got there."""
    return "\n".join(_lines(run, solution)) + "\n"


def _lines(run: Run, solution: Solution) -> Iterator[str]:
    yield f"# {run.snapshot.thread.task}: best program of {run.name}"
    yield ""
    yield best_text(run) + "."
    yield ""
    yield f"- program: `{solution.main_file}` ({solution.language}), entry point `{solution.entry_point}`"
    if solution.flags:
        yield f"- flags: `{' '.join(solution.flags)}`"
    yield f"- digest: `{solution.digest}`"
    if run.best is not None and run.task is not None:
        yield from _measured(run.task, run.best)
    yield ""
    yield f"Check it again, here: `ksearch evaluate {run.config.task} solution.json --effort certify`"
    yield ""
    yield "## How the search got there"
    yield ""
    yield from _path(run)
    yield ""
    yield "Files: `solution.json` (the program as a record), `evaluation.json` (its certification), `tree.json` (the"
    yield "whole plan), `run.json` (the run: options, budget, spend)."


def _measured(task: Task, evaluation: Evaluation) -> Iterator[str]:
    yield f"- protocol: {evaluation.protocol}, tier {evaluation.tier}"
    if is_brought(task.verdict, evaluation.protocol):
        yield f"- {BY_WHOM[task.verdict]}"
    if evaluation.provisional is not None:
        searched = protocol_of(task.device, task.verdict, "search")
        yield f"- by the search's protocol, {searched}: {shown(evaluation.provisional, task.objective.unit)}"
    if evaluation.environment is not None:
        environment = evaluation.environment
        yield f"- measured on: {environment.device}, torch {environment.torch}, {environment.compiler or 'no compiler'}"
    summed = ratios(evaluation)
    if summed is not None:
        yield f"- ratios: {ratios_text(summed)}"
    yield ""
    yield "| workload | baseline | program | ratio |"
    yield "|---|---|---|---|"
    for result in evaluation.workloads:
        if result.measurement is None:
            yield f"| {result.workload} | | | {result.status.value}, not timed |"
            continue
        times = result.measurement
        baseline, candidate = quantity(times.baseline_ms, "ms"), quantity(times.candidate_ms, "ms")
        yield f"| {result.workload} | {baseline} | {candidate} | {shown(times.ratio, 'x')} |"


def _path(run: Run) -> Iterator[str]:
    """Yield the steps from the seed program to the best one."""
    node = None if run.incumbent is None else run.model.find(run.incumbent["node"])
    lineage = []
    while node is not None:
        lineage.append(node)
        node = run.model.find(node.parent)
    root = next(iter(tree_rows(run.model, None, run.unit)))
    yield f"1. {root.title or 'no seed program'}: {root.facts}"
    for number, step in enumerate(reversed(lineage), start=2):
        best = step.best(run.model.goal)
        figure = "" if best is None or best.objective is None else f": {quantity(best.objective.value, run.unit)}"
        yield f"{number}. {step.id} {one_line(step.intent.title)}{figure}"
