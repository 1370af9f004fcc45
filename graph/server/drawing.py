"""A plan as a drawing: where each node stands. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from evaluators.objective import Record
from graph.report.figures import one_line, quantity
from graph.world_model import ROOT, Node, WorldModel

COLUMN, ROW = 26, 24
"""Step to the right for each level and down for each node, pixels."""
LEFT, TOP = 14, 16


@dataclass(frozen=True)
class Place:
    """A node on the drawing; lengths in pixels."""

    id: str
    x: int
    y: int
    up: int | None
    """The parent's y, one column to the left; None for the root."""
    status: str
    best: bool
    label: str
    hint: str


class Drawing(Record):
    """All of it."""

    width: int
    height: int
    places: tuple[Place, ...]


def draw(model: WorldModel, incumbent: str | None, unit: str) -> Drawing:
    """Return the drawing of a plan, a row for each node, children below their parent, siblings by age.

    Args:
        model: The plan.
        incumbent: Id of the incumbent's node, None when there is none.
        unit: Unit of the objective.
    """
    places = list(_places(model, incumbent, unit))
    width = max(place.x + 40 + 8 * len(place.label) for place in places)
    return Drawing(width=width, height=TOP + ROW * len(places), places=tuple(places))


def _places(model: WorldModel, incumbent: str | None, unit: str) -> Iterator[Place]:
    children: dict[str, list[Node]] = {}
    for node in model.nodes:
        children.setdefault(node.parent, []).append(node)
    seed = None if model.seed is None else model.seed.objective
    start = "nothing to start from" if seed is None else f"seed program {quantity(seed.value, unit)}"
    yield Place(ROOT, LEFT, TOP, None, "root", incumbent == ROOT, f"root  {start}", "")
    # A stack instead of recursion: a lineage may be longer than Python's stack.
    waiting = [(node, 1, TOP) for node in reversed(children.get(ROOT, []))]
    y = TOP
    while waiting:
        node, depth, up = waiting.pop()
        y += ROW
        hint = one_line(node.reason or node.intent.description, 300)
        x = LEFT + COLUMN * depth
        yield Place(node.id, x, y, up, node.status, node.id == incumbent, _label(model, node, unit), hint)
        waiting += [(child, depth + 1, y) for child in reversed(children.get(node.id, []))]


def _label(model: WorldModel, node: Node, unit: str) -> str:
    best = node.best(model.goal)
    figure = None if best is None or best.objective is None else quantity(best.objective.value, unit)
    parts = [node.id, figure or f"V {node.intent.priority:.2f}", one_line(node.intent.title, 90)]
    return "  ".join(parts) + ("  (pinned)" if node.pinned else "")
