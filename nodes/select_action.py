"""select_action: people's edits are made, then the policy picks frontier nodes until `width` cycles are active."""

from typing import Any

from graph.calibration import calibrate
from graph.cycles import Cycle
from graph.policies import POLICIES, frontier_digest
from graph.routing import samples_to_draw
from graph.state import SearchState
from graph.stopping import room, stop_reason
from graph.transitions import activate
from graph.world_model import WorldModel
from nodes.services import Services
from nodes.steering import Steered, steer
from nodes.telling import Tell


async def select_action(services: Services, state: SearchState, thread: str, tell: Tell) -> dict[str, Any]:
    """Return the new active cycles and the draws of the next fan-out, or a stop with its reason."""
    config = await services.config(thread, state["config"])
    steered = await steer(services, state, await services.tree(state["tree"]), thread, tell)
    model = steered.model
    cycles = [Cycle.model_validate(cycle) for cycle in state["cycles"]]
    stop = stop_reason(
        model, config, state["spend"], state["incumbent"], active=len(cycles), request=state["stop_request"]
    )
    if stop is not None:
        return {"stop": stop, "draws": [], **await _planned(services, steered, model)}
    places = config.width - len(cycles)
    calibration = calibrate(model)
    number = state["next_cycle"]
    for node_id in POLICIES[config.policy].select(model, config, state["round"], places, calibration):
        cycles.append(_begin(model, node_id, number, state["round"] + 1))
        model = activate(model, node_id)
        tell("selected", cycle=number, node=node_id, title=model.node(node_id).intent.title)
        number += 1
    return {
        **await _planned(services, steered, model),
        "cycles": [cycle.model_dump(mode="json") for cycle in cycles],
        "next_cycle": number,
        "draws": [list(draw) for draw in samples_to_draw(cycles, config, room(state["spend"], config))],
    }


async def _planned(services: Services, steered: Steered, model: WorldModel) -> dict[str, Any]:
    return {
        "tree": await services.save_tree(model),
        "frontier": frontier_digest(model),
        "edits": steered.log,
        "steered": steered.steered,
    }


def _begin(model: WorldModel, node_id: str, number: int, round_: int) -> Cycle:
    node = model.node(node_id)
    standing = model.standing(node.parent)
    return Cycle(
        id=number,
        node=node_id,
        parent=None if standing is None else standing.solution,
        parent_objective=None if standing is None or standing.objective is None else standing.objective.value,
        predicted_gain=node.intent.predicted_gain,
        first_round=round_,
    )
