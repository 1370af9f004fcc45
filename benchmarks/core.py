"""How long the pure core takes as the tree grows: `python -m benchmarks.core` prints JSON.

Each figure is the best of several runs in milliseconds: what the code costs, not what else the machine was doing.
`round_ms` is what one round of the search needs: one batch of edits, one selection with calibration, one activation
and one settled cycle.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from evaluators.objective import Value
from graph.calibration import calibrate
from graph.config import SearchConfig
from graph.draws import draw
from graph.edits import EditBatch, Insert, Prune, Update, apply_batch
from graph.policies import POLICIES
from graph.transitions import activate, settle
from graph.world_model import ROOT, Evidence, Intent, Node, WorldModel

SIZES = (10, 100, 1000, 4000)


def main() -> None:
    """Measure every size given on the command line, or the usual ones."""
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    json.dump({"unit": "ms, best of several runs", "nodes": {size: measure(size) for size in sizes}}, sys.stdout)
    print()


def measure(size: int) -> dict[str, float]:
    """Return milliseconds by operation for a tree of `size` nodes."""
    model = tree(size)
    config = SearchConfig(calibration=True)
    batch = edits(model)
    target = POLICIES["priority"].select(model, config, 1, 1, None)[0]
    active = activate(model, target)
    found = evidence(size, 1.5)
    figures = {
        "apply_batch_ms": _best(lambda: apply_batch(model, batch)),
        "calibrate_ms": _best(lambda: calibrate(model)),
        "activate_ms": _best(lambda: activate(model, target)),
        "settle_ms": _best(lambda: settle(active, target, found)),
    }
    calibration = calibrate(model)
    for name, policy in POLICIES.items():
        figures[f"select_{name}_ms"] = _best(partial(policy.select, model, config, 1, 1, calibration))
    slowest = max(figures[f"select_{name}_ms"] for name in POLICIES)
    figures["round_ms"] = round(
        sum(figures[f"{name}_ms"] for name in ("apply_batch", "calibrate", "activate", "settle")) + slowest, 3
    )
    text = model.model_dump_json()
    figures["to_json_ms"] = _best(model.model_dump_json)
    figures["from_json_and_full_check_ms"] = _best(lambda: WorldModel.model_validate_json(text))
    return figures


def _best(call: Callable[[], Any], runs: int = 15) -> float:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return round(min(times) * 1000, 3)


def tree(size: int) -> WorldModel:
    """Return a tree of `size` nodes as a long search leaves it: most are settled, a fifth is open."""
    nodes: list[Node] = []
    closed = [ROOT]
    for number in range(1, size + 1):
        parent = closed[int(draw(1, "parent", number, 0) * len(closed))]
        fate = draw(1, "fate", number, 0)
        fields: dict[str, Any] = {}
        if fate < 0.5:
            fields = {"status": "closed", "evidence": (evidence(number, 0.8 + draw(1, "gain", number, 0)),)}
            closed.append(f"n{number}")
        elif fate < 0.65:
            fields = {"status": "failed", "evidence": (evidence(number, None),), "reason": "no program passed"}
        elif fate < 0.8:
            fields = {"status": "pruned", "reason": "covered by another intent"}
        nodes.append(Node(id=f"n{number}", parent=parent, intent=intent(number), **fields))
    if all(node.status != "open" for node in nodes):
        nodes[-1] = Node(id=nodes[-1].id, parent=nodes[-1].parent, intent=nodes[-1].intent)
    return WorldModel(revision=size, next_node=size + 1, seed=evidence(0, 1.0), nodes=tuple(nodes))


def intent(number: int) -> Intent:
    """Return an intent that differs from the others."""
    return Intent(
        title=f"Intent {number}",
        description="Stage the tile in shared memory and keep two loads in flight. " * 4,
        priority=draw(1, "priority", number, 0),
        difficulty=1 + number % 5,
        predicted_gain=0.9 + draw(1, "prediction", number, 0),
    )


def evidence(cycle: int, gain: float | None) -> Evidence:
    """Return a cycle's evidence; without `gain`, no program passed."""
    return Evidence(
        cycle=cycle,
        first_round=cycle,
        last_round=cycle + 7,
        attempts=tuple(range(cycle * 8, cycle * 8 + 8)),
        outcomes={"wrong_values": 8} if gain is None else {"passed": 5, "build_error": 3},
        solution=None if gain is None else f"{cycle:064x}",
        objective=None if gain is None else Value(value=gain, low=gain, high=gain),
        gain=gain,
        predicted_gain=1.2,
    )


def edits(model: WorldModel) -> EditBatch:
    """Return what a planner asks for after a cycle: three new intents, three new priorities, one removed."""
    open_nodes = model.frontier()
    closed = [node.id for node in model.nodes if node.status == "closed"]
    parent = closed[-1] if closed else ROOT
    return EditBatch(
        origin="planner",
        edits=(
            *(Insert(parent=parent, intent=intent(10**6 + number)) for number in range(3)),
            *(Update(node=node.id, priority=0.5) for node in open_nodes[:3]),
            Prune(node=open_nodes[-1].id, reason="refuted"),
        ),
    )


if __name__ == "__main__":
    main()
