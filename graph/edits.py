"""Edits of the world model: the only way in which a planner or a person changes the tree.

A batch is applied to a copy, validated as a whole, and either committed or rejected with reasons. No edit can write
evidence, a status other than by Prune and Reopen, an id, or another node's parent.
"""

from typing import Annotated, Literal

from pydantic import Field

from evaluators.objective import Record
from graph.world_model import ROOT, Intent, Node, Origin, WorldModel, rebuilt


class Insert(Record):
    """Add an open node under the root, an open or a closed node."""

    kind: Literal["insert"] = "insert"
    parent: str
    intent: Intent


class Update(Record):
    """Change what an open node says; fields left out stay."""

    kind: Literal["update"] = "update"
    node: str
    priority: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    title: str | None = Field(default=None, min_length=1, max_length=160)
    description: str | None = Field(default=None, max_length=8000)
    rationale: str | None = Field(default=None, max_length=8000)
    difficulty: int | None = Field(default=None, ge=1, le=5)
    predicted_gain: float | None = Field(default=None, gt=0, le=1e6, allow_inf_nan=False)
    confidence: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)


class Prune(Record):
    """Take an open node, and the open nodes below it, out of the search."""

    kind: Literal["prune"] = "prune"
    node: str
    reason: str = Field(min_length=1, max_length=2000)


class Reopen(Record):
    """Put a failed or pruned node back, with a changed description. The planner may do it once per node."""

    kind: Literal["reopen"] = "reopen"
    node: str
    description: str = Field(min_length=1, max_length=8000)
    reason: str = Field(default="", max_length=2000)


class Pin(Record):
    """Pin or unpin a node: it is selected first and the planner cannot touch it. People only."""

    kind: Literal["pin"] = "pin"
    node: str
    pinned: bool = True


Edit = Annotated[Insert | Update | Prune | Reopen | Pin, Field(discriminator="kind")]


class EditBatch(Record):
    """Edits that belong together, with why they were made."""

    origin: Origin
    reason: str = Field(default="", max_length=8000)
    cycles: tuple[int, ...] = ()
    """Cycles whose evidence led to the batch."""
    summary: str | None = Field(default=None, max_length=20000)
    """New notes in place of the world model's; None leaves them."""
    edits: tuple[Edit, ...] = Field(default=(), max_length=200)


class Verdict(Record):
    """What became of a batch: the new tree, or the reasons for which nothing was changed."""

    model: WorldModel | None
    reasons: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether the batch was committed."""
        return self.model is not None


def apply_batch(model: WorldModel, batch: EditBatch) -> Verdict:
    """Return the tree after the whole batch, or every reason for which the batch is rejected.

    `model` is never changed. Later edits of the batch see the earlier ones.
    """
    reasons: list[str] = []
    draft = model
    for number, edit in enumerate(batch.edits, start=1):
        step = _apply(draft, edit, batch.origin)
        if isinstance(step, str):
            reasons.append(f"edit {number} ({edit.kind}): {step}")
        else:
            draft = step
    if reasons:
        return Verdict(model=None, reasons=tuple(reasons))
    summary = model.summary if batch.summary is None else batch.summary
    return Verdict(model=rebuilt(draft, revision=model.revision + 1, summary=summary))


def _apply(model: WorldModel, edit: Edit, origin: Origin) -> WorldModel | str:
    if isinstance(edit, Insert):
        return _insert(model, edit, origin)
    node = model.find(edit.node)
    if node is None:
        return f"there is no node {edit.node!r}; {_existing(model)}"
    if node.pinned and origin != "human":
        return f"node {node.id} is pinned by a person"
    match edit:
        case Update():
            result = _update(model, edit, node)
        case Prune():
            result = _prune(model, edit, node)
        case Reopen():
            result = _reopen(model, edit, node, origin)
        case Pin():
            result = _pin(model, edit, node, origin)
    return result


def _existing(model: WorldModel) -> str:
    shown = [node.id for node in model.nodes if node.status in ("open", "closed")][-20:]
    return f"open and closed nodes are {', '.join(shown)}" if shown else "the tree has only the root"


def _insert(model: WorldModel, edit: Insert, origin: Origin) -> WorldModel | str:
    if edit.parent != ROOT:
        parent = model.find(edit.parent)
        if parent is None:
            return f"there is no node {edit.parent!r}; {_existing(model)}"
        if parent.status not in ("open", "closed"):
            return f"node {parent.id} is {parent.status}; insert under the root, an open or a closed node"
    title = edit.intent.title.casefold().strip()
    for sibling in model.children(edit.parent):
        if sibling.intent.title.casefold().strip() == title and sibling.status != "pruned":
            return f"{edit.parent} already has the intent {edit.intent.title!r} as {sibling.id} ({sibling.status})"
    node = Node(id=f"n{model.next_node}", parent=edit.parent, intent=edit.intent, origin=origin)
    return rebuilt(model, next_node=model.next_node + 1, nodes=(*model.nodes, node))


def _update(model: WorldModel, edit: Update, node: Node) -> WorldModel | str:
    if node.status != "open":
        return f"node {node.id} is {node.status}; only open nodes can be updated"
    changes = edit.model_dump(exclude={"kind", "node"}, exclude_none=True)
    if not changes:
        return f"node {node.id}: nothing to change"
    return _replace(model, node, intent=Intent(**{**node.intent.model_dump(), **changes}))


def _prune(model: WorldModel, edit: Prune, node: Node) -> WorldModel | str:
    if node.status != "open":
        return f"node {node.id} is {node.status}; only open nodes can be pruned"
    if not edit.reason.strip():
        return f"node {node.id}: pruning needs a reason"
    return retired(_replace(model, node, status="pruned", reason=edit.reason), node.id, edit.reason)


def _reopen(model: WorldModel, edit: Reopen, node: Node, origin: Origin) -> WorldModel | str:
    if node.status not in ("failed", "pruned"):
        return f"node {node.id} is {node.status}; only failed and pruned nodes can be re-opened"
    if node.parent != ROOT and model.node(node.parent).status not in ("open", "closed"):
        return f"node {node.id}: its parent {node.parent} is {model.node(node.parent).status}"
    if origin != "human":
        if any(evidence.rule for evidence in node.evidence):
            return f"node {node.id} is quarantined: an integrity rule fired; only a person can re-open it"
        if node.reopened:
            return f"node {node.id} was re-opened before"
        if edit.description.strip() == node.intent.description.strip():
            return f"node {node.id}: re-opening needs a changed description"
    intent = Intent(**{**node.intent.model_dump(), "description": edit.description})
    return _replace(model, node, status="open", reason="", intent=intent, reopened=node.reopened + (origin != "human"))


def _pin(model: WorldModel, edit: Pin, node: Node, origin: Origin) -> WorldModel | str:
    if origin != "human":
        return "only a person can pin a node"
    return _replace(model, node, pinned=edit.pinned)


def retired(model: WorldModel, node_id: str, reason: str) -> WorldModel:
    """Return the tree with every open node below `node_id` pruned: they built on something that is gone."""
    below = [node for node in model.descendants(node_id) if node.status == "open"]
    changed = {node.id: replaced(node, status="pruned", reason=f"{node_id}: {reason}") for node in below}
    return rebuilt(model, nodes=tuple(changed.get(node.id, node) for node in model.nodes)) if changed else model


def replaced(node: Node, **changes: object) -> Node:
    """Return `node` with fields replaced, validated."""
    fields = {name: getattr(node, name) for name in Node.model_fields}
    return Node(**{**fields, **changes})


def _replace(model: WorldModel, node: Node, **changes: object) -> WorldModel:
    new = replaced(node, **changes)
    return rebuilt(model, nodes=tuple(new if old.id == node.id else old for old in model.nodes))
