"""What happened in a search, in order: every edit, every attempt, every change of its options. Pure.

The figures are those of the log that the search itself keeps, so a branch tells its ancestors' part too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkpoints.events import Event
from checkpoints.ledger import Entry
from graph.edits import EditBatch
from graph.report.figures import one_line, shown
from graph.wording import edit_content, edit_what
from graph.world_model import Evidence, WorldModel

Told = dict[str, Any]
"""One event as plain JSON: `event` (`edit`, `attempt`, or a thread event's kind), `round`, and what goes with it."""


@dataclass(frozen=True)
class Material:
    """All that a chronicle is made from."""

    model: WorldModel
    attempts: Sequence[Mapping[str, Any]]
    """Entries of the log of attempts."""
    edits: Sequence[Mapping[str, Any]]
    """Entries of the log of edits."""
    batches: Mapping[str, Mapping[str, Any]]
    """Blob -> edit batch, of every entry in `edits`."""
    round: int = 0
    """Rounds that have ended."""
    events: Sequence[Event] = ()
    entries: Sequence[Entry] = ()
    waiting: Sequence[EditBatch] = ()
    """People's edits that are not made yet."""
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Blob -> configuration, of every configuration that `events` name."""


def chronicle(material: Material) -> list[Told]:
    """Return everything that happened, oldest first: in each round its attempts, then the edits they led to."""
    told: list[tuple[int, int, Told]] = [(item["round"], 1, item) for item in map(_attempt, material.attempts)]
    told += [(item["round"], 2, item) for item in _edits(material)]
    told += [(item["round"], 3, item) for item in (_event(material, event) for event in material.events)]
    return [item for _, _, item in sorted(told, key=lambda entry: entry[:2])]


def _attempt(entry: Mapping[str, Any]) -> Told:
    result, calls = entry["result"], entry["coder_calls"]
    return {
        "event": "attempt",
        "round": entry["round"],
        "number": entry["number"],
        "node": entry["node"],
        "cycle": result["cycle"],
        "sample": result["sample"],
        "status": result["status"] if result["outcome"] == "evaluated" else result["outcome"],
        "objective": result["objective"],
        "message": result["message"],
        "rule": result["rule"],
        "settings": result["settings"],
        "solution": result["solution"],
        "evaluation": result["evaluation"],
        "tokens": {
            kind: sum(call.get(f"{kind}_tokens") or 0 for call in calls)
            for kind in ("input", "output", "cached", "reasoning")
        },
        "usd": sum(call.get("usd") or 0 for call in calls),
        "models": sorted({call["model"] for call in calls if "model" in call}),
    }


def _edits(material: Material) -> Iterator[Told]:
    """Yield an event for every edit of every batch; one for a batch that only says something."""
    found = {item.cycle: (node.id, item) for node in material.model.nodes for item in node.evidence}
    inserted = 0
    for entry, batch in _batches(material):
        whole = {
            "event": "edit",
            "round": entry["round"],
            "batch": entry["number"],
            "origin": entry["origin"],
            "accepted": entry["accepted"],
            "rejected_because": entry["reasons"],
            "note": entry["note"],
            "revision": entry["revision"],
            "evidence": [_evidence(*found[cycle]) for cycle in batch["cycles"] if cycle in found],
        }
        for number, edit in enumerate(batch["edits"] or [{"kind": "note"}], start=1):
            node = edit.get("node")
            if edit["kind"] == "insert" and entry["accepted"]:
                inserted += 1
                node = f"n{inserted}"
            reason = edit.get("reason") or batch["reason"]
            yield {**whole, "edit": number, "kind": edit["kind"], "node": node, "reason": reason, **edit_content(edit)}
        if batch["edits"] and batch["summary"] is not None:
            yield {**whole, "edit": 0, "kind": "summary", "node": None, "reason": batch["summary"]}


def _batches(material: Material) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each entry of the log with its batch, then the waiting ones with the numbers that they will have."""
    for entry in material.edits:
        yield entry, material.batches[entry["batch"]]
    last = material.edits[-1] if material.edits else {"number": 0, "round": 0}
    for number, batch in enumerate(material.waiting, start=last["number"] + 1):
        yield (
            {
                "number": number,
                "round": material.round,
                "origin": batch.origin,
                "accepted": True,
                "reasons": [],
                "note": "made when the search looks at its plan again",
                "revision": None,
            },
            batch.model_dump(mode="json"),
        )


def _evidence(node: str, evidence: Evidence) -> dict[str, Any]:
    kept = ("cycle", "attempts", "outcomes", "gain", "predicted_gain", "cause", "rule", "solution")
    data = evidence.model_dump(mode="json")
    return {"node": node, "objective": data["objective"], **{name: data[name] for name in kept}}


def _event(material: Material, event: Event) -> Told:
    """Return a thread's event at the round that was under way."""
    begun = [entry.key.round for entry in material.entries if entry.started_at <= event.at]
    told = {"event": event.kind, "round": max(begun, default=0), "at": event.at}
    if event.kind != "config":
        return {**told, **(event.data if isinstance(event.data, dict) else {"data": event.data})}
    before, after = (material.configs.get(event.data[name], {}) for name in ("before", "after"))
    return {**told, "changes": different(before, after)}


def different(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return key -> [before, after] of what is not equal."""
    keys = [*before, *(key for key in after if key not in before)]
    return {key: [before.get(key), after.get(key)] for key in keys if before.get(key) != after.get(key)}


def chronicle_lines(told: Iterable[Told], unit: str) -> Iterator[str]:
    """Yield one line for each event, for people; the round stands before the first one of it."""
    before = None
    for item in told:
        round_ = "" if item["round"] == before else f"round {item['round']}"
        before = item["round"]
        yield f"{round_:<12}{told_line(item, unit)}"


def told_line(item: Told, unit: str) -> str:
    """Return one event in one line."""
    if item["event"] == "attempt":
        return _attempt_line(item, unit)
    if item["event"] == "edit":
        return _edit_line(item, unit)
    if item["event"] == "config":
        return f"options: {_changed(item['changes'])}"
    if item["event"] == "branch":
        options = ", ".join(f"{key} = {one_line(str(value), 60)}" for key, value in item["options"].items())
        return f"branch of {item['parent']} at round {item['round']}" + (f": {options}" if options else "")
    return one_line(f"{item['event']}: " + ", ".join(f"{k} {v}" for k, v in item.items() if k not in _PLACE))


_PLACE = ("event", "round", "at")


def _changed(changes: Mapping[str, Sequence[Any]]) -> str:
    return one_line(", ".join(f"{key} {old} -> {new}" for key, (old, new) in changes.items()), 300)


def _attempt_line(item: Told, unit: str) -> str:
    figure = f" {shown(item['objective'], unit)}" if item["objective"] else ""
    tokens = item["tokens"]
    spent = f", {tokens['input']}+{tokens['output']} tokens" if tokens["input"] or tokens["output"] else ""
    message = f": {one_line(item['message'], 100)}" if item["message"] else ""
    return f"attempt {item['number']}  {item['node']} cycle {item['cycle']}: {item['status']}{figure}{spent}{message}"


def _edit_line(item: Told, unit: str) -> str:
    facts = f"edit {item['batch']}  {item['origin']} {edit_what(item)}"
    evidence = ", ".join(
        f"{seen['node']} {shown(seen['objective'], unit) if seen['objective'] else 'failed'}"
        for seen in item["evidence"]
    )
    reason = f": {one_line(item['reason'], 120)}" if item["reason"] else ""
    reason += f" (after {evidence})" if evidence else ""
    reason += f" ({one_line(item['note'], 100)})" if item["note"] and item["edit"] <= 1 else ""
    if not item["accepted"]:
        reason += f"  REJECTED: {one_line('; '.join(item['rejected_because']), 200)}"
    return facts + reason
