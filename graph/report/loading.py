"""Reading runs from disk without LangGraph, for the commands that look at runs and the pages of the server."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from checkpoints.blobs import BlobStore
from checkpoints.database import open_blobs
from checkpoints.history import Snapshot, ThreadRecord, read_lineages, read_record, read_snapshot, read_states
from checkpoints.lineage import Lineage
from checkpoints.logs import read
from checkpoints.place import Place, find_place
from checkpoints.rounds import NOW
from checkpoints.steering import Request
from evaluators.errors import UsageError
from evaluators.evaluation import Evaluation
from evaluators.solution import Solution
from evaluators.task import Task
from graph.config import SearchConfig
from graph.edits import EditBatch
from graph.migrating import migrated
from graph.promised import Promises, foreseen, names_until
from graph.report.chronicle import Material
from graph.report.summary import Run
from graph.world_model import WorldModel
from nodes.accounts import no_spend
from nodes.promised import find_inserted
from nodes.records import read_config
from nodes.records import read_record as read_blob
from nodes.trees import TreeStore


def load_run(home: Place | str | None, name: str, at: str = NOW) -> Run:
    """Return the run with this name. Arguments and errors are those of `checkpoints.history.read_snapshot`."""
    folder = find_place(home)
    snapshot = read_snapshot(folder, name, at)
    blobs = open_blobs(folder)
    record = read_record(folder, snapshot.thread.uuid, at)
    return _run(folder, blobs, snapshot, record)


def load_material(home: Place | str | None, name: str, at: str = NOW) -> tuple[Run, Material]:
    """Return the run with this name, and what its chronicle is made from. Arguments and errors: see `load_run`."""
    folder = find_place(home)
    snapshot, blobs = read_snapshot(folder, name, at), open_blobs(folder)
    record = read_record(folder, snapshot.thread.uuid, at)
    run = _run(folder, blobs, snapshot, record)
    values = run.snapshot.values
    attempts, edits = ([*read(blobs, values[log])] if log in values else [] for log in ("attempts", "edits"))
    events = record.events if at == NOW else ()
    configs = {event.data[side] for event in events if event.kind == "config" for side in ("before", "after")}
    return run, Material(
        model=run.model,
        attempts=attempts,
        edits=edits,
        batches={entry["batch"]: blobs.get_json(entry["batch"]) for entry in edits},
        events=events,
        entries=run.calls,
        round=values.get("round", 0),
        waiting=run.waiting,
        configs={digest: blobs.get_json(digest) for digest in configs},
    )


def load_plan(home: Place | str | None, run: Run, base: str) -> tuple[WorldModel, Promises]:
    """Return the plan that the run's `Run.plan_base` once named, and the nodes that waited in it.

    Raises:
        StoreError: the database cannot be read, or a blob is missing.
        UsageError: there is no such plan of this run, or not any more.
    """
    folder = find_place(home)
    checkpoint, _, last = base.partition(" ")
    try:
        values = migrated(read_snapshot(folder, run.snapshot.thread.uuid, checkpoint).values)
        asked = int(last)
    except (UsageError, ValueError) as error:
        raise UsageError(
            f"the text was written from a plan that {run.name} does not have, or not any more: "
            f"write it again with `ksearch edit {run.name} --write FILE`"
        ) from error
    requests = read_record(folder, run.snapshot.thread.uuid).requests
    model, _, promises = _foreseen(open_blobs(folder), values, [item for item in requests if item.seq <= asked])
    return model, promises


def load_placed(home: Place | str | None, run: Run, recorded: EditBatch) -> EditBatch:
    """Return a batch, with names for nodes that wait or once waited, with their ids in the run's plan.

    Raises StoreError.
    """
    before = _before(open_blobs(find_place(home)), run.snapshot.values, [recorded])
    return Promises(run.promises.nodes | before).placed(recorded, run.model.next_node)


def load_all(home: Place | str | None) -> list[tuple[Snapshot, SearchConfig, Lineage | None]]:
    """Return every run, the one worked on last first, with its configuration and where it branched off."""
    folder = find_place(home)
    snapshots = read_states(folder)
    if not snapshots:
        return []
    blobs, lineages = open_blobs(folder), read_lineages(folder)
    return [(snapshot, _config(blobs, snapshot), lineages.get(snapshot.thread.uuid)) for snapshot in snapshots]


def load_solution(home: Place | str | None, run: Run) -> Solution | None:
    """Return the incumbent's program, None when nothing has passed."""
    if run.incumbent is None:
        return None
    blobs = open_blobs(find_place(home))
    return Solution.model_validate(blobs.get_json(run.incumbent["solution"]))


def _run(folder: Place, blobs: BlobStore, snapshot: Snapshot, record: ThreadRecord) -> Run:
    values = migrated(snapshot.values)
    incumbent = values.get("incumbent")
    model, waiting, promises = _foreseen(blobs, values, record.requests)
    return Run(
        snapshot=snapshot.model_copy(update={"values": values}),
        config=_config(blobs, snapshot),
        task=Task.model_validate(blobs.get_json(values["task"]["blob"])) if "task" in values else None,
        model=model,
        waiting=tuple(waiting),
        promises=promises,
        asked=max((item.seq for item in record.requests), default=0),
        spend=values.get("spend") or no_spend(),
        best=None if incumbent is None else Evaluation.model_validate(blobs.get_json(incumbent["evaluation"])),
        unknown_calls=sum(entry.unknown for entry in record.entries),
        ancestors=tuple((place, _name(folder, place)) for place in record.ancestors),
        calls=record.entries,
    )


def _foreseen(
    blobs: BlobStore, values: Mapping[str, Any], requests: Sequence[Request]
) -> tuple[WorldModel, list[EditBatch], Promises]:
    """Return what `graph.promised.foreseen` does of the requests that a state has not looked at."""
    model = TreeStore(blobs).load(values["tree"]) if "tree" in values else WorldModel()
    waiting = [item for item in requests if item.seq > values.get("steered", 0)]
    batches = [read_blob(blobs, item.data["batch"], EditBatch) for item in waiting]
    before = _before(blobs, values, batches)
    return foreseen(model, [(item.seq, batch) for item, batch in zip(waiting, batches, strict=True)], before)


def _before(blobs: BlobStore, values: Mapping[str, Any], recorded: Iterable[EditBatch]) -> dict[str, str]:
    """Return the nodes that batches name and that a state's tree has already: id by name."""
    names = names_until(recorded, values.get("steered", 0))
    return find_inserted(blobs, values["edits"], names) if names else {}


def _config(blobs: BlobStore, snapshot: Snapshot) -> SearchConfig:
    return read_config(blobs, snapshot.thread.config)


def _name(folder: Place, place: Lineage) -> str:
    return read_snapshot(folder, place.parent).thread.name
