"""The tree as a planner sees it: whole, or with whole nodes left out by a stated rule. No text is ever cut."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from graph.world_model import ROOT, Evidence, Node, NodeStatus, WorldModel, best_evidence

_ORDER: tuple[NodeStatus, ...] = ("open", "active", "closed", "failed", "pruned")


@dataclass(frozen=True)
class TreeView:
    """What is shown of a tree."""

    total: int
    """Nodes of the tree."""
    shown: dict[NodeStatus, list[str]]
    """Status -> the text of each node, oldest first; open nodes first."""
    dropped: dict[NodeStatus, int]
    """Status -> how many nodes are left out, for the statuses of which any may be."""

    @property
    def left_out(self) -> int:
        """How many nodes are not shown."""
        return sum(self.dropped.values())


def tree_view(model: WorldModel, text: Callable[[Node], str], limit: int) -> TreeView:
    """Return the tree in about `limit` characters.

    Nodes are left out until the rest fits: pruned ones, oldest first; then failed ones; then closed ones that lead to
    no open or active node and not to the best program. What is left is shown, even above the limit.
    """
    texts = {node.id: text(node) for node in model.nodes}
    size = sum(map(len, texts.values()))
    dropped: dict[NodeStatus, int] = {"pruned": 0, "failed": 0, "closed": 0}
    for node in _droppable(model):
        if size <= limit:
            break
        size -= len(texts.pop(node.id))
        dropped[node.status] += 1
    shown: dict[NodeStatus, list[str]] = {status: [] for status in _ORDER}
    for node in model.nodes:
        if node.id in texts:
            shown[node.status].append(texts[node.id])
    return TreeView(len(model.nodes), shown, dropped)


def attempts(node: Node) -> int:
    """Return how many programs were written for a node."""
    return sum(len(item.attempts) for item in node.evidence)


def best_node(model: WorldModel) -> str:
    """Return the id of the node with the best program, `root` for the seed or when nothing has passed."""
    best: tuple[str, Evidence | None] = (ROOT, model.seed)
    for node in model.nodes:
        found = node.best(model.goal)
        if found is None:
            continue
        known = () if best[1] is None else (best[1],)
        if best_evidence((*known, found), model.goal) is found:
            best = (node.id, found)
    return best[0]


def _droppable(model: WorldModel) -> Iterator[Node]:
    for status in ("pruned", "failed"):
        yield from (node for node in model.nodes if node.status == status)
    kept = _leading_on(model)
    yield from (node for node in model.nodes if node.status == "closed" and node.id not in kept)


def _leading_on(model: WorldModel) -> set[str]:
    """Return the nodes on the paths from the root to open and active nodes and to the best program."""
    kept: set[str] = set()
    ends = [node.id for node in model.nodes if node.status in ("open", "active")]
    for end in [*ends, best_node(model)]:
        while end != ROOT and end not in kept:
            kept.add(end)
            end = model.node(end).parent
    return kept
