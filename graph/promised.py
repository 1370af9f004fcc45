"""What people say of a node before it stands in the tree, which gives it its number. Pure.

An edit waits until the search looks at its plan again. Until then a person sees the nodes that it inserts under numbers
that the planner's own may get first. So what is asked of one of them meanwhile is kept by a name of its own. When the
node is made, the log of edits keeps its id with that name, for what was said of it before and is heard later.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from graph.edits import Edit, EditBatch, Insert, apply_batch
from graph.world_model import WorldModel

_OWN = "this edit"
_NAME = re.compile(r"node \d+ of request (\d+)")


@dataclass
class Promises:
    """The nodes of the requests that have been looked at."""

    nodes: dict[str, str] = field(default_factory=dict)
    """Name of a node -> its id in the tree."""

    def placed(self, batch: EditBatch, next_node: int) -> EditBatch:
        """Return the batch with ids for names. A name of which nothing came stays, and no such node is found."""
        return _renamed(batch, {**self.nodes, **_inserted(batch, _OWN, next_node)})

    def named(self, batch: EditBatch, next_node: int) -> EditBatch:
        """Return the batch as it is recorded: with names for nodes that wait to be inserted."""
        promised = {**self.nodes, **_inserted(batch, _OWN, next_node)}
        return _renamed(batch, {node: name for name, node in promised.items()})


def inserted(batch: EditBatch, seq: int, next_node: int) -> dict[str, str]:
    """Return the nodes that request `seq` inserts, the first with the number `next_node`: id by name."""
    return _inserted(batch, f"request {seq}", next_node)


def names_until(batches: Iterable[EditBatch], seq: int) -> set[str]:
    """Return the names in recorded batches of nodes that requests up to number `seq` were to insert."""
    places = {edit.parent if isinstance(edit, Insert) else edit.node for batch in batches for edit in batch.edits}
    names = ((place, _NAME.fullmatch(place)) for place in places)
    return {place for place, name in names if name is not None and int(name[1]) <= seq}


def foreseen(
    model: WorldModel, requests: Sequence[tuple[int, EditBatch]], before: Mapping[str, str]
) -> tuple[WorldModel, list[EditBatch], Promises]:
    """Return the tree, the requests (given with their numbers) and the nodes as they would be with all made now.

    `before` are the nodes of requests that have been made, as far as these name them: id by name.
    """
    promises, batches = Promises(dict(before)), []
    for seq, recorded in requests:
        batch = promises.placed(recorded, model.next_node)
        verdict = apply_batch(model, batch)
        if verdict.model is not None:
            promises.nodes |= inserted(batch, seq, model.next_node)
            model = verdict.model
        batches.append(batch)
    return model, batches, promises


def _inserted(batch: EditBatch, whose: str, next_node: int) -> dict[str, str]:
    count = sum(isinstance(edit, Insert) for edit in batch.edits)
    return {f"node {at + 1} of {whose}": f"n{next_node + at}" for at in range(count)}


def _renamed(batch: EditBatch, names: Mapping[str, str]) -> EditBatch:
    return batch.model_copy(update={"edits": tuple(_edit(edit, names) for edit in batch.edits)})


def _edit(edit: Edit, names: Mapping[str, str]) -> Edit:
    if isinstance(edit, Insert):
        return edit.model_copy(update={"parent": names.get(edit.parent, edit.parent)})
    return edit.model_copy(update={"node": names.get(edit.node, edit.node)})
