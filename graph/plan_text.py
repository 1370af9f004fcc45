"""The plan as a text that people edit (TOML, a table for each node), and the edits that a changed text amounts to.

Every field that may be changed stands in it. Taking a table out changes nothing, so a text may hold a part of the plan.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from evaluators.errors import UsageError
from evaluators.invalid import first_problem
from graph.edits import Edit, EditBatch, Insert, Pin, Prune, Reopen, Update
from graph.world_model import ROOT, Intent, Node, WorldModel

_INTENT = ("title", "priority", "difficulty", "predicted_gain", "confidence", "description", "rationale")
_FIXED = ("parent", "status", "reason", "pinned")
_HEAD = """\
# The plan of {name}. Change it, save, and close the editor; without a change nothing happens.
#   title, priority, ...       of an open node may be changed
#   status = "pruned"          takes an open node, and what is below it, out; give a reason
#   status = "open"            puts a failed or pruned node back
#   pinned = true              this node is worked on first, and the planner leaves it alone
#   [new] or [new-2], ...      a table of your own inserts a node: parent, title, priority, description
# Nodes that are active or closed are shown for reading; only `pinned` of them can be changed.
# What the search has changed meanwhile is not taken back: `base` tells which plan the text was written from.
"""


def plan_text(model: WorldModel, name: str, base: str = "") -> str:
    """Return the plan of the run `name` as text; `base` is where it is found again when the text is read."""
    return "\n".join([_HEAD.format(name=name), *_lines(model, base)]) + "\n"


def base_of(text: str) -> str:
    """Return the base that stands in a text, nothing when there is none. Raises UsageError: it is no TOML."""
    return _text(_tables(text).get("base", ""), "base")


def _tables(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"the plan is not TOML any more: {error}") from error


def _lines(model: WorldModel, base: str) -> Iterator[str]:
    if base:
        yield f"base = {_quoted(base)}"
    yield f"reason = {_quoted('')}  # why you change the plan"
    yield f"summary = {_quoted(model.summary)}"
    for node in model.nodes:
        yield f"\n[{node.id}]"
        for key, value in _fields(node).items():
            if value is not None:
                yield f"{key} = {_quoted(value) if isinstance(value, str) else json.dumps(value)}"


def _fields(node: Node) -> dict[str, Any]:
    intent = node.intent.model_dump()
    fixed = {"parent": node.parent, "status": node.status, "reason": node.reason, "pinned": node.pinned}
    return {**fixed, **{key: intent[key] for key in _INTENT}}


def _quoted(text: str) -> str:
    """Return `text` as TOML: over several lines where it has some and that is possible."""
    plain = text.replace("\n", "").isprintable() and '"""' not in text and "\\" not in text and not text.endswith('"')
    if "\n" in text and plain:
        return f'"""\n{text}"""'
    return "".join(mark if mark.isprintable() else f"\\U{ord(mark):08X}" for mark in _escaped(text)).join('""')


def _escaped(text: str) -> str:
    for mark, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(mark, written)
    return text


def read_plan(text: str, model: WorldModel) -> EditBatch:
    """Return the edits that lead from `model` to what the text says.

    Raises:
        UsageError: it is no TOML, names what does not exist, or changes what cannot be changed; says where.
    """
    tables = _tables(text)
    tables.pop("base", None)
    reason = _text(tables.pop("reason", ""), "reason")
    summary = _text(tables.pop("summary", model.summary), "summary")
    edits: list[Edit] = []
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f"{name}: is neither `reason`, `summary` nor a node's table")
        try:
            edits += _inserted(name, table) if name.startswith("new") else _changed(name, table, model, reason)
        except ValidationError as error:
            raise UsageError(f"[{name}] {first_problem(error)}") from error
    return EditBatch(
        origin="human",
        reason=reason,
        summary=None if summary == model.summary else summary,
        edits=tuple(edits),
    )


def needed(batch: EditBatch, model: WorldModel) -> EditBatch:
    """Return the batch without what is as it says already."""
    edits = tuple(edit for edit in batch.edits if not _holds(edit, model))
    summary = None if batch.summary == model.summary else batch.summary
    return batch.model_copy(update={"edits": edits, "summary": summary})


def _holds(edit: Edit, model: WorldModel) -> bool:
    node = None if isinstance(edit, Insert) else model.find(edit.node)
    if node is None:
        return False
    match edit:
        case Update():
            return edit.model_dump(exclude={"kind", "node"}, exclude_none=True).items() <= dict(node.intent).items()
        case Pin():
            return node.pinned == edit.pinned
        case Prune():
            return node.status == "pruned"
        case _:
            return False


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name}: is a text")
    return value


def _inserted(name: str, table: Mapping[str, Any]) -> list[Edit]:
    _known(name, table, ("parent", *_INTENT, "settings"))
    intent = {"priority": 1.0, **{key: value for key, value in table.items() if key != "parent"}}
    return [Insert(parent=table.get("parent", ROOT), intent=Intent.model_validate(intent, strict=False))]


def _changed(name: str, table: Mapping[str, Any], model: WorldModel, why: str) -> list[Edit]:
    node = model.find(name)
    if node is None:
        raise UsageError(f"[{name}]: there is no such node; a node of your own is called [new]")
    _known(name, table, (*_FIXED, *_INTENT))
    before = _fields(node)
    changes = {key: value for key, value in table.items() if value != before[key]}
    if "parent" in changes:
        raise UsageError(f"[{name}] parent: a node stays where it is; insert another one instead")
    edits: list[Edit] = []
    if "pinned" in changes:
        edits.append(Pin(node=name, pinned=changes.pop("pinned")))
    status, reason = changes.pop("status", node.status), changes.pop("reason", "")
    if status == "open" and node.status in ("failed", "pruned"):
        description = changes.pop("description", node.intent.description) or node.intent.title
        edits.append(Reopen(node=name, description=description, reason=reason or why))
    elif status == "pruned" and node.status != "pruned":
        return [*edits, Prune(node=name, reason=reason or why or "pruned by hand")]
    elif status != node.status:
        raise UsageError(f"[{name}] status: {node.status} cannot become {status}; people prune and re-open")
    if changes:
        edits.append(Update.model_validate({"node": name, **changes}))
    return edits


def _known(name: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in table:
        if key not in keys:
            raise UsageError(f"[{name}] {key}: is unknown; a node has {', '.join(keys)}")
