"""Edits of the plan in words, one line each, for logs, reviews and people who make them. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from graph.edits import EditBatch
from graph.world_model import ROOT

_CHANGES = ("title", "priority", "difficulty", "predicted_gain", "confidence", "description", "rationale")


def one_line(text: str, limit: int = 160) -> str:
    """Return `text` in one printable line: it may come from a model or a compiler and end up on a terminal."""
    line = " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def counted(number: int, noun: str) -> str:
    """Return "1 edit", "2 edits"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def edit_words(batch: EditBatch, next_node: int) -> Iterator[str]:
    """Yield what a batch will do, one line for each edit; `next_node` is the number of the node it inserts first."""
    for edit in batch.model_dump(mode="json")["edits"]:
        node = edit.get("node")
        if edit["kind"] == "insert":
            node, next_node = f"n{next_node}", next_node + 1
        yield edit_what({"kind": edit["kind"], "node": node, **edit_content(edit)})
    if batch.summary is not None:
        yield "changes the planner's notes"


def edit_content(edit: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an edit says beside its kind, node and reason."""
    if edit["kind"] == "insert":
        changes = {name: edit["intent"].get(name) for name in _CHANGES}
        return {"parent": edit["parent"], "changes": {**changes, "program": edit.get("program")}}
    values = {name: edit[name] for name in _CHANGES if edit.get(name) is not None}
    values |= {name: edit[name] for name in ("pinned", "program") if name in edit}
    return {"changes": values}


def edit_what(item: Mapping[str, Any]) -> str:
    """Return what an edit does, from its `kind`, its `node` and what `edit_content` gives."""
    kind, node, changes = item["kind"], item["node"], item.get("changes", {})
    if kind == "insert":
        where = "under the root" if item["parent"] == ROOT else f"under {item['parent']}"
        title = one_line(changes["title"], 80)
        given = " with a program" if changes.get("program") else ""
        return f"inserts {node or 'a node'} {where}{given}, V {changes['priority']:.2f}, {title!r}"
    if kind == "update":
        return f"updates {node}, {one_line(', '.join(f'{key} {value}' for key, value in changes.items()), 120)}"
    if kind == "pin":
        return f"{'pins' if changes.get('pinned') else 'unpins'} {node}"
    if kind == "attach":
        return f"gives {node} a program" if changes.get("program") else f"takes the program of {node} away"
    words = {"prune": "prunes", "reopen": "re-opens", "summary": "notes", "note": "changes nothing"}
    return f"{words.get(kind, kind)} {node or ''}".rstrip()
