"""Bringing people's edits into the plan: each batch as a whole or not at all, like any planner's."""

from dataclasses import dataclass

from graph.promised import Promises
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
    log, last, promises = state["edits"], state["steered"], Promises()
    for request in await services.home.steering.after(thread, last):
        batch = promises.placed(await services.batch(request.data["batch"]), model.next_node)
        committed = await commit(services, model, batch, log, state["round"], request.data.get("note", ""), tell)
        if committed.accepted:
            promises.keep(batch, request.seq, model.next_node)
        model, log, last = committed.model, committed.log, request.seq
    return Steered(model, log, last)
