"""`tasks`: the built-in tasks, and what one task asks for."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

from graph.cli.codes import DONE, FAILED
from graph.cli.options import AsJson, Debug, HomeFolder, TaskName
from graph.cli.screen import Screen

if TYPE_CHECKING:
    from evaluators.floors import Floors
    from evaluators.task import Scalar, Task, Tensor, Tolerance, Workload
    from evaluators.task_check import Finding

_MARKS = {"passed": ("ok", "green"), "not checked": ("--", "yellow"), "failed": ("!!", "red")}
app = typer.Typer(epilog="Example: ksearch tasks show softmax", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def tasks(context: typer.Context, json: AsJson = False, home: HomeFolder = None, debug: Debug = False) -> int:
    """List the built-in tasks; `show` tells more of one, `check` looks for what is wrong with it."""
    if context.invoked_subcommand is not None:
        return DONE
    from evaluators.resolve import builtin_names, resolve_builtin

    screen = Screen(json)
    found = [resolve_builtin(name) for name in builtin_names()]
    if json:
        screen.data([_entry(task) for task in found])
        return DONE
    screen.facts([(task.name, _one_line(task)) for task in found])
    return DONE


@app.command("show", epilog="Example: ksearch tasks show softmax")
def show(
    name: TaskName,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Show what a task computes, on which workloads, how it is checked, and what no program can do without."""
    from evaluators.floors import floors_of
    from evaluators.resolve import resolve_task

    screen = Screen(json)
    task = resolve_task(name)
    floors = floors_of(task)
    if json:
        least = {workload: floor.model_dump(exclude_none=True) for workload, floor in floors.by_workload.items()}
        told = {"floors": least, "floors_problem": floors.problem}
        screen.data({**task.model_dump(mode="json"), **told, "digest": task.digest})
        return DONE
    screen.facts(list(_lines(task, floors)))
    screen.say("")
    screen.say(task.description.strip())
    return DONE


@app.command("check", epilog="Example: ksearch tasks check ./mytask.py")
def check(
    name: TaskName,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Check whether a task can be got right by accident, before a search spends anything on it."""
    from evaluators.resolve import resolve_task
    from evaluators.task_check import check_task

    screen = Screen(json)
    task = resolve_task(name)
    findings = check_task(task, told=None if json else lambda finding: _say(screen, finding))
    passed = all(finding.state != "failed" for finding in findings)
    if json:
        screen.data({"task": task.name, "passed": passed, "checks": [item.model_dump() for item in findings]})
    elif all(finding.state == "not checked" for finding in findings):
        screen.say("nothing was checked but that the task's files can be read")
    return DONE if passed else FAILED


def _say(screen: Screen, finding: "Finding") -> None:
    from graph.report.figures import one_line

    mark, style = _MARKS[finding.state]
    state = finding.state if finding.state == "not checked" else ""
    words = [word for word in (finding.check, state, one_line(finding.detail, 4000)) if word]
    screen.say(f"{mark}  {': '.join(words)}", style)


def _entry(task: "Task") -> dict[str, Any]:
    return {
        "name": task.name,
        "title": task.title,
        "device": task.device,
        "languages": list(task.contracts),
        "seeds": [language for language, contract in task.contracts.items() if contract.seed is not None],
        "workloads": [workload.name for workload in task.workloads],
        "objective": task.objective.model_dump(mode="json"),
        "digest": task.digest,
    }


def _one_line(task: "Task") -> str:
    objective = task.objective
    figure = objective.name if objective.name == "ratio" else f"{objective.goal} {objective.name} in {objective.unit}"
    return f"{task.title or task.name} ({task.device}; {', '.join(task.contracts)}; {figure})"


def _lines(task: "Task", floors: "Floors") -> Iterator[tuple[str, str]]:
    from graph.report.figures import WHOSE

    yield "task", f"{task.name}: {task.title}" if task.title else task.name
    yield "origin", task.origin
    yield "device", task.device
    for note in task.notes:
        yield "note", note
    for name, value in task.inputs.items():
        yield "inputs", _argument(name, value)
    for name, tensor in task.outputs.items():
        yield "outputs", _argument(name, tensor)
    if task.constants:
        yield "constants", _sizes(task.constants)
    for workload in task.workloads:
        yield "workloads", _workload(workload, floors)
    if task.verdict == "harness":
        yield "tolerance", _tolerance(task.tolerance)
    yield "objective", f"{task.objective.name} ({task.objective.goal}, {task.objective.unit})"
    if task.verdict != "harness":
        judge = f": {task.workloads[0].name}()" if task.verdict == "user" else ""
        yield "judged by", f"{WHOSE[task.verdict].removeprefix('by ')}{judge}"
    if not task.brings_judge:
        yield from _yardsticks(task, floors)
    for language, contract in task.contracts.items():
        seed = "with a seed program" if contract.seed is not None else "without a seed program"
        yield "languages", f"{language}: {contract.entry_point} ({contract.binding}), {seed}"


def _tolerance(rule: "Tolerance") -> str:
    words = "either is enough" if rule.rule == "either" else "their sum"
    text = f"rtol {rule.rtol:g}, atol {rule.atol:g} ({words}), {rule.matched:.4%} of the elements"
    return text if rule.normalised is None else f"{text}, RMS of the error <= {rule.normalised:g} of the spread"


def _sizes(axes: Mapping[str, object]) -> str:
    return ", ".join(f"{axis} {size}" for axis, size in axes.items())


def _workload(workload: "Workload", floors: "Floors") -> str:
    """Return a workload in one line: sizes, what no program can do without, whether a search sees it."""
    least = floors.by_workload.get(workload.name)
    words = [_sizes({**workload.axes, **workload.params})] if workload.axes or workload.params else []
    if least is not None:
        practical = "" if least.practical_us is None else f", {least.practical_us:.3g} us in practice"
        words.append(f"floor {_short(least.bytes)}B, {_short(least.operations)}op{practical}")
    held_out = " (held out)" if workload.split == "held_out" else ""
    return f"{workload.name}{': ' if words else ''}{'; '.join(words)}{held_out}"


def _short(number: int) -> str:
    """Return a number to three digits with its decimal prefix, ready for a unit: "1.31 M"."""
    value, prefix = float(number), ""
    for larger in "kMGTPE":
        if value < 999.5:
            break
        value, prefix = value / 1000, larger
    return f"{value:.3g} {prefix}"


def _yardsticks(task: "Task", floors: "Floors") -> Iterator[tuple[str, str]]:
    """Yield what programs are measured against."""
    from evaluators.task_source import function_source

    planned = function_source(task.reference, "planned_baseline")
    found = planned or function_source(task.reference, "baseline")
    yield "baseline", "the reference" if found is None else "planned_baseline()" if planned else "baseline()"
    yield "floors", _floors(floors)


def _floors(floors: "Floors") -> str:
    from graph.report.figures import one_line

    if floors.problem:
        return f"cannot be told: {one_line(floors.problem, 400)}"
    if not floors.by_workload:
        return "none: no figure is refused for being too good"
    return "with the workloads: bytes that any program moves, operations that it does"


def _argument(name: str, value: "Tensor | Scalar") -> str:
    from evaluators.task import Tensor

    kind = f"[{', '.join(value.shape)}] {value.dtype}" if isinstance(value, Tensor) else value.scalar
    return f"{name}: {kind}" + (f", {value.description}" if value.description else "")
