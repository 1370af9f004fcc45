"""What the harness does to the world model: select, attach evidence, close, fail. Never asked for by a reply."""

from evaluators.objective import gain
from graph.edits import replaced, retired
from graph.world_model import Evidence, Node, WorldModel, rebuilt


def plant(model: WorldModel, seed: Evidence) -> WorldModel:
    """Return the tree with the seed's measurement at its root."""
    return rebuilt(model, revision=model.revision + 1, seed=seed)


def activate(model: WorldModel, node_id: str) -> WorldModel:
    """Return the tree with a frontier node active. Raises ValueError when it is not on the frontier."""
    if node_id not in {node.id for node in model.frontier()}:
        raise ValueError(f"node {node_id} is not on the frontier")
    return model.with_nodes(replaced(model.node(node_id), status="active"))


def settle(model: WorldModel, node_id: str, evidence: Evidence, *, ended: bool = True) -> WorldModel:
    """Return the tree after a cycle on an active node: closed when a program passed, failed when none did.

    With `ended` false (the budget cut the cycle short) a node without a passing program is open again, with the
    evidence kept. A node with a fired integrity rule and no passing program is failed whatever the budget says.
    Raises ValueError when the node is not active.
    """
    node = model.node(node_id)
    if node.status != "active":
        raise ValueError(f"node {node_id} is {node.status}, not active")
    known = node.evidence if not evidence.attempts else (*node.evidence, evidence)
    settled = replaced(node, evidence=known, status="active")
    if settled.best(model.goal) is not None:
        return model.with_nodes(replaced(settled, status="closed"))
    if not ended and evidence.rule is None:
        return model.with_nodes(replaced(settled, status="open"))
    reason = evidence.cause or "no program passed"
    return retired(model.with_nodes(replaced(settled, status="failed", reason=reason)), node_id, reason)


def gain_over_parent(model: WorldModel, node: Node, evidence_value: float | None) -> float | None:
    """Return the objective / the parent's objective in the goal's direction; None when either is unknown."""
    standing = model.standing(node.parent)
    if evidence_value is None or standing is None or standing.objective is None:
        return None
    return gain(evidence_value, standing.objective.value, model.goal)
