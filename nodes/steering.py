"""Bringing people's edits into the plan: each batch as a whole or not at all, like any planner's."""

from dataclasses import dataclass

from graph.promised import Promises, inserted, names_until
from graph.state import Log, SearchState
from graph.world_model import WorldModel
from nodes.committing import commit
from nodes.services import Services
from nodes.telling import Tell


@dataclass(frozen=True)
class Steered:
    """The plan after what people asked for until now."""

    model: WorldModel
    log: Log
    steered: int
    """Number of the last request that was looked at."""


async def steer(services: Services, state: SearchState, model: WorldModel, thread: str, tell: Tell) -> Steered:
    """Return the plan with every edit that waits for it, made or recorded as rejected."""
    log, last = state["edits"], state["steered"]
    requests = await services.home.steering.after(thread, last)
    recorded = [await services.batch(request.data["batch"]) for request in requests]
    promises = Promises(await services.inserted(log, names_until(recorded, last)))
    for request, named in zip(requests, recorded, strict=True):
        batch = promises.placed(named, model.next_node)
        nodes = inserted(batch, request.seq, model.next_node)
        note = request.data.get("note", "")
        committed = await commit(services, model, batch, log, state["round"], note, tell, inserted=nodes)
        if committed.accepted:
            promises.nodes |= nodes
        model, log, last = committed.model, committed.log, request.seq
    return Steered(model, log, last)
