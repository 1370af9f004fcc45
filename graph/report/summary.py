"""One run in a dict (`ksearch show --json`) and in a few lines."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from checkpoints.history import Snapshot
from checkpoints.ledger import Entry
from checkpoints.lineage import Lineage
from evaluators.evaluation import Evaluation
from evaluators.protocols import is_brought
from evaluators.solution import Language
from evaluators.task import Task
from graph.config import SearchConfig
from graph.edits import EditBatch
from graph.policies import frontier_digest
from graph.promised import Promises
from graph.report.figures import (
    NONE_CERTIFIED,
    NONE_PASSED,
    WHOSE,
    against_baseline,
    duration,
    one_line,
    quantity,
    ratio_to_baseline,
    shown,
)
from graph.report.questions import Pending, count_text, listed, pending
from graph.report.spending import cached_share, nodes_of_cycles, spend_by
from graph.state import Incumbent, Spend
from graph.wording import counted
from graph.world_model import WorldModel
from nodes.deferral import deferred


@dataclass(frozen=True)
class Run:
    """All that is loaded of a run for a report."""

    snapshot: Snapshot
    config: SearchConfig
    task: Task | None
    """None when the run ended before its first checkpoint."""
    model: WorldModel
    """The tree; an empty one before the first checkpoint."""
    spend: Spend
    best: Evaluation | None
    """The incumbent's certified evaluation."""
    unknown_calls: int
    """Paid calls that were begun and never finished: their spend is unknown."""
    ancestors: tuple[tuple[Lineage, str], ...]
    """Where the run branched off, with the name of the run there."""
    calls: tuple[Entry, ...] = ()
    """The ledger."""
    waiting: tuple[EditBatch, ...] = ()
    """People's edits that wait for the search to look at its plan; `model` has them already where they are valid."""
    promises: Promises = field(default_factory=Promises)
    """The nodes that they insert."""
    asked: int = 0
    """Number of the last thing that people asked for."""

    @property
    def name(self) -> str:
        """What people call it."""
        return self.snapshot.thread.name

    @property
    def incumbent(self) -> Incumbent | None:
        """The best certified program."""
        incumbent: Incumbent | None = self.snapshot.values.get("incumbent")
        return incumbent

    @property
    def plan_base(self) -> str:
        """Where the plan is found again later (`graph.report.loading.load_plan`); nothing before there is one."""
        return f"{self.snapshot.checkpoint} {self.asked}" if "tree" in self.snapshot.values else ""

    @property
    def questions(self) -> tuple[Pending, ...]:
        """What waits for a person's answer."""
        return pending(self.snapshot.interrupts)

    @property
    def unit(self) -> str:
        """Unit of the objective."""
        return "x" if self.task is None else self.task.objective.unit

    @property
    def language(self) -> Language | None:
        """Language of the programs."""
        if self.config.language is not None or self.task is None:
            return self.config.language
        return next(iter(self.task.contracts))


def summary(run: Run) -> dict[str, Any]:
    """Return the run as plain JSON: the format of `ksearch show --json`."""
    thread, values = run.snapshot.thread, run.snapshot.values
    return {
        "thread": thread.name,
        "uuid": thread.uuid,
        "task": thread.task,
        "language": run.language,
        "status": thread.status,
        "reason": thread.reason,
        "stop": values.get("stop"),
        "round": values.get("round", 0),
        "checkpoint": run.snapshot.checkpoint,
        "budget": budget(run.config),
        "best": best(run),
        "baseline": values.get("baseline"),
        "nodes": run.model.counts(),
        "spend": _spend(run),
        "frontier": frontier_digest(run.model),
        "cycles": [_cycle(cycle) for cycle in values.get("cycles", [])],
        "waiting_edits": [batch.model_dump(mode="json") for batch in run.waiting],
        "questions": [listed(question) for question in run.questions],
        "lineage": [
            {"parent": name, "uuid": place.parent, "checkpoint": place.checkpoint, "round": place.round}
            for place, name in run.ancestors
        ],
        "environment": values.get("environment"),
        "created_at": thread.created_at,
        "updated_at": thread.updated_at,
        "config": run.config.model_dump(mode="json"),
    }


def _spend(run: Run) -> dict[str, Any]:
    nodes = nodes_of_cycles(run.model, run.snapshot.values.get("cycles", []))
    return {
        **run.spend,
        "unknown_calls": run.unknown_calls,
        "cached_share": cached_share(run.spend),
        **spend_by(run.calls, nodes),
    }


def budget(config: SearchConfig) -> dict[str, float | None]:
    """Return what may be spent; None: no limit. The names are those of the spend."""
    return {
        "evaluations": config.max_evaluations,
        "tokens": config.max_tokens,
        "usd": config.max_usd,
        "wall_s": config.max_wall_s,
    }


def best(run: Run) -> dict[str, Any] | None:
    """Return the incumbent and how it compares with the baseline; None when nothing has passed."""
    if run.incumbent is None or run.task is None or run.best is None:
        return None
    objective, ratio = run.incumbent["objective"], ratio_to_baseline(run.task.objective, run.best)
    return {
        "objective": objective["value"],
        "objective_low": objective["low"],
        "objective_high": objective["high"],
        "unit": run.unit,
        "ratio": None if ratio is None else ratio.value,
        "ratio_low": None if ratio is None else ratio.low,
        "ratio_high": None if ratio is None else ratio.high,
        "solution": run.incumbent["solution"],
        "node": run.incumbent["node"],
        "round": run.incumbent["round"],
        "certified": run.best.tier == "certified",
        "verdict": run.task.verdict,
    }


def _cycle(cycle: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "cycle": cycle["id"],
        "node": cycle["node"],
        "samples": cycle["samples"],
        "streak": cycle["streak"],
        "best": None if cycle["best"] is None else cycle["best"]["objective"],
    }


def summary_lines(run: Run, *, past: bool = False) -> Iterator[tuple[str, str]]:
    """Yield (label, text) for a person; `past`: the run was loaded as it stood, its status is that of now."""
    facts = summary(run)
    yield "run", f"{run.name}: {facts['task']}" + (f" in {run.language}" if run.language else "")
    if past:
        at = datetime.fromisoformat(run.snapshot.at).astimezone(UTC)
        yield "as of", f"round {facts['round']}, {at:%Y-%m-%d %H:%M:%S} UTC; by now the run is {facts['status']}"
    else:
        yield "status", _status(facts)
    yield (
        "progress",
        f"round {facts['round']}, {facts['spend']['evaluations']} of {facts['budget']['evaluations']} evaluations",
    )
    if run.questions:
        yield "waiting", f"{count_text(len(run.questions))}: ksearch answer {run.name}"
    awaited = len(deferred(run.snapshot.interrupts))
    if awaited:
        yield "waiting", f"{counted(awaited, 'evaluation')} by another machine: ksearch deliver {run.name}"
    if run.waiting:
        yield "waiting", f"{counted(len(run.waiting), 'edit')} by people, made when the search looks at its plan again"
    yield "best", best_text(run)
    for name, milliseconds in ((facts["baseline"] or {}).get("workloads_ms") or {}).items():
        yield "baseline", f"{name}: {quantity(milliseconds, 'ms')}"
    yield "nodes", ", ".join(f"{count} {status}" for status, count in facts["nodes"].items())
    yield "spend", spend_text(facts["spend"])
    for node in facts["frontier"][:3]:
        yield "next", f"{node['node']} (V {node['priority']:.2f}) {one_line(node['title'], 80)}"
    for place in facts["lineage"]:
        yield "branch", f"of {place['parent']} at round {place['round']}"


def _status(facts: Mapping[str, Any]) -> str:
    stop = facts["stop"]
    if facts["status"] == "finished" and stop is not None:
        return f"finished ({stop['reason']}: {one_line(stop['detail'])})"
    return str(facts["status"]) + (f" ({one_line(facts['reason'])})" if facts["reason"] else "")


def best_text(run: Run) -> str:
    """Return the incumbent in one line."""
    if run.incumbent is None or run.task is None or run.best is None:
        return _none_yet(run)
    node, ratio = run.incumbent["node"], ratio_to_baseline(run.task.objective, run.best)
    parts = [] if ratio is None else [against_baseline(ratio)]
    if run.unit != "x":
        parts.append(shown(run.incumbent["objective"], run.unit))
    if is_brought(run.task.verdict, run.best.protocol):
        parts.append(WHOSE[run.task.verdict])
    else:
        parts.append("certified" if run.best.tier == "certified" else "not certified")
    parts.append("the seed program" if node == "root" else f"{node} in round {run.incumbent['round']}")
    return ", ".join(parts)


def _none_yet(run: Run) -> str:
    values = run.snapshot.values
    if "round" not in values:
        return "none yet: no plan has been made"
    now = [entry["result"]["objective"] for entry in values.get("results") or []]
    return NONE_CERTIFIED if run.spend["certifications"] or any(now) else NONE_PASSED


def spend_text(spend: Mapping[str, Any]) -> str:
    """Return what was spent, in one line."""
    parts = [counted(spend["evaluations"], "evaluation"), counted(spend["certifications"], "certification")]
    if spend["repairs"]:
        parts.append(f"{counted(spend['repairs'], 'repaired program')} (free)")
    if spend["input_tokens"] or spend["output_tokens"]:
        share = cached_share(spend)
        cached = f" ({share:.0%} cached)" if share else ""
        parts.append(f"{spend['input_tokens']} input{cached} and {spend['output_tokens']} output tokens")
        bound = "at least " if spend["unpriced_calls"] else ""
        parts.append(f"{bound}{spend['usd']:.2f} US dollars")
    if spend["unpriced_calls"]:
        parts.append(f"{counted(spend['unpriced_calls'], 'model call')} of unknown price")
    parts += [f"{duration(spend['device_s'])} on the device", f"{duration(spend['wall_s'])} in all"]
    if spend["unknown_calls"]:
        parts.append(f"{counted(spend['unknown_calls'], 'interrupted call')} of unknown cost")
    return ", ".join(parts)
