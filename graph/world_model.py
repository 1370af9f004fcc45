"""The world model: a tree of optimisation intents, what became of them, and nothing else.

The root stands for the seed program. Every other node is one executable intent on its parent's best program. A tree
holds values only (no timestamps, no random ids), so two searches with equal replies and measurements have byte-equal
trees.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Literal

from pydantic import Field, model_validator

from evaluators.objective import Goal, Record, Value, gain

ROOT = "root"
NodeStatus = Literal["open", "active", "closed", "failed", "pruned"]
Origin = Literal["planner", "human", "fallback"]


class Intent(Record):
    """What to try: one optimisation idea, precise enough for a coder to write a program for it."""

    title: str = Field(min_length=1, max_length=160)
    description: str = Field(default="", max_length=8000)
    rationale: str = Field(default="", max_length=8000)
    priority: float = Field(ge=0, le=1, allow_inf_nan=False)
    """V, how promising the world model thinks it is, 0 to 1."""
    difficulty: int = Field(default=3, ge=1, le=5)
    predicted_gain: float | None = Field(default=None, gt=0, le=1e6, allow_inf_nan=False)
    """Predicted objective / parent's objective (in the goal's direction): 1.2 is 20 % better."""
    confidence: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    settings: dict[str, str] = {}
    """Knob -> value, for intents that turn a program's declared knobs."""


class Evidence(Record):
    """What one cycle found out. Written by the harness only; no edit can touch it."""

    cycle: int = Field(ge=0)
    """Number of the cycle; 0 is the seed's measurement."""
    first_round: int = Field(ge=0)
    last_round: int = Field(ge=0)
    attempts: tuple[int, ...]
    """Numbers of the cycle's attempts."""
    outcomes: dict[str, int]
    """Evaluation status -> how many attempts ended so."""
    solution: str | None = None
    """Digest of the cycle's best program; None when none passed."""
    objective: Value | None = None
    gain: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Objective / parent's objective in the goal's direction; None when either was not measured."""
    predicted_gain: float | None = None
    """What the intent predicted when the cycle began."""
    settings: dict[str, str] = {}
    """Knob values of the best program."""
    cut_short: bool = False
    """The search stopped before the cycle had ended: no verdict on the intent when nothing has passed."""
    cause: str = ""
    """Why no program passed, in one line."""
    rule: str | None = None
    """Integrity rule that fired in this cycle."""


class Node(Record):
    """One intent and its fate."""

    id: str = Field(pattern=r"^n[1-9][0-9]*$")
    parent: str
    """Id of the parent node, or `root`."""
    intent: Intent
    status: NodeStatus = "open"
    origin: Origin = "planner"
    evidence: tuple[Evidence, ...] = ()
    """One entry per cycle spent on the node, oldest first."""
    reason: str = ""
    """Why it failed or was pruned."""
    reopened: int = Field(default=0, ge=0)
    """How often the planner has re-opened it (at most once)."""
    pinned: bool = False
    """Pinned by a person: selected first, and not to be touched by the planner."""
    program: str | None = None
    """Blob of a program of a person's: the first sample of the node's next cycle."""

    @model_validator(mode="after")
    def _status_has_its_proof(self) -> "Node":
        if self.status == "closed" and all(item.objective is None for item in self.evidence):
            raise ValueError(f"node {self.id} is closed without a passing program")
        if self.status in ("failed", "pruned") and not self.reason:
            raise ValueError(f"node {self.id} is {self.status} without a reason")
        return self

    @property
    def number(self) -> int:
        """The node's age: lower is older."""
        return int(self.id[1:])

    def best(self, goal: Goal) -> Evidence | None:
        """Return the evidence with the best objective, None when no program of this node passed."""
        return best_evidence(self.evidence, goal)


def check_place(node: Node, parent: Node | None) -> None:
    """Raise ValueError when a node's status does not go with its parent's (None: the root).

    Work begins only on the root's children and on those of closed nodes, and a closed node stays closed. What is open
    must still be able to get there.
    """
    above: NodeStatus = "closed" if parent is None else parent.status
    allowed = _STATUS_ABOVE[node.status]
    if above not in allowed:
        raise ValueError(f"node {node.id} is {node.status} under {node.parent}, which is {above}")


_STATUS_ABOVE: Mapping[NodeStatus, frozenset[NodeStatus]] = {
    "open": frozenset({"open", "active", "closed"}),
    "active": frozenset({"closed"}),
    "closed": frozenset({"closed"}),
    "failed": frozenset({"closed"}),
    "pruned": frozenset({"open", "active", "closed", "failed", "pruned"}),
}


def best_evidence(evidence: tuple[Evidence, ...], goal: Goal) -> Evidence | None:
    """Return the entry with the best objective; the earlier one when equal."""

    def pick(best: Evidence | None, item: Evidence) -> Evidence | None:
        if item.objective is None:
            return best
        if best is None or best.objective is None:
            return item
        return item if gain(item.objective.value, best.objective.value, goal) > 1 else best

    return reduce(pick, evidence, None)


class WorldModel(Record):
    """The whole plan. `nodes` are in the order of insertion, so a parent always stands before its children."""

    goal: Goal = "max"
    revision: int = Field(default=0, ge=0)
    """Counts committed changes."""
    next_node: int = Field(default=1, ge=1)
    summary: str = Field(default="", max_length=20000)
    """The planner's own notes on what has been learnt."""
    seed: Evidence | None = None
    """The root's evidence: the seed program's measurement; None when the run has no seed that passed."""
    nodes: tuple[Node, ...] = ()

    @model_validator(mode="after")
    def _is_a_tree(self) -> "WorldModel":
        """Check the whole tree. Runs on every tree from outside; graph/draft.py checks changes where they are made."""
        seen: dict[str, Node] = {}
        for node in self.nodes:
            if node.id in seen:
                raise ValueError(f"node {node.id} exists twice")
            if node.parent != ROOT and node.parent not in seen:
                raise ValueError(f"node {node.id}: its parent {node.parent} does not stand before it")
            if node.number >= self.next_node:
                raise ValueError(f"node {node.id}: next_node is {self.next_node}")
            check_place(node, None if node.parent == ROOT else seen[node.parent])
            seen[node.id] = node
        return self

    def by_id(self) -> dict[str, Node]:
        """Return the nodes by id, in the order of insertion."""
        return dict(self._index())

    def find(self, node_id: str) -> Node | None:
        """Return the node, None when there is none of that id (`root` is not a node)."""
        return self._index().get(node_id)

    def node(self, node_id: str) -> Node:
        """Return the node. Raises KeyError when there is none."""
        found = self.find(node_id)
        if found is None:
            raise KeyError(node_id)
        return found

    def children(self, parent: str) -> tuple[Node, ...]:
        """Return the direct children of a node or of `root`, oldest first."""
        return tuple(self._index()[node_id] for node_id in self.child_ids().get(parent, ()))

    def child_ids(self) -> Mapping[str, Sequence[str]]:
        """Return the direct children of every node that has some, and of `root`, oldest first."""

        def make() -> dict[str, list[str]]:
            children = defaultdict[str, list[str]](list)
            for node in self.nodes:
                children[node.parent].append(node.id)
            return children

        return self._kept("_child_ids", make)

    def descendants(self, node_id: str) -> Iterator[Node]:
        """Yield everything below a node (or `root`), parents before children."""
        below = {node_id}
        for node in self.nodes:
            if node.parent in below:
                below.add(node.id)
                yield node

    def frontier(self) -> tuple[Node, ...]:
        """Return the open nodes that can be worked on: those whose parent is the root or closed; oldest first."""
        ready = {ROOT} | {node.id for node in self.nodes if node.status == "closed"}
        return tuple(node for node in self.nodes if node.status == "open" and node.parent in ready)

    def counts(self) -> dict[NodeStatus, int]:
        """Return how many nodes have each status."""
        counts: dict[NodeStatus, int] = {"open": 0, "active": 0, "closed": 0, "failed": 0, "pruned": 0}
        for node in self.nodes:
            counts[node.status] += 1
        return counts

    def standing(self, parent: str) -> Evidence | None:
        """Return the evidence that a child of `parent` starts from: its program is the parent program."""
        return self.seed if parent == ROOT else self.node(parent).best(self.goal)

    def _index(self) -> dict[str, Node]:
        return self._kept("_nodes_by_id", lambda: {node.id: node for node in self.nodes})
