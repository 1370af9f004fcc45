"""What is said at the end of a visit to a run. Pure."""

import math
from collections.abc import Iterator, Mapping

from graph.report.figures import one_line
from graph.report.summary import Run, best_text

_GO_ON: Mapping[str, str] = {
    "budget": "raise the budget: ksearch resume {name} --set {more}",
    "target": "aim higher: ksearch resume {name} --set target=none",
    "exhausted": "every intent is done: add one of yours (ksearch edit {name} --insert TITLE), or start a run with "
    "other options, such as --set policy=puct",
    "nothing_to_start_from": "put right what the reason says, then start a new run",
    "stalled": "look at the coder's replies in the log, then start a new run with another coder",
    "requested": "go on with: ksearch resume {name}",
}


def went_wrong(run: Run) -> bool:
    """Return whether a finished search has nothing to show: nothing to start from, or nothing that passed."""
    stop = run.snapshot.values.get("stop")
    return run.incumbent is None or (stop is not None and stop["reason"] == "nothing_to_start_from")


def ended_lines(run: Run, where: str) -> Iterator[tuple[str, str]]:
    """Yield (label, text): why the run stopped, what it found, and the commands to type next.

    Args:
        run: The run, finished or paused.
        where: What commands need to find it, such as " --home runs"; empty for the default.
    """
    stop = run.snapshot.values.get("stop")
    if run.snapshot.thread.status != "paused" and stop is not None:
        yield "stopped", f"{stop['reason']}: {one_line(stop['detail'])}"
    yield "best", best_text(run)
    if run.incumbent is not None:
        yield "program", f"kept in the run; write it to a folder: ksearch export {run.name}{where}"
    yield "plan", f"ksearch tree {run.name}{where}"


def still_stopped(before: Run, after: Run, where: str) -> list[str]:
    """Return the lines that say that a finished run was resumed and its reason to stop still holds; none otherwise."""
    stop = after.snapshot.values.get("stop")
    moved = after.snapshot.values.get("round", 0) > before.snapshot.values.get("round", 0)
    if stop is None or moved or {before.snapshot.thread.status, after.snapshot.thread.status} != {"finished"}:
        return []
    lines = [f"{after.name} had finished, and its reason to stop still holds"]
    advice = _GO_ON.get(stop["reason"])
    return lines if advice is None else [*lines, advice.format(name=after.name + where, more=_more(after))]


def _more(run: Run) -> str:
    """Return the setting that doubles the first budget that is used up, or what was spent when that is far more."""
    config, spend = run.config, run.spend
    budgets = (
        ("max_evaluations", spend["evaluations"], config.max_evaluations),
        ("max_tokens", spend["input_tokens"] + spend["output_tokens"], config.max_tokens),
        ("max_usd", spend["usd"], config.max_usd),
        ("max_wall_s", spend["wall_s"], config.max_wall_s),
    )
    for option, spent, limit in budgets:
        if limit is not None and spent >= limit:
            return f"{option}={2 * (limit if 2 * limit > spent else math.ceil(spent)) or 1}"
    return f"max_evaluations={max(2 * config.max_evaluations, 1)}"
