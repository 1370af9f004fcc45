"""Reading runs from disk without LangGraph, for the commands that look at runs and the pages of the server."""

from checkpoints.blobs import BlobStore
from checkpoints.database import open_blobs
from checkpoints.history import Snapshot, ThreadRecord, read_lineages, read_record, read_snapshot, read_states
from checkpoints.lineage import Lineage
from checkpoints.logs import read
from checkpoints.place import Place, find_place
from checkpoints.rounds import NOW
from evaluators.evaluation import Evaluation
from evaluators.solution import Solution
from evaluators.task import Task
from graph.config import SearchConfig
from graph.edits import EditBatch
from graph.migrating import migrated
from graph.promised import foreseen
from graph.report.chronicle import Material
from graph.report.summary import Run
from graph.world_model import WorldModel
from nodes.accounts import no_spend
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
    model = TreeStore(blobs).load(values["tree"]) if "tree" in values else WorldModel()
    requests = [item for item in record.requests if item.seq > values.get("steered", 0)]
    asked = [(item.seq, read_blob(blobs, item.data["batch"], EditBatch)) for item in requests]
    model, waiting, promises = foreseen(model, asked)
    return Run(
        snapshot=snapshot.model_copy(update={"values": values}),
        config=_config(blobs, snapshot),
        task=Task.model_validate(blobs.get_json(values["task"]["blob"])) if "task" in values else None,
        model=model,
        waiting=tuple(waiting),
        promises=promises,
        spend=values.get("spend") or no_spend(),
        best=None if incumbent is None else Evaluation.model_validate(blobs.get_json(incumbent["evaluation"])),
        unknown_calls=sum(entry.unknown for entry in record.entries),
        ancestors=tuple((place, _name(folder, place)) for place in record.ancestors),
        calls=record.entries,
    )


def _config(blobs: BlobStore, snapshot: Snapshot) -> SearchConfig:
    return read_config(blobs, snapshot.thread.config)


def _name(folder: Place, place: Lineage) -> str:
    return read_snapshot(folder, place.parent).thread.name
