"""Edits of the world model: the only way in which a planner or a person changes the tree.

A batch is applied to a copy, validated as a whole, and either committed or rejected with reasons. No edit can write
evidence, a status other than by Prune and Reopen, an id, or another node's parent.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from evaluators.objective import Record
from graph.draft import Draft
from graph.world_model import ROOT, Intent, Node, Origin, WorldModel

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Insert(Record):
    """Add an open node under the root, an open or a closed node."""

    kind: Literal["insert"] = "insert"
    parent: str
    intent: Intent
    program: Digest | None = None
    """Blob of a program to begin with. People only."""


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


class Attach(Record):
    """Give an open node a program to begin with, or take it away again. People only."""

    kind: Literal["attach"] = "attach"
    node: str
    program: Digest | None


Edit = Annotated[Insert | Update | Prune | Reopen | Pin | Attach, Field(discriminator="kind")]


class EditBatch(Record):
    """Edits that belong together, with why they were made."""

    origin: Origin
    reason: str = Field(default="", max_length=8000)
    cycles: tuple[int, ...] = ()
    """Cycles whose evidence led to the batch."""
    summary: str | None = Field(default=None, max_length=20000)
    """New notes in place of the world model's; None leaves them."""
    edits: tuple[Edit, ...] = Field(default=(), max_length=200)


@dataclass(frozen=True)
class Verdict:
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
    draft = Draft(model)
    reasons = []
    for number, edit in enumerate(batch.edits, start=1):
        problem = _apply(draft, edit, batch.origin)
        if problem:
            reasons.append(f"edit {number} ({edit.kind}): {problem}")
    if reasons:
        return Verdict(model=None, reasons=tuple(reasons))
    summary = model.summary if batch.summary is None else batch.summary
    return Verdict(model=draft.committed(summary=summary))


def _apply(draft: Draft, edit: Edit, origin: Origin) -> str | None:
    """Make one edit and return None, or return why it cannot be made."""
    if isinstance(edit, Insert):
        return _insert(draft, edit, origin)
    node = draft.find(edit.node)
    if edit.node == ROOT:
        return "the root stands for the seed program and stays as it is: name a node"
    if node is None:
        return f"there is no node {edit.node!r}; {_existing(draft)}"
    if node.pinned and origin != "human":
        return f"node {node.id} is pinned by a person"
    match edit:
        case Update():
            problem = _update(draft, edit, node)
        case Prune():
            problem = _prune(draft, edit, node, origin)
        case Reopen():
            problem = _reopen(draft, edit, node, origin)
        case Pin():
            problem = _pin(draft, edit, node, origin)
        case Attach():
            problem = _attach(draft, edit, node, origin)
    return problem


def _existing(draft: Draft) -> str:
    shown = [node.id for node in draft.nodes() if node.status in ("open", "closed")][-20:]
    return f"the latest open and closed nodes are {', '.join(shown)}" if shown else "no node is open or closed"


def _insert(draft: Draft, edit: Insert, origin: Origin) -> str | None:
    if edit.parent != ROOT:
        parent = draft.find(edit.parent)
        if parent is None:
            return f"there is no node {edit.parent!r}; {_existing(draft)}"
        if parent.status not in ("open", "closed"):
            return f"node {parent.id} is {parent.status}; insert under the root, an open or a closed node"
    title = edit.intent.title.casefold().strip()
    for sibling in draft.children(edit.parent):
        if sibling.intent.title.casefold().strip() == title and sibling.status != "pruned":
            return f"{edit.parent} already has the intent {edit.intent.title!r} as {sibling.id} ({sibling.status})"
    if edit.program is not None and origin != "human":
        return "only a person can give a node a program"
    node = draft.add(edit.parent, edit.intent, origin)
    if edit.program is not None:
        draft.change(node.id, program=edit.program)
    return None


def _update(draft: Draft, edit: Update, node: Node) -> str | None:
    if node.status != "open":
        return f"node {node.id} is {node.status}; only open nodes can be updated"
    changes = edit.model_dump(exclude={"kind", "node"}, exclude_none=True)
    if not changes:
        return f"node {node.id}: nothing to change"
    draft.change(node.id, intent=_revised(node.intent, **changes))
    return None


def _revised(intent: Intent, **changes: Any) -> Intent:
    return Intent.model_validate({**dict(intent), **changes})


def _prune(draft: Draft, edit: Prune, node: Node, origin: Origin) -> str | None:
    if node.status != "open":
        return f"node {node.id} is {node.status}; only open nodes can be pruned"
    if not edit.reason.strip():
        return f"node {node.id}: pruning needs a reason"
    if origin != "human":
        for below in draft.descendants(node.id):
            if below.pinned and below.status == "open":
                return f"node {node.id}: {below.id} below it is pinned by a person"
    draft.change(node.id, status="pruned", reason=edit.reason)
    draft.retire_below(node.id, edit.reason)
    return None


def _reopen(draft: Draft, edit: Reopen, node: Node, origin: Origin) -> str | None:
    if node.status not in ("failed", "pruned"):
        return f"node {node.id} is {node.status}; only failed and pruned nodes can be re-opened"
    if node.parent != ROOT and draft.node(node.parent).status not in ("open", "closed"):
        return f"node {node.id}: its parent {node.parent} is {draft.node(node.parent).status}"
    refused = None if origin == "human" else _not_for_the_planner(edit, node)
    if refused is None:
        intent = _revised(node.intent, description=edit.description)
        reopened = node.reopened + (origin != "human")
        draft.change(node.id, status="open", reason="", intent=intent, reopened=reopened)
    return refused


def _not_for_the_planner(edit: Reopen, node: Node) -> str | None:
    if any(evidence.rule for evidence in node.evidence):
        return f"node {node.id} is quarantined: an integrity rule fired; only a person can re-open it"
    if node.reopened:
        return f"node {node.id} was re-opened before"
    if edit.description.strip() == node.intent.description.strip():
        return f"node {node.id}: re-opening needs a changed description"
    return None


def _pin(draft: Draft, edit: Pin, node: Node, origin: Origin) -> str | None:
    if origin != "human":
        return "only a person can pin a node"
    draft.change(node.id, pinned=edit.pinned)
    return None


def _attach(draft: Draft, edit: Attach, node: Node, origin: Origin) -> str | None:
    if origin != "human":
        return "only a person can give a node a program"
    if node.status != "open":
        return f"node {node.id} is {node.status}; a program can be given to open nodes, or to a new one below"
    draft.change(node.id, program=edit.program)
    return None
