"""A tree under change: gathers changes to one revision of the world model and commits them as the next."""

from collections.abc import Iterator
from typing import Any

from graph.world_model import ROOT, Intent, Node, Origin, WorldModel, check_place


class Draft:
    """The next revision in the making. The model it starts from is never changed.

    A full check of the tree takes time that grows with it, so only changes are checked, and what they can break: a new
    node gets the next id and an existing parent, so ids stay unique and parents stand before their children; a changed
    node keeps id and parent, is validated as a record, and its status is held against its parent's and its children's.
    """

    def __init__(self, model: WorldModel) -> None:
        """Start from `model`."""
        self._model = model
        self._nodes = model.by_id()
        self._next = model.next_node
        self._changed: set[str] = set()
        self._added: dict[str, list[str]] = {}
        """Parent -> children that the model does not have."""

    def find(self, node_id: str) -> Node | None:
        """Return the node as it is now, None when there is none."""
        return self._nodes.get(node_id)

    def node(self, node_id: str) -> Node:
        """Return the node as it is now. Raises KeyError when there is none."""
        return self._nodes[node_id]

    def nodes(self) -> Iterator[Node]:
        """Yield every node, oldest first."""
        yield from self._nodes.values()

    def children(self, parent: str) -> Iterator[Node]:
        """Yield the direct children of a node or of `root`, oldest first."""
        for node_id in (*self._model.child_ids().get(parent, ()), *self._added.get(parent, ())):
            yield self._nodes[node_id]

    def descendants(self, node_id: str) -> Iterator[Node]:
        """Yield everything below a node or `root`, parents before their children."""
        waiting = [node_id]
        while waiting:
            for child in self.children(waiting.pop()):
                yield child
                waiting.append(child.id)

    def add(self, parent: str, intent: Intent, origin: Origin) -> Node:
        """Add an open node with the next id. Raises KeyError when there is no such parent."""
        if parent != ROOT and parent not in self._nodes:
            raise KeyError(parent)
        node = Node(id=f"n{self._next}", parent=parent, intent=intent, origin=origin)
        self._next += 1
        self._added.setdefault(parent, []).append(node.id)
        self._nodes[node.id] = node
        self._changed.add(node.id)
        return node

    def change(self, node_id: str, **changes: Any) -> Node:
        """Change fields of a node other than id and parent. Raises pydantic.ValidationError for an illegal node."""
        old = self._nodes[node_id]
        node = Node.model_validate({**dict(old), **changes, "id": old.id, "parent": old.parent})
        self._nodes[node_id] = node
        self._changed.add(node_id)
        return node

    def retire_below(self, node_id: str, reason: str) -> None:
        """Prune every open node below `node_id`: they built on something that is gone."""
        for node in [node for node in self.descendants(node_id) if node.status == "open"]:
            self.change(node.id, status="pruned", reason=f"{node_id}: {reason}")

    def committed(self, **changes: Any) -> WorldModel:
        """Return the next revision, with fields of the tree other than its nodes set by `changes`.

        The values in `changes` must be valid already. Raises ValueError when the statuses do not go together.
        """
        for node_id in self._changed:
            node = self._nodes[node_id]
            check_place(node, self._nodes.get(node.parent))
            for child in self.children(node_id):
                check_place(child, node)
        return WorldModel.model_construct(
            goal=self._model.goal,
            revision=self._model.revision + 1,
            next_node=self._next,
            summary=changes.get("summary", self._model.summary),
            seed=changes.get("seed", self._model.seed),
            nodes=tuple(self._nodes.values()),
        )
