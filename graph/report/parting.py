"""Two runs side by side: where they part, what each found, how plans and programs differ. Pure."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluators.solution import Solution
from graph.report.chronicle import Material, Told, chronicle, different, told_line
from graph.report.figures import one_line
from graph.report.summary import Run, best, best_text, spend_text, summary

_WAYS = ("solution", "evaluation", "batch", "revision", "at")
"""What may differ between equal events, or is told by the rest of them."""


@dataclass(frozen=True)
class Side:
    """One of the two runs."""

    run: Run
    material: Material
    program: Solution | None
    """The incumbent's."""


def parting(one: Side, two: Side) -> dict[str, Any]:
    """Return the comparison as plain JSON: the format of `ksearch diff --json`."""
    sides = (one, two)
    logs = [[item for item in chronicle(side.material) if item["event"] in ("edit", "attempt")] for side in sides]
    same = _same(*logs)
    configs = [side.run.config.model_dump(mode="json") for side in sides]
    programs = [side.program for side in sides]
    return {
        "threads": [side.run.name for side in sides],
        "unit": one.run.unit,
        "common": common(one.run, two.run),
        "parts_at": next((log[same]["round"] for log in logs if len(log) > same), None),
        "equal_events": same,
        "options": different(configs[0], configs[1]),
        "found": [_found(side.run) for side in sides],
        "events": [log[same:] for log in logs],
        "nodes": _nodes(one.run, two.run),
        "programs": [None if item is None else item.model_dump(mode="json") for item in programs],
        "program_diff": _program_diff(one, two),
    }


def common(one: Run, two: Run) -> dict[str, Any] | None:
    """Return the run and the round up to which both share a past, None when they share none."""
    first, second = _origins(one), _origins(two)
    for uuid, (name, round_) in first.items():
        if uuid in second:
            return {"thread": name, "round": min(round_, second[uuid][1])}
    return None


def _origins(run: Run) -> dict[str, tuple[str, int]]:
    """Return uuid -> (name, last round that is part of this run's past), of the run and its ancestors."""
    last = run.snapshot.values.get("round", 0)
    found = {run.snapshot.thread.uuid: (run.name, last)}
    for place, name in run.ancestors:
        last = min(last, place.round)
        found[place.parent] = (name, last)
    return found


def _same(one: Sequence[Told], two: Sequence[Told]) -> int:
    """Return how many events both logs begin with."""
    count = 0
    for left, right in zip(one, two, strict=False):
        if _essence(left) != _essence(right):
            break
        count += 1
    return count


def _essence(item: Told) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in _WAYS}


def _found(run: Run) -> dict[str, Any]:
    facts = summary(run)
    kept = ("status", "stop", "round", "nodes")
    return {
        **{name: facts[name] for name in kept},
        "best": best(run),
        "best_text": best_text(run),
        "spend": {name: value for name, value in facts["spend"].items() if name not in ("by", "by_cycle", "by_node")},
    }


def _nodes(one: Run, two: Run) -> list[dict[str, Any]]:
    """Return the nodes that are not equal in both trees; None where a tree has none of that id."""
    left, right = one.model.by_id(), two.model.by_id()
    ids = [*left, *(node for node in right if node not in left)]
    return [
        {"node": name, "sides": [_told(one, name), _told(two, name)]}
        for name in ids
        if left.get(name) != right.get(name)
    ]


def _told(run: Run, name: str) -> dict[str, Any] | None:
    node = run.model.find(name)
    if node is None:
        return None
    reached = node.best(run.model.goal)
    objective = None if reached is None or reached.objective is None else reached.objective.model_dump()
    intent = node.intent
    return {"status": node.status, "title": intent.title, "priority": intent.priority, "objective": objective}


def _program_diff(one: Side, two: Side) -> list[str]:
    """Return the unified diff of the best programs' files, no lines when they are equal or one is missing."""
    if one.program is None or two.program is None:
        return []
    lines: list[str] = []
    for name in sorted({*one.program.files, *two.program.files}):
        before, after = (side.program.files.get(name, "").splitlines() for side in (one, two) if side.program)
        names = [f"{side.run.name}/{name}" for side in (one, two)]
        lines += difflib.unified_diff(before, after, names[0], names[1], lineterm="")
    return lines


def parting_lines(facts: Mapping[str, Any], width: int | None) -> Iterator[str]:
    """Yield the comparison for people; `width` is the terminal's, characters; None cuts nothing."""
    one, two = facts["threads"]
    yield _where(facts)
    for option, (left, right) in facts["options"].items():
        yield f"option {option}: {one_line(str(left), 60)} | {one_line(str(right), 60)}"
    for name, found in zip((one, two), facts["found"], strict=True):
        yield f"{name}: {found['status']}, round {found['round']}, {found['best_text']}"
        yield f"{name}: {spend_text(found['spend'])}"
    yield from _columns(facts, None if width is None else max((width - 3) // 2, 30))
    if facts["program_diff"]:
        yield ""
        yield from (one_line_kept(line) for line in facts["program_diff"])
    elif None not in facts["programs"]:
        yield "their best programs are equal"


def one_line_kept(line: str) -> str:
    """Return a line of a program as a terminal may be given it; its indentation stays."""
    return "".join(mark if mark.isprintable() or mark == "\t" else " " for mark in line)


def _where(facts: Mapping[str, Any]) -> str:
    one, two = facts["threads"]
    shared = facts["common"]
    past = (
        f"{one} and {two} share no past"
        if shared is None
        else f"{one} and {two} share the past of {shared['thread']} up to round {shared['round']}"
    )
    if facts["parts_at"] is None:
        return f"{past}; all that happened in them is equal"
    return f"{past}; the first difference is in round {facts['parts_at']}"


def _columns(facts: Mapping[str, Any], width: int | None) -> Iterator[str]:
    """Yield what happened after the parting, round by round, one run in each column, cut to `width`."""
    left, right = ([(item["round"], told_line(item, facts["unit"])) for item in log] for log in facts["events"])
    rounds = sorted({round_ for round_, _ in [*left, *right]})
    if width is None:
        width = max(len(text) for text in (facts["threads"][0], *(text for _, text in [*left, *right])))
    if rounds:
        yield f"{facts['threads'][0]:<{width}} | {facts['threads'][1]}"
    for round_ in rounds:
        yield f"-- round {round_} --"
        cells = [[text for at, text in side if at == round_] for side in (left, right)]
        for line in range(max(map(len, cells))):
            texts = [one_line(cell[line], width) if line < len(cell) else "" for cell in cells]
            yield f"{texts[0]:<{width}} | {texts[1]}".rstrip()
