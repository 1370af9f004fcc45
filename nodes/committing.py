"""Committing edit batches: applied whole or recorded as rejected, never half."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from graph.edits import EditBatch, Verdict, apply_batch
from graph.state import Log
from graph.world_model import WorldModel
from nodes.services import Services
from nodes.telling import Tell


@dataclass(frozen=True)
class Committed:
    """The tree after a batch, and the log of edits that tells what became of it."""

    model: WorldModel
    log: Log
    accepted: bool
    reasons: tuple[str, ...]


async def commit(  # noqa: PLR0913, PLR0917 - a batch, where it goes, and who is told
    services: Services,
    model: WorldModel,
    batch: EditBatch,
    log: Log,
    round_: int,
    note: str,
    tell: Tell,
    refused: tuple[str, ...] = (),
    inserted: Mapping[str, str] = MappingProxyType({}),
) -> Committed:
    """Apply `batch` to `model`, or, when it is `refused` for some reasons, record just that.

    A batch that changes nothing and says nothing is not logged. `inserted` is logged with a batch that is accepted: the
    nodes that it inserts, by names that other requests may use for them (graph/promised.py).
    """
    if not batch.edits and batch.summary is None and not note:
        return Committed(model, log, True, ())
    verdict = Verdict(model=None, reasons=refused) if refused else apply_batch(model, batch)
    accepted = verdict.accepted
    entry = {
        "number": log["count"] + 1,
        "round": round_,
        "origin": batch.origin,
        "batch": await services.save(batch.model_dump(mode="json")),
        "edits": len(batch.edits),
        "accepted": accepted,
        "reasons": list(verdict.reasons)[:8],
        "note": note,
        "revision": model.revision if verdict.model is None else verdict.model.revision,
    }
    tell("edits", **entry)
    return Committed(
        model=model if verdict.model is None else verdict.model,
        log=await services.extend(log, [{**entry, "inserted": dict(inserted)} if inserted and accepted else entry]),
        accepted=accepted,
        reasons=verdict.reasons,
    )
