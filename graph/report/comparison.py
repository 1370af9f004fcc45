"""Programs judged by hand: the format of `ksearch evaluate --json`, and the lines for people. Pure."""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from evaluators.evaluation import Comparison, Evaluation, WorkloadResult
from evaluators.objective import Value
from evaluators.protocols import is_brought
from evaluators.task import Task
from graph.report.figures import BY_WHOM, one_line, quantity, ratio_to_baseline, shown
from graph.report.ratios import ratios, ratios_text


def comparison(task: Task, names: Sequence[str], verdicts: Comparison) -> dict[str, Any]:
    """Return the verdicts as plain JSON.

    Args:
        task: The task that the programs are for.
        names: What to call each program (its file), in the order of the verdicts.
        verdicts: One evaluation per program, and the pairs of those that were timed, in order.
    """
    evaluations = list(zip(names, verdicts.evaluations, strict=True))
    timed = [name for name, verdict in evaluations if verdict.objective is not None]
    pairs = list(combinations(timed, 2)) if verdicts.pairs else []
    environment = verdicts.environment
    return {
        "task": task.name,
        "protocol": verdicts.protocol,
        "verdict": task.verdict,
        "programs": [_program(task, name, verdict) for name, verdict in evaluations],
        "pairs": [
            {"a": a, "b": b, **_interval(pair.ratio)} for (a, b), pair in zip(pairs, verdicts.pairs, strict=True)
        ],
        "environment": None if environment is None else environment.model_dump(mode="json"),
    }


def _program(task: Task, name: str, verdict: Evaluation) -> dict[str, Any]:
    objective = verdict.objective
    return {
        "file": name,
        "solution": verdict.solution,
        "status": verdict.status.value,
        "tier": verdict.tier,
        "effort": verdict.effort,
        "message": verdict.message,
        "rule": verdict.rule,
        "log": verdict.log,
        "doubt": verdict.doubt,
        "objective": None if objective is None else objective.value,
        "objective_low": None if objective is None else objective.low,
        "objective_high": None if objective is None else objective.high,
        "unit": task.objective.unit,
        **_interval(ratio_to_baseline(task.objective, verdict)),
        "ratios": ratios(verdict),
        "workloads": [_workload(result) for result in verdict.workloads],
        "notes": list(verdict.notes),
    }


def _interval(value: Value | None) -> dict[str, float | None]:
    return {
        "ratio": None if value is None else value.value,
        "ratio_low": None if value is None else value.low,
        "ratio_high": None if value is None else value.high,
    }


def _workload(result: WorkloadResult) -> dict[str, Any]:
    times = result.measurement
    return {
        "workload": result.workload,
        "status": result.status.value,
        "message": result.message,
        "worst_error": result.worst_error,
        "baseline_ms": None if times is None else times.baseline_ms,
        "candidate_ms": None if times is None else times.candidate_ms,
        **_interval(None if times is None else times.ratio),
    }


def comparison_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for people; `facts` as `comparison` returns them."""
    if is_brought(facts["verdict"], facts["protocol"]):
        yield f"{BY_WHOM[facts['verdict']]} ({facts['protocol']})"
    for program in facts["programs"]:
        yield from _program_lines(program)
    better = "better" if facts["verdict"] == "user" else "faster"
    for pair in facts["pairs"]:
        value = {"value": pair["ratio"], "low": pair["ratio_low"], "high": pair["ratio_high"]}
        yield f"{pair['a']} against {pair['b']}: {shown(value, 'x')}{_verdict(pair, better)}"


def _program_lines(program: Mapping[str, Any]) -> Iterator[str]:
    message = f": {one_line(program['message'])}" if program["message"] else ""
    yield f"{program['file']}: {program['status']}{message}"
    if program["objective"] is not None:
        value = {end: program[key] for end, key in _ENDS}
        yield f"  {'ratio to the baseline' if program['unit'] == 'x' else 'objective'} {shown(value, program['unit'])}"
    if program["doubt"]:
        yield f"  not to be believed before it is certified (--effort certify): {one_line(program['doubt'], 400)}"
    if program["ratios"] is not None and program["ratios"]["workloads"] > 1:
        yield f"  {ratios_text(program['ratios'])}"
    for result in program["workloads"]:
        yield f"  {result['workload']}: {_workload_text(result)}"
    yield from (f"  {note}" for note in program["notes"] if program["status"] == "not_timed")
    if program["log"] and program["status"] not in ("passed", "not_timed"):
        yield from (f"  | {line}" for line in program["log"].splitlines()[:20])


_ENDS = (("value", "objective"), ("low", "objective_low"), ("high", "objective_high"))


def _workload_text(result: Mapping[str, Any]) -> str:
    if result["ratio"] is None:
        return str(result["status"]) + (f": {one_line(result['message'])}" if result["message"] else "")
    value = {"value": result["ratio"], "low": result["ratio_low"], "high": result["ratio_high"]}
    times = f"{quantity(result['baseline_ms'], 'ms')} -> {quantity(result['candidate_ms'], 'ms')}"
    return f"{shown(value, 'x')}, {times}"


def _verdict(pair: Mapping[str, Any], better: str) -> str:
    """Say which one is `better`, in the word for it, when the interval leaves no doubt."""
    if pair["ratio_low"] > 1:
        return f", {pair['a']} is {better}"
    return f", {pair['b']} is {better}" if pair["ratio_high"] < 1 else ", no clear difference"


def by_hand_line(facts: Mapping[str, Any]) -> str:
    """Return one visit of a person in a line; `facts` as `graph.cli.by_hand.Kept.listed`."""
    programs = ", ".join(
        f"{program['file']} {program['status']}"
        + ("" if program["ratio"] is None else f" {quantity(program['ratio'], 'x')}")
        for program in facts["programs"]
    )
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(facts["at"]))
    return f"{facts['record'][:12]}  {at}  {facts['task']}: {programs}"
