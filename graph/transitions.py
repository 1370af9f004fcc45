"""What the harness does to the world model: select, attach evidence, close, fail. Never asked for by a reply."""

from graph.draft import Draft
from graph.world_model import ROOT, Evidence, WorldModel


def plant(model: WorldModel, seed: Evidence) -> WorldModel:
    """Return the tree with the seed's measurement at its root."""
    return Draft(model).committed(seed=seed)


def activate(model: WorldModel, node_id: str) -> WorldModel:
    """Return the tree with a frontier node active. Raises ValueError when it is not on the frontier."""
    node = model.find(node_id)
    ready = node is not None and (node.parent == ROOT or model.node(node.parent).status == "closed")
    if node is None or node.status != "open" or not ready:
        raise ValueError(f"node {node_id} is not on the frontier")
    draft = Draft(model)
    draft.change(node_id, status="active")
    return draft.committed()


def settle(model: WorldModel, node_id: str, evidence: Evidence, *, ended: bool = True) -> WorldModel:
    """Return the tree after a cycle on an active node: closed when a program passed, failed when none did.

    Failing cascades: open nodes below are pruned, pinned or not, since there is no program to build on.
    With `ended` false (the budget cut the cycle short) a node without a passing program is open again, with the
    evidence kept. A node with a fired integrity rule and no passing program is failed whatever the budget says.
    Raises ValueError when the node is not active.
    """
    node = model.find(node_id)
    if node is None or node.status != "active":
        raise ValueError(f"node {node_id} is {'unknown' if node is None else node.status}, not active")
    known = node.evidence if not evidence.attempts else (*node.evidence, evidence)
    draft = Draft(model)
    if evidence.attempts:
        draft.change(node_id, program=None)
    if any(item.objective is not None for item in known):
        draft.change(node_id, evidence=known, status="closed")
    elif not ended and evidence.rule is None:
        draft.change(node_id, evidence=known, status="open")
    else:
        reason = evidence.cause or "no program passed"
        draft.change(node_id, evidence=known, status="failed", reason=reason)
        draft.retire_below(node_id, reason)
    return draft.committed()
