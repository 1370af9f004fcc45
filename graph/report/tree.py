"""The world model for people: one line per node, children below their parent, and as JSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graph.report.figures import one_line, quantity
from graph.world_model import ROOT, Node, NodeStatus, WorldModel


@dataclass(frozen=True)
class Row:
    """One node as it is drawn."""

    guides: str
    """Lines of the tree before it."""
    mark: str
    """Id, with a star for the incumbent's node."""
    status: NodeStatus | None
    """None for the root."""
    facts: str
    """V, figure and gain over the parent."""
    title: str
    reason: str
    """Why it failed or was pruned."""

    @property
    def text(self) -> str:
        """The row without colours."""
        parts = [self.mark, self.status or "", self.facts, self.title, f"[{self.reason}]" if self.reason else ""]
        return self.guides + "  ".join(part for part in parts if part)


def tree_rows(model: WorldModel, incumbent: str | None, unit: str) -> Iterator[Row]:
    """Yield the root and every node, parents before children, siblings by age.

    Args:
        model: The tree.
        incumbent: Id of the incumbent's node, None when there is none.
        unit: Unit of the objective.
    """
    yield _root(model, incumbent, unit)
    children: dict[str, list[Node]] = {}
    for node in model.nodes:
        children.setdefault(node.parent, []).append(node)
    # A stack instead of recursion: a lineage may be longer than Python's stack.
    waiting = _below(children.get(ROOT, []), "")
    while waiting:
        node, guides, last = waiting.pop()
        yield _row(model, node, guides + ("└╴" if last else "├╴"), incumbent, unit)
        waiting += _below(children.get(node.id, []), guides + ("  " if last else "│ "))


def _below(nodes: list[Node], guides: str) -> list[tuple[Node, str, bool]]:
    """Return siblings as the stack wants them: the first one on top."""
    return [(node, guides, node is nodes[-1]) for node in reversed(nodes)]


def _root(model: WorldModel, incumbent: str | None, unit: str) -> Row:
    objective = None if model.seed is None else model.seed.objective
    if objective is not None:
        return Row("", _mark(ROOT, incumbent), None, quantity(objective.value, unit), "seed program", "")
    return Row("", _mark(ROOT, incumbent), None, "nothing to start from" if model.revision else "no plan yet", "", "")


def _row(model: WorldModel, node: Node, guides: str, incumbent: str | None, unit: str) -> Row:
    facts = [f"V {node.intent.priority:.2f}"] if node.status in ("open", "active") else []
    best = node.best(model.goal)
    if best is not None and best.objective is not None:
        facts.append(quantity(best.objective.value, unit))
        if best.gain is not None:
            facts.append(f"({best.gain:.2f}x its parent)")
    if node.pinned:
        facts.append("pinned")
    return Row(
        guides=guides,
        mark=_mark(node.id, incumbent),
        status=node.status,
        facts=" ".join(facts),
        title=one_line(node.intent.title),
        reason=one_line(node.reason),
    )


def _mark(node: str, incumbent: str | None) -> str:
    return f"{node}*" if node == incumbent else node


def tree_json(model: WorldModel, incumbent: str | None) -> dict[str, Any]:
    """Return the tree as plain JSON: every node whole, with its best figure and gain beside its evidence."""
    return {
        "goal": model.goal,
        "revision": model.revision,
        "summary": model.summary,
        "incumbent": incumbent,
        "seed": None if model.seed is None else model.seed.model_dump(mode="json"),
        "frontier": [node.id for node in model.frontier()],
        "nodes": [_node(model, node) for node in model.nodes],
    }


def _node(model: WorldModel, node: Node) -> dict[str, Any]:
    best = node.best(model.goal)
    objective = None if best is None or best.objective is None else best.objective.model_dump()
    return {
        **node.model_dump(mode="json"),
        "objective": objective,
        "gain": None if best is None else best.gain,
        "solution": None if best is None else best.solution,
    }
