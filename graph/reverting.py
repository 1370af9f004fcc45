"""Undoing one edit batch by another one: what it inserted is pruned, what it changed is changed back. Pure.

Nothing is unwritten: the batch, what became of it and its undoing all stay in the log. What has been worked on since
cannot be undone, and what was changed again since is left as it is; the notes say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graph.edits import Attach, Edit, EditBatch, Insert, Pin, Prune, Reopen, Update
from graph.world_model import Node, WorldModel

_Step = tuple[Edit, str, dict[str, Any]]
"""An edit, the node it is about, and what was said of the node before it."""
_FIELDS = ("priority", "title", "description", "rationale", "difficulty", "predicted_gain", "confidence")


@dataclass(frozen=True)
class Undoing:
    """The batch that undoes another one; no edits when nothing can be undone."""

    batch: EditBatch
    notes: tuple[str, ...] = ()
    """What is left as it is, and why."""


@dataclass
class _Past:
    """What people and planners have said of the nodes until some batch."""

    said: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Node -> its intent's fields, `pinned` and `program`."""
    summary: str = ""

    def take(self, batch: EditBatch) -> list[_Step]:
        """Bring the past forward by an accepted batch; return (edit, node, what was said of it before) each."""
        steps: list[_Step] = []
        for edit in batch.edits:
            if isinstance(edit, Insert):
                node = f"n{len(self.said) + 1}"
                self.said[node] = {**edit.intent.model_dump(), "pinned": False, "program": edit.program}
                steps.append((edit, node, {}))
                continue
            before = self.said[edit.node]
            self.said[edit.node] = {**before, **edit.model_dump(exclude={"kind", "node", "reason"}, exclude_none=True)}
            if isinstance(edit, Attach):
                self.said[edit.node]["program"] = edit.program
            steps.append((edit, edit.node, before))
        self.summary = self.summary if batch.summary is None else batch.summary
        return steps


def undo(model: WorldModel, accepted: Mapping[int, EditBatch], number: int) -> Undoing:
    """Return what undoes batch `number`.

    Args:
        model: The tree as it is now.
        accepted: Every batch that was committed, by its number, oldest first.
        number: The batch to undo; it must be among them.
    """
    past = _Past()
    steps: list[_Step] = []
    summary = ""
    for at, batch in accepted.items():
        if at > number:
            break
        summary = past.summary
        steps = past.take(batch)
    edits: list[Edit] = []
    notes: list[str] = []
    for edit, node_id, before in reversed(_joined(steps)):
        found = _undone(model, edit, model.node(node_id), before)
        edits += found if isinstance(found, list) else []
        notes += [found] if isinstance(found, str) else []
    said = accepted[number].summary
    back = summary if said is not None and said == model.summary and said != summary else None
    reason = f"undoes edit {number}"
    return Undoing(EditBatch(origin="human", reason=reason, summary=back, edits=tuple(edits)), tuple(notes))


def _joined(steps: list[_Step]) -> list[_Step]:
    """Return the steps with several updates of one node as one: what it said before the first, and says at last."""
    joined: list[_Step] = []
    updates: dict[str, int] = {}
    for edit, node, before in steps:
        if isinstance(edit, Update) and node in updates:
            first, _, earliest = joined[updates[node]]
            said = {**first.model_dump(exclude_none=True), **edit.model_dump(exclude_none=True)}
            joined[updates[node]] = (Update.model_validate(said), node, earliest)
            continue
        if isinstance(edit, Update):
            updates[node] = len(joined)
        joined.append((edit, node, before))
    return joined


def _undone(model: WorldModel, edit: Edit, node: Node, before: Mapping[str, Any]) -> list[Edit] | str:
    """Return the edits that undo one, or why it is left as it is."""
    match edit:
        case Insert() | Reopen():
            return _taken_out(node, "insertion" if isinstance(edit, Insert) else "re-opening")
        case Update():
            return _changed_back(edit, node, before)
        case Prune():
            return _put_back(model, edit, node)
        case Pin():
            return [Pin(node=node.id, pinned=before["pinned"])] if node.pinned != before["pinned"] else []
        case Attach():
            if node.status != "open" or node.program != edit.program:
                return f"{node.id} is {node.status}: its program stays"
            return [Attach(node=node.id, program=before["program"])]


def _taken_out(node: Node, what: str) -> list[Edit] | str:
    if node.status == "pruned":
        return f"{node.id} is pruned already"
    if node.status != "open":
        return f"{node.id} is {node.status}: it has been worked on"
    return [Prune(node=node.id, reason=f"its {what} is undone")]


def _changed_back(edit: Update, node: Node, before: Mapping[str, Any]) -> list[Edit] | str:
    if node.status != "open":
        return f"{node.id} is {node.status}: what it says stays"
    changes, left = {}, []
    said, stands = edit.model_dump(), node.intent.model_dump()
    for name in _FIELDS:
        value = said[name]
        if value is None or value == before[name]:
            continue
        if stands[name] != value:
            left.append(f"{name} has been changed again")
        elif before[name] is None:
            left.append(f"{name} had not been set")
        else:
            changes[name] = before[name]
    if not changes:
        return f"{node.id}: {', '.join(left)}" if left else []
    return [Update.model_validate({"node": node.id, **changes})]


def _put_back(model: WorldModel, edit: Prune, node: Node) -> list[Edit] | str:
    if node.status != "pruned":
        return f"{node.id} is {node.status}, not pruned any more"
    below = [item for item in model.descendants(node.id) if item.reason == f"{node.id}: {edit.reason}"]
    pruned = [node, *(item for item in below if item.status == "pruned")]
    return [
        Reopen(node=item.id, description=item.intent.description or item.intent.title, reason="its pruning is undone")
        for item in pruned
    ]
